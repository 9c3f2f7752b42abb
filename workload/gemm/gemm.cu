// C = A·B in float32, every element one chain of fused multiply-adds in rising
// order of the inner index from zero, as on a CPU with AVX2: the same bits.
#include "../../internal/panel/tile.cuh"

struct SumProduct {
	enum : u32 { Unroll = 8 };
	INLINE float zero() { return 0; }
	INLINE float start() { return 0; }
	INLINE float step(float acc, float a, float b) { return __builtin_fmaf(a, b, acc); }
	INLINE bool doubtful(float) { return false; }
	INLINE float settle(const float *, const float *, u32, u32) { return 0; }
};

KERNEL(256, 2) gemm_rows(const float *__restrict a, const float *__restrict b, float *__restrict c, Sizes size) {
	rows_product<SumProduct, 128>(c, a, b, size);
}

KERNEL(64, 8) gemm_rows_small(const float *__restrict a, const float *__restrict b, float *__restrict c, Sizes size) {
	rows_product<SumProduct, 64>(c, a, b, size);
}
