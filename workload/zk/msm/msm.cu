// Multiples of points are added up by Pippenger's algorithm, as gpu.go describes. Every kernel
// has an item of its own for each thread and needs no other thread, so that this is also C++ for
// the host, where a test runs it.
#include "../field/fr.cuh"
#include "curve.cuh"

#ifdef __CUDA__
enum : u32 { Threads = 128 };
#define ENTRY KERNEL(Threads, 1)
#define ITEM (BLOCK_X * Threads + THREAD)
#define WINDOW BLOCK_Y
INLINE u32 claim(u32 *at) {
	u32 was;
	asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(was) : "l"(at) : "memory");
	return was;
}
#else
static u32 item_x, item_y;
#define ENTRY static void
#define ITEM item_x
#define WINDOW item_y
static u32 claim(u32 *at) { return (*at)++; }
#endif

//params: gpuParams
struct Params {
	unsigned points, parts; // of the range
	unsigned multiples; // of each point, in the table of points
	unsigned bits, windows, buckets; // buckets of a window; windows of the digits that go with one multiple
	unsigned last; // bits of the last window
	unsigned clear; // words that are zero at first
	unsigned sorted, sums; // where the sorted points are, and the sums of buckets
	unsigned segment, segments; // entries of a segment (or doublings of a pair), and segments of a window
	unsigned entries; // of the list that is read, in a window
	unsigned from, from_sums, to, to_sums; // where lists are: buckets, and sums
};

enum : u32 { Negative = 1u << 31, Clear = 64, Chunk = 64 };

// clear sets counts and sums of buckets to zero, which is infinity.
ENTRY msm_clear(const u32 *, const u32 *, u32 *, u32 *work, Params p) {
	u64 from = (u64)ITEM * Clear;
	for (u64 i = from; i < from + Clear && i < p.clear; i++)
		work[i] = 0;
}

// Digits takes a scalar's digits from the lowest on. A digit is from −B+1 to B for B buckets.
struct Digits {
	Fr number;
	u32 at, carry;

	INLINE Digits of(const u32 *scalars, u32 i) { return {to_number(((const Fr *)scalars)[i]), 0, 0}; }
};

// next returns the magnitude of the next digit, the one of window w, and its sign in bit 31.
INLINE u32 next(Digits &d, const Params &p, u32 w) {
	u32 bits = w % p.windows == p.windows - 1 ? p.last : p.bits;
	u32 word = d.at / 32, low = word < 8 ? d.number.v[word] : 0, high = word < 7 ? d.number.v[word + 1] : 0;
	u32 digit = (u32)((((u64)high << 32 | low) >> (d.at % 32)) & ((1u << bits) - 1)) + d.carry;
	d.at += bits;
	d.carry = digit > 1u << (bits - 1);
	return d.carry ? ((1u << bits) - digit) | Negative : digit;
}

// count counts the digits of all scalars by window and bucket.
ENTRY msm_count(const u32 *, const u32 *scalars, u32 *, u32 *work, Params p) {
	if (ITEM >= p.points)
		return;
	Digits d = Digits::of(scalars, ITEM);
	for (u32 w = 0; w < p.windows * p.multiples; w++)
		if (u32 m = next(d, p, w) & ~Negative)
			claim(work + (u64)(w % p.windows) * (p.buckets + 1) + m);
}

// chunks adds up counts, by chunks.
ENTRY msm_chunks(const u32 *, const u32 *, u32 *, u32 *work, Params p) {
	if (ITEM >= p.entries)
		return;
	const u32 *counts = work + (u64)WINDOW * (p.buckets + 1);
	u32 sum = 0;
	for (u32 i = ITEM * Chunk; i < (ITEM + 1) * Chunk && i <= p.buckets; i++)
		sum += counts[i];
	work[p.to + WINDOW * p.entries + ITEM] = sum;
}

// offsets turns the sums of chunks of a window into the places where chunks begin.
ENTRY msm_offsets(const u32 *, const u32 *, u32 *, u32 *work, Params p) {
	if (ITEM >= p.windows)
		return;
	u32 sum = 0, *chunks = work + p.to + ITEM * p.entries;
	for (u32 i = 0; i < p.entries; i++) {
		u32 n = chunks[i];
		chunks[i] = sum;
		sum += n;
	}
}

