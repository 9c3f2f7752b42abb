// What device.cuh has, for the host: kernels of CUDA C run with the threads of a block in turn.
#pragma once
#include "../zk/field/testdata/blocks.h"
#include <math.h>

typedef unsigned char u8;
typedef float float4 __attribute__((ext_vector_type(4)));

INLINE u32 min(u32 a, u32 b) { return a < b ? a : b; }
INLINE float number(u32 x) { return __builtin_bit_cast(float, x); }
INLINE u32 read_once(const u32 *p) { return *p; }
INLINE bool aligned(const void *p) { return ((u64)p & 15) == 0; }

// All threads of a block exchange words, or none does.
INLINE u32 __nvvm_shfl_sync_bfly_i32(u32, u32 x, u32 by, u32) {
	static u32 words[MaxThreads];
	words[thread_now] = x;
	threads_wait();
	u32 other = words[thread_now ^ by];
	threads_wait();
	return other;
}

INLINE float __nvvm_rsqrt_approx_ftz_f(float x) { return 1 / sqrtf(x); }
INLINE float __nvvm_sqrt_rn_f(float x) { return sqrtf(x); }
INLINE double __nvvm_sqrt_rn_d(double x) { return sqrt(x); }

static void *buffer[12], *params;

// serve runs a kernel on what comes in, as internal/workloadtest writes it: a header, the parameters and
// the buffers. The buffers go out.
static int serve(size_t size, void (*kernel)()) {
	struct {
		u32 x, y, threads, params, buffers, unused;
		u64 bytes[12];
	} h;
	while (fread(&h, sizeof h, 1, stdin) == 1) {
		if (h.buffers > 12 || h.params != size)
			return 2;
		params = read_all(h.params);
		for (u32 i = 0; i < h.buffers; i++)
			buffer[i] = read_all(h.bytes[i]);
		run_blocks(h.x, h.y, h.threads, kernel);
		for (u32 i = 0; i < h.buffers; i++) {
			if (fwrite(buffer[i], 1, h.bytes[i], stdout) != h.bytes[i])
				return 3;
			free(buffer[i]);
		}
		free(params);
		if (fflush(stdout))
			return 3;
	}
	return 0;
}
