// What the kernels of the workloads use of CUDA C, for a clang that has none of
// NVIDIA's headers. Kernels take the buffers of a task's uses in their order,
// the workspace if there is one, and the parameters as a structure by value, which internal/tools/weftparams
// declares.
//
// Nothing here or in a kernel may be fused or reordered by the compiler: the
// flags of ptx.sh see to it, and where a fused multiply-add is meant it is
// written as one.
//
// Tests compile kernels for the host, with testdata/host.h in place of this.
#pragma once
#ifndef __CUDA__
#include "testdata/host.h"
#else

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define KERNEL(threads, blocks) extern "C" __global__ void __attribute__((launch_bounds(threads, blocks)))
#define INLINE static inline __device__ __attribute__((always_inline))

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float float4 __attribute__((ext_vector_type(4)));
typedef float float2 __attribute__((ext_vector_type(2)));
typedef u32 uint4 __attribute__((ext_vector_type(4)));

#define THREAD ((u32)__nvvm_read_ptx_sreg_tid_x())
#define THREADS ((u32)__nvvm_read_ptx_sreg_ntid_x())
#define BLOCK_X ((u32)__nvvm_read_ptx_sreg_ctaid_x())
#define BLOCK_Y ((u32)__nvvm_read_ptx_sreg_ctaid_y())
#define BLOCKS_X ((u32)__nvvm_read_ptx_sreg_nctaid_x())
#define BLOCKS_Y ((u32)__nvvm_read_ptx_sreg_nctaid_y())
#define BLOCK_Z ((u32)__nvvm_read_ptx_sreg_ctaid_z())
#define BLOCKS_Z ((u32)__nvvm_read_ptx_sreg_nctaid_z())

INLINE u32 min(u32 a, u32 b) { return a < b ? a : b; }

// larger and smaller pass over what is not a number, and order -0 before +0; largest
// is not a number if either is none.
INLINE float larger(float a, float b) { return __nvvm_fmax_f(a, b); }
INLINE float smaller(float a, float b) { return __nvvm_fmin_f(a, b); }
INLINE float largest(float a, float b) { return a != a ? a : b != b ? b : larger(a, b); }

INLINE u32 bits(float x) { return __builtin_bit_cast(u32, x); }
INLINE float number(u32 x) { return __builtin_bit_cast(float, x); }

// funnel returns the upper word of the two shifted left by n < 32.
INLINE u32 funnel(u32 upper, u32 lower, u32 n) {
	u32 out;
	asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(lower), "r"(upper), "r"(n));
	return out;
}

// The value of the lane so many below or above in the warp; the ends keep theirs.
INLINE u32 from_below(u32 x, u32 by) { return __nvvm_shfl_sync_up_i32(~0u, x, by, 0); }
INLINE u32 from_above(u32 x, u32 by) { return __nvvm_shfl_sync_down_i32(~0u, x, by, 31); }
INLINE float from_above(float x, u32 by) { return number(from_above(bits(x), by)); }

// read_once reads a word that is not read again soon: it is the first to leave caches.
INLINE u32 read_once(const u32 *p) {
	u32 out;
	asm("ld.global.cs.u32 %0, [%1];" : "=r"(out) : "l"(p));
	return out;
}

// aligned says whether a pointer may be read 16 bytes at a time.
INLINE bool aligned(const void *p) { return ((u64)p & 15) == 0; }

// tanh is expm1(2x)/(expm1(2x)+2) by a polynomial, as in Go: no instruction's own
// approximation.
INLINE float tanh(float x) {
	const float shift = 3 << 22, high = 0x1.62ep-1f, low = (float)(0x1.62e42fefa39efp-1 - 0x1.62ep-1);
	float y = 2 * (x < -9.02f ? -9.02f : x > 9.02f ? 9.02f : x); // a NaN stays
	float m = y * 0x1.71547652b82fep+0f + shift, n = m - shift;
	float r = y - n * high - n * low;
	float p = r * (1.0f / 5040) + 1.0f / 720;
	p = r * p + 1.0f / 120;
	p = r * p + 1.0f / 24;
	p = r * p + 1.0f / 6;
	p = r * p + 0.5f;
	p = r * r * p + r;
	float s = number((bits(m) << 23) + 0x3f800000); // 2ⁿ
	float e = s * p + (s - 1);
	return e / (e + 2);
}
#endif