// starts turns counts into the places where buckets begin.
ENTRY msm_starts(const u32 *, const u32 *, u32 *, u32 *work, Params p) {
	if (ITEM >= p.entries)
		return;
	u32 *counts = work + (u64)WINDOW * (p.buckets + 1), sum = work[p.to + WINDOW * p.entries + ITEM];
	for (u32 i = ITEM * Chunk; i < (ITEM + 1) * Chunk && i <= p.buckets; i++) {
		u32 n = counts[i];
		counts[i] = sum;
		sum += n;
	}
}

// scatter puts the points of a bucket next to one another. Counts then hold the ends of buckets. The
// order of points within a bucket depends on chance; their sum does not.
ENTRY msm_scatter(const u32 *, const u32 *scalars, u32 *, u32 *work, Params p) {
	if (ITEM >= p.points)
		return;
	Digits d = Digits::of(scalars, ITEM);
	for (u32 w = 0; w < p.windows * p.multiples; w++) {
		u32 digit = next(d, p, w), m = digit & ~Negative, window = w % p.windows;
		if (m) {
			u32 at = claim(work + (u64)window * (p.buckets + 1) + m);
			work[p.sorted + (u64)window * p.points * p.multiples + at] = (ITEM * p.multiples + w / p.windows) | (digit & Negative);
		}
	}
}

// Runs are sums of neighbours in one bucket, in a segment of a list. The first and the last run
// may go on in other segments: they are the next list. All others are whole buckets.
template <class F> struct Runs {
	Params p;
	u32 *work, *keys;
	Sum<F> *sums, *buckets;
	u32 bucket, first;
	Sum<F> sum;
};

template <class F> INLINE Runs<F> runs(u32 *work, Params p, u32 item, u32 window) {
	u64 at = 2 * ((u64)window * p.segments + item);
	u32 *keys = work + p.to + at;
	Sum<F> *sums = (Sum<F> *)(work + p.to_sums) + at;
	if (p.segments > 1)
		keys[0] = keys[1] = 0;
	return {p, work, keys, sums, (Sum<F> *)(work + p.sums) + (u64)window * p.buckets - 1, 0, 1, Sum<F>::infinity()};
}

// end ends a run, the last one of the segment or another.
template <class F> INLINE void end(Runs<F> &r, bool last) {
	if (!r.bucket)
		return;
	if (r.p.segments == 1 || (!r.first && !last)) {
		r.buckets[r.bucket] = r.sum;
	} else {
		u32 at = r.first ? 0 : 1;
		r.keys[at] = r.bucket;
		r.sums[at] = r.sum;
	}
	r.first = 0;
	r.sum = Sum<F>::infinity();
}

// points adds up points in the order of buckets, a segment of a window to an item.
template <class F> INLINE void add_points(const u32 *points, u32 *work, Params p, u32 item, u32 window) {
	if (item >= p.segments)
		return;
	Runs<F> r = runs<F>(work, p, item, window);
	const u32 *ends = work + (u64)window * (p.buckets + 1), *sorted = work + p.sorted + (u64)window * p.points * p.multiples;
	u32 lo = item * p.segment, hi = lo + p.segment;
	if (hi > ends[p.buckets])
		hi = ends[p.buckets];
	if (lo >= hi)
		return;
	u32 below = 0, m = p.buckets; // the bucket of lo is the first that ends behind it
	while (below + 1 < m) {
		u32 middle = (below + m) / 2;
		if (ends[middle] > lo)
			m = middle;
		else
			below = middle;
	}
	r.bucket = m;
	u32 stop = ends[m];
	for (u32 i = lo; i < hi; i++) {
		if (i >= stop) {
			end(r, false);
			while (i >= stop)
				stop = ends[++r.bucket];
		}
		u32 entry = sorted[i];
		Affine<F> q = ((const Affine<F> *)points)[entry & ~Negative];
		if (entry & Negative)
			q.y = neg(q.y);
		if (!is_infinity(q))
			accumulate(r.sum, q);
	}
	end(r, true);
}

