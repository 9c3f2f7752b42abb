// Multiples of points are added up by Pippenger's algorithm, as gpu.go describes: what msm.cu
// does, with the same names.
//: msm_clear -DCLEAR
//: msm_count -DCOUNT
//: msm_chunks -DCHUNKS
//: msm_offsets -DOFFSETS
//: msm_starts -DSTARTS
//: msm_scatter -DSCATTER
//: msm_g1_points -DPOINTS -DF=Fp -O0
//: msm_g1_sums -DSUMS -DF=Fp -O0
//: msm_g1_weigh -DWEIGH -DF=Fp -O0
//: msm_g1_fold -DFOLD -DF=Fp -O0
//: msm_g1_pairs -DPAIRS -DF=Fp -O0
//: msm_g1_finish -DFINISH -DF=Fp -O0
//: msm_g2_points -DPOINTS -DF=Fp2 -O0
//: msm_g2_sums -DSUMS -DF=Fp2 -O0
//: msm_g2_weigh -DWEIGH -DF=Fp2 -O0
//: msm_g2_fold -DFOLD -DF=Fp2 -O0
//: msm_g2_pairs -DPAIRS -DF=Fp2 -O0
//: msm_g2_finish -DFINISH -DF=Fp2 -O0
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;

//params: gpuParams
layout(push_constant) uniform Params {
	uint points, parts; // of the range
	uint multiples; // of each point, in the table of points
	uint bits, windows, buckets; // buckets of a window; windows of the digits that go with one multiple
	uint last; // bits of the last window
	uint clear; // words that are zero at first
	uint sorted, sums; // where the sorted points are, and the sums of buckets
	uint segment, segments; // entries of a segment (or doublings of a pair), and segments of a window
	uint entries; // of the list that is read, in a window
	uint from, from_sums, to, to_sums; // where lists are: buckets, and sums
};

const uint Negative = 0x80000000u, Clear = 64, Chunk = 64;
layout(std430, binding = 3) buffer Work { uint work[]; };

#ifdef F
#include "curve.glsl"
layout(std430, binding = 0) readonly buffer Points { Affine given[]; };
layout(std430, binding = 2) writeonly buffer Out { Affine result[]; };
layout(std430, binding = 3) buffer WorkSums { Sum all_sums[]; };

// sum_at is the index of the sums that begin at a word.
uint sum_at(uint word) { return word / uint(SUM_WORDS); }
#else
#include "../field/fr.glsl"
layout(std430, binding = 1) readonly buffer Scalars { Fr scalars[]; };

// What is left of a scalar, and what its digits so far carry.
Fr number;
uint carry;

// next_digit returns the magnitude of the next digit, the one of window w, and its sign in bit 31.
uint next_digit(uint w) {
	uint width = w % windows == windows - 1 ? last : bits;
	uint digit = (number.v[0] & ((1u << width) - 1)) + carry;
	for (uint i = 0; i < 7; i++)
		number.v[i] = number.v[i] >> width | number.v[i + 1] << (32 - width);
	number.v[7] >>= width;
	carry = digit > 1u << (width - 1) ? 1 : 0;
	return carry != 0 ? ((1u << width) - digit) | Negative : digit;
}
#endif

#if defined(POINTS) || defined(SUMS)
// A run is the sum of neighbours in one bucket, in a segment of a list. The first and the last run
// may go on in other segments: they are the next list. All others are whole buckets.
uint bucket = 0;
bool first = true;
Sum run;

// end ends a run, the last one of the segment or another.
void end(uint item, uint window, bool ends) {
	if (bucket == 0)
		return;
	if (segments == 1 || (!first && !ends)) {
		all_sums[sum_at(sums) + window * buckets + bucket - 1] = run;
	} else {
		uint at = 2 * (window * segments + item) + (first ? 0 : 1);
		work[to + at] = bucket;
		all_sums[sum_at(to_sums) + at] = run;
	}
	first = false;
	run = infinity();
}
#endif

