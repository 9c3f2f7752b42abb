// Products of the values of polynomials, as package zk has them.
#include "field/fr.cuh"

//params: productParams
struct ProductParams {
	unsigned n; // values
};

KERNEL(256, 1) zk_product(const Fr *__restrict a, const Fr *__restrict b, const Fr *__restrict c, Fr *__restrict after, ProductParams p) {
	u32 i = BLOCK_X * THREADS + THREAD;
	if (i < p.n)
		after[i] = sub(mul(a[i], b[i]), c[i]);
}