// add_sums adds up what segments of the list before left over.
template <class F> INLINE void add_sums(u32 *work, Params p, u32 item, u32 window) {
	if (item >= p.segments)
		return;
	Runs<F> r = runs<F>(work, p, item, window);
	const u32 *keys = work + p.from + (u64)window * p.entries;
	const Sum<F> *sums = (const Sum<F> *)(work + p.from_sums) + (u64)window * p.entries;
	for (u32 i = item * p.segment; i < (item + 1) * p.segment && i < p.entries; i++) {
		if (keys[i] && keys[i] != r.bucket) {
			end(r, false);
			r.bucket = keys[i];
		}
		if (keys[i])
			accumulate(r.sum, sums[i]);
	}
	end(r, true);
}

// weigh adds up a segment of buckets, each as often as its number says: Σ (b+1) S_b, by sums of
// suffixes within the segment, and what all of them have in common by doubling.
template <class F> INLINE void weigh(u32 *work, Params p, u32 item, u32 window) {
	if (item >= p.segments)
		return;
	const Sum<F> *buckets = (const Sum<F> *)(work + p.sums) + (u64)window * p.buckets + item * p.segment;
	Sum<F> suffix = Sum<F>::infinity(), sum = suffix, common = suffix;
	for (u32 i = p.segment; i-- > 0;) {
		accumulate(suffix, buckets[i]);
		accumulate(sum, suffix);
	}
	u32 n = item * p.segment;
	for (u32 bit = p.buckets; bit > 0; bit >>= 1) {
		common = twice(common);
		if (n & bit)
			accumulate(common, suffix);
	}
	accumulate(sum, common);
	((Sum<F> *)(work + p.to_sums))[(u64)window * p.segments + item] = sum;
}

// fold adds up neighbours.
template <class F> INLINE void fold(u32 *work, Params p, u32 item, u32 window) {
	if (item >= p.segments)
		return;
	const Sum<F> *from = (const Sum<F> *)(work + p.from_sums) + (u64)window * p.entries;
	Sum<F> sum = Sum<F>::infinity();
	for (u32 i = item * p.segment; i < (item + 1) * p.segment && i < p.entries; i++)
		accumulate(sum, from[i]);
	((Sum<F> *)(work + p.to_sums))[(u64)window * p.segments + item] = sum;
}

// pairs adds up pairs of windows, or of what pairs made of them, the higher one after as many
// doublings as there are bits between them.
template <class F> INLINE void pairs(u32 *work, Params p, u32 item) {
	if (item >= p.segments)
		return;
	const Sum<F> *from = (const Sum<F> *)(work + p.from_sums) + 2 * item;
	Sum<F> sum = 2 * item + 1 < p.entries ? from[1] : Sum<F>::infinity();
	for (u32 i = 0; i < p.segment; i++)
		sum = twice(sum);
	accumulate(sum, from[0]);
	((Sum<F> *)(work + p.to_sums))[item] = sum;
}

// finish writes the sum in affine coordinates. The partial sums behind it are infinity.
template <class F> INLINE void finish(u32 *out, const u32 *work, Params p, u32 item) {
	if (item < p.parts)
		((Affine<F> *)out)[item] = item == 0 ? affine(*(const Sum<F> *)(work + p.from_sums)) : Affine<F>{F::zero(), F::zero()};
}

#define GROUP(name, F) \
	ENTRY msm_##name##_points(const u32 *points, const u32 *, u32 *, u32 *work, Params p) { add_points<F>(points, work, p, ITEM, WINDOW); } \
	ENTRY msm_##name##_sums(const u32 *, const u32 *, u32 *, u32 *work, Params p) { add_sums<F>(work, p, ITEM, WINDOW); } \
	ENTRY msm_##name##_weigh(const u32 *, const u32 *, u32 *, u32 *work, Params p) { weigh<F>(work, p, ITEM, WINDOW); } \
	ENTRY msm_##name##_fold(const u32 *, const u32 *, u32 *, u32 *work, Params p) { fold<F>(work, p, ITEM, WINDOW); } \
	ENTRY msm_##name##_pairs(const u32 *, const u32 *, u32 *, u32 *work, Params p) { pairs<F>(work, p, ITEM); } \
	ENTRY msm_##name##_finish(const u32 *, const u32 *, u32 *out, u32 *work, Params p) { finish<F>(out, work, p, ITEM); }
GROUP(g1, Fp)
GROUP(g2, Fp2)
