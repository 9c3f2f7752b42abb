// Sums, maxima and minima of float32 in the order that package reduce prescribes.
#include "../device.cuh"

enum : u32 { Block = 4096, Wave = 32, NaN = 0xffc00000 }; // the NaN that 0/0 is on amd64

// Fold is an operation: a start that changes nothing, and the step. A NaN must
// come out once it has gone in; the maximum instruction would pass over it.
struct Sum {
	INLINE float start() { return 0; }
	INLINE float step(float a, float b) { return a + b; }
};
struct Max {
	INLINE float start() { return -__builtin_inff(); }
	INLINE float step(float a, float b) { return a != a || b != b ? number(NaN) : larger(a, b); }
};
struct Min {
	INLINE float start() { return __builtin_inff(); }
	INLINE float step(float a, float b) { return a != a || b != b ? number(NaN) : smaller(a, b); }
};

//params: blockParams
struct Vector {
	unsigned n; // elements
};

//params: foldParams
struct Partials {
	unsigned count, n; // partial results, and elements
};

// blocks folds a block with each warp: lane l takes the elements i with
// i%32 = l in their order, then lanes are folded in halves.
template <class Op> INLINE void blocks(const float *x, float *partial, u64 n) {
	u64 block = (u64)BLOCK_X * 8 + THREAD / 32;
	if (block * Block >= n)
		return;
	const float *from = x + block * Block + THREAD % 32;
	float acc = Op::start();
	if ((block + 1) * Block <= n) {
#pragma clang loop unroll(disable)
		for (u32 i = 0; i < Block; i += 32 * Wave) {
			float v[Wave]; // all under way before the first is needed
#pragma unroll
			for (u32 w = 0; w < Wave; w++)
				v[w] = __builtin_nontemporal_load(from + i + 32 * w);
#pragma unroll
			for (u32 w = 0; w < Wave; w++)
				acc = Op::step(acc, v[w]);
		}
	} else {
		for (u64 i = block * Block + THREAD % 32; i < n; i += 32)
			acc = Op::step(acc, x[i]);
	}
#pragma unroll
	for (u32 half = 16; half > 0; half /= 2)
		acc = Op::step(acc, from_above(acc, half));
	if (THREAD % 32 == 0)
		partial[block] = acc;
}

// fold folds all partial results, neighbours first, with one block of 1024
// threads: each takes aligned groups of Group, over and over. Where there are
// none left the start stands in, which changes nothing: partial sums are never
// -0, since they begin with +0.
enum : u32 { Group = 32 };

template <class Op> INLINE float fold(const float *partial, float *work, u64 count) {
	const float *from = partial;
	do {
		u64 above = (count + Group - 1) / Group;
		for (u64 base = 0; base < above; base += 1024) {
			u64 i = base + THREAD;
			float v[Group];
			if (i < above) {
				if ((i + 1) * Group <= count && aligned(from)) {
#pragma unroll
					for (u32 k = 0; k < Group; k += 4) {
						float4 four = *(const float4 *)(from + i * Group + k);
						v[k] = four.x, v[k + 1] = four.y, v[k + 2] = four.z, v[k + 3] = four.w;
					}
				} else {
#pragma unroll
					for (u32 k = 0; k < Group; k++)
						v[k] = i * Group + k < count ? from[i * Group + k] : Op::start();
				}
#pragma unroll
				for (u32 step = 1; step < Group; step *= 2)
#pragma unroll
					for (u32 k = 0; k < Group; k += 2 * step)
						v[k] = Op::step(v[k], v[k + step]);
			}
			__syncthreads(); // all have read before any writes
			if (i < above)
				work[i] = v[0];
			__syncthreads();
		}
		from = work, count = above;
	} while (count > 1);
	return work[0];
}

// Grid of the blocks, cut by eight; 256 threads.
KERNEL(256, 1) reduce_sum(const float *__restrict x, float *__restrict partial, Vector v) { blocks<Sum>(x, partial, v.n); }
KERNEL(256, 1) reduce_max(const float *__restrict x, float *__restrict partial, Vector v) { blocks<Max>(x, partial, v.n); }
KERNEL(256, 1) reduce_min(const float *__restrict x, float *__restrict partial, Vector v) { blocks<Min>(x, partial, v.n); }

// One block of 1024 threads, with a workspace as large as the partial results.
#define FOLD(name, value) \
	KERNEL(1024, 1) reduce_fold_##name(const float *partial, float *result, float *work, Partials p) { \
		float x = value; \
		if (THREAD == 0) \
			*result = x; \
	}
FOLD(sum, fold<Sum>(partial, work, p.count))
FOLD(average, fold<Sum>(partial, work, p.count) / (float)p.n)
FOLD(max, fold<Max>(partial, work, p.count))
FOLD(min, fold<Min>(partial, work, p.count))
