// C[i,j] = max over p of A[i,p] + B[p,j] in float32.
#include "../../internal/panel/tile.cuh"

struct MaxPlus {
	enum : u32 { Unroll = 2 }; // with more, registers do not suffice
	INLINE float zero() { return -__builtin_inff(); }
	INLINE float start() { return -__builtin_inff(); }
	INLINE float step(float acc, float a, float b) { return larger(acc, a + b); }

	// Of zeros of both signs the one with the lowest p is the result, while the
	// maximum instruction prefers the positive one: such an element is looked at
	// again. Where there are many zeros the first is soon found.
	INLINE bool doubtful(float acc) { return bits(acc) == 0; }
	INLINE float settle(const float *a, const float *b, u32 k, u32 n) {
		for (u32 p = 0; p < k; p++) {
			float s = a[p] + b[(u64)p * n];
			if (s == 0)
				return s;
		}
		return 0;
	}
};

// The kernels: rows_product is in internal/panel/tile.cuh.

KERNEL(256, 2) tropical_rows(const float *__restrict a, const float *__restrict b, float *__restrict c, Sizes size) {
	rows_product<MaxPlus, 128>(c, a, b, size);
}

KERNEL(64, 8) tropical_rows_small(const float *__restrict a, const float *__restrict b, float *__restrict c, Sizes size) {
	rows_product<MaxPlus, 64>(c, a, b, size);
}
