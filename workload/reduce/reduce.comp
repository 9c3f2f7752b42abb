// Sums, maxima and minima of float32 in the order that package reduce prescribes.
//: reduce_sum          -DBLOCKS -DSUM
//: reduce_max          -DBLOCKS -DMAX
//: reduce_min          -DBLOCKS -DMIN
//: reduce_fold_sum     -DSUM
//: reduce_fold_average -DSUM -DAVERAGE
//: reduce_fold_max     -DMAX
//: reduce_fold_min     -DMIN
#version 450

// A fold is an operation on values that stand for numbers: the numbers
// themselves, or for maxima and minima integers in the same order. There -0 comes
// before +0 and what is not a number at the winning end, however a device's own
// comparisons treat either.
#ifdef SUM
#define VALUE float
#define START 0.0
#define STEP(a, b) ((a) + (b))
VALUE read(uint bits) { return uintBitsToFloat(bits); }
uint write(VALUE v) { return floatBitsToUint(v); }
#else
#define VALUE uint
const uint nan = 0xffc00000; // what 0/0 is on amd64
VALUE read(uint bits) {
	bool negative = (bits & 0x80000000) != 0;
	uint place = negative ? ~bits : bits | 0x80000000;
#ifdef MAX
	return (bits & 0x7fffffff) > 0x7f800000 ? 0xffffffff : place;
#else
	return (bits & 0x7fffffff) > 0x7f800000 ? 0 : place;
#endif
}
uint write(VALUE v) {
	if (v == 0 || v == 0xffffffff)
		return nan;
	return (v & 0x80000000) != 0 ? v & 0x7fffffff : ~v;
}
#ifdef MAX
#define START read(0xff800000)
#define STEP(a, b) max(a, b)
#else
#define START read(0x7f800000)
#define STEP(a, b) min(a, b)
#endif
#endif

#ifdef BLOCKS
// A group takes two blocks of 4096 elements: lane l takes the elements i with
// i%32 = l in their order, then lanes are folded in halves.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer X { uint x[]; };
layout(std430, binding = 1) writeonly buffer Partial { uint partial[]; };
//params: blockParams
layout(push_constant) uniform Vector {
	uint n; // elements
};
shared VALUE lanes[64];

void main() {
	uint lane = gl_LocalInvocationID.x % 32, block = gl_WorkGroupID.x * 2 + gl_LocalInvocationID.x / 32;
	uint first = block * 4096, count = first < n ? min(4096, n - first) : 0;
	precise VALUE acc = START;
	for (uint i = lane; i < count; i += 32)
		acc = STEP(acc, read(x[first + i]));
	for (uint rest = 16; rest > 0; rest /= 2) {
		lanes[gl_LocalInvocationID.x] = acc;
		barrier();
		if (lane < rest)
			acc = STEP(acc, lanes[gl_LocalInvocationID.x + rest]);
		barrier();
	}
	if (lane == 0 && count > 0)
		partial[block] = write(acc);
}
#else
// One group folds all partial results, neighbours first; an odd last one moves on
// unchanged. Level after level goes into the workspace.
layout(local_size_x = 128) in;
layout(std430, binding = 0) readonly buffer Partial { uint partial[]; };
layout(std430, binding = 1) writeonly buffer Result { uint result[]; };
layout(std430, binding = 2) coherent buffer Work { uint work[]; };
//params: foldParams
layout(push_constant) uniform Partials {
	uint count, n; // partial results, and elements
};

void main() {
	bool below = false; // the level is in the workspace
	uint left = count;
	do {
		uint above = (left + 1) / 2;
		for (uint base = 0; base < above; base += 128) {
			uint i = base + gl_LocalInvocationID.x;
			precise VALUE v = START;
			if (i < above) {
				v = read(below ? work[2 * i] : partial[2 * i]);
				if (2 * i + 1 < left)
					v = STEP(v, read(below ? work[2 * i + 1] : partial[2 * i + 1]));
			}
			memoryBarrierBuffer();
			barrier(); // all have read before any writes
			if (i < above)
				work[i] = write(v);
			memoryBarrierBuffer();
			barrier();
		}
		below = true;
		left = above;
	} while (left > 1);
	if (gl_LocalInvocationID.x == 0) {
#ifdef AVERAGE
		result[0] = write(read(work[0]) / float(n));
#else
		result[0] = work[0];
#endif
	}
}
#endif