void main() {
	uint item = gl_GlobalInvocationID.x, window = gl_GlobalInvocationID.y;
#if defined(CLEAR)
	for (uint i = item * Clear; i < (item + 1) * Clear && i < clear; i++)
		work[i] = 0;
#elif defined(COUNT) || defined(SCATTER)
	if (item >= points)
		return;
	number = to_number(scalars[item]);
	carry = 0;
	for (uint w = 0; w < windows * multiples; w++) {
		uint digit = next_digit(w), m = digit & ~Negative, of = w % windows;
		if (m != 0) {
			uint at = atomicAdd(work[of * (buckets + 1) + m], 1);
#ifdef SCATTER
			work[sorted + of * points * multiples + at] = (item * multiples + w / windows) | (digit & Negative);
#endif
		}
	}
#elif defined(CHUNKS)
	if (item >= entries)
		return;
	uint counts = window * (buckets + 1), sum = 0;
	for (uint i = item * Chunk; i < (item + 1) * Chunk && i <= buckets; i++)
		sum += work[counts + i];
	work[to + window * entries + item] = sum;
#elif defined(OFFSETS)
	if (item >= windows)
		return;
	uint sum = 0, chunks = to + item * entries;
	for (uint i = 0; i < entries; i++) {
		uint n = work[chunks + i];
		work[chunks + i] = sum;
		sum += n;
	}
#elif defined(STARTS)
	if (item >= entries)
		return;
	uint counts = window * (buckets + 1), sum = work[to + window * entries + item];
	for (uint i = item * Chunk; i < (item + 1) * Chunk && i <= buckets; i++) {
		uint n = work[counts + i];
		work[counts + i] = sum;
		sum += n;
	}
#elif defined(POINTS)
	if (item >= segments)
		return;
	if (segments > 1) {
		uint at = to + 2 * (window * segments + item);
		work[at] = work[at + 1] = 0;
	}
	run = infinity();
	uint ends = window * (buckets + 1), lo = item * segment, hi = min(lo + segment, work[ends + buckets]);
	if (lo >= hi)
		return;
	uint below = 0;
	bucket = buckets; // the bucket of lo is the first that ends behind it
	while (below + 1 < bucket) {
		uint middle = (below + bucket) / 2;
		if (work[ends + middle] > lo)
			bucket = middle;
		else
			below = middle;
	}
	uint stop = work[ends + bucket];
	for (uint i = lo; i <= hi; i++) { // once more, to end the last run
		if (i >= stop || i == hi) {
			end(item, window, i == hi);
			if (i == hi)
				break;
			while (i >= stop)
				stop = work[ends + ++bucket];
		}
		uint entry = work[sorted + window * points * multiples + i];
		Affine q = given[entry & ~Negative];
		if (!is_infinity(q)) {
			if ((entry & Negative) != 0)
				q.y = neg(q.y);
			accumulate(run, q);
		}
	}
#elif defined(SUMS)
	if (item >= segments)
		return;
	if (segments > 1) {
		uint at = to + 2 * (window * segments + item);
		work[at] = work[at + 1] = 0;
	}
	run = infinity();
	uint lo = item * segment, hi = min(lo + segment, entries), keys = from + window * entries, list = sum_at(from_sums) + window * entries;
	for (uint i = lo; i <= hi; i++) { // once more, to end the last run
		uint key = i < hi ? work[keys + i] : 0;
		if (i == hi || (key != 0 && key != bucket)) {
			end(item, window, i == hi);
			bucket = key;
		}
		if (key != 0)
			accumulate(run, all_sums[list + i]);
	}
#elif defined(WEIGH)
	if (item >= segments)
		return;
	// First the sum of each suffix is added to the sum; then the multiple of the segment's sum that
	// its buckets have in common is made by doubling, and added too. There is one addition in the
	// code, because compilers put each where it is called.
	uint list = sum_at(sums) + window * buckets + item * segment, weighed = 2 * segment, made = weighed + 2 * (bits - 1);
	Sum suffix = infinity(), sum = suffix, multiple = suffix;
	for (uint i = 0; i <= made; i++) {
		bool odd = (i & 1) != 0;
		Sum left, right;
		if (i < weighed) {
			left = odd ? sum : suffix;
			right = suffix;
			if (!odd)
				right = all_sums[list + segment - 1 - i / 2];
		} else if (i < made) {
			if (odd && (item * segment >> (made - i) / 2 & 1) == 0)
				continue;
			left = multiple;
			right = odd ? suffix : multiple;
		} else {
			left = sum;
			right = multiple;
		}
		accumulate(left, right);
		if (i >= weighed && i < made)
			multiple = left;
		else if (odd || i == made)
			sum = left;
		else
			suffix = left;
	}
	all_sums[sum_at(to_sums) + window * segments + item] = sum;
#elif defined(FOLD)
	if (item >= segments)
		return;
	uint list = sum_at(from_sums) + window * entries;
	Sum sum = infinity();
	for (uint i = item * segment; i < (item + 1) * segment && i < entries; i++)
		accumulate(sum, all_sums[list + i]);
	all_sums[sum_at(to_sums) + window * segments + item] = sum;
#elif defined(PAIRS)
	if (item >= segments)
		return;
	uint list = sum_at(from_sums) + 2 * item;
	Sum sum = infinity();
	if (2 * item + 1 < entries)
		sum = all_sums[list + 1];
	for (uint i = 0; i < segment; i++)
		sum = twice(sum);
	accumulate(sum, all_sums[list]);
	all_sums[sum_at(to_sums) + item] = sum;
#elif defined(FINISH)
	if (item >= parts)
		return;
	Sum sum = infinity();
	if (item == 0)
		sum = all_sums[sum_at(from_sums)];
	result[item] = affine(sum);
#endif
}
