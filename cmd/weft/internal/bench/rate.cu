// Kernels that measure multiplications a second: of words, and of scalars of BN254.
#include "../../../../workload/zk/field/fr.cuh"

//params: rateParams
struct Params {
	unsigned rounds;
};

// rate_words multiplies and adds words, eight times a round, where nothing waits for memory. It makes
// sixteen rounds at a time, of which there must be a multiple: counting takes as long as a few of them.
KERNEL(256, 1) rate_words(const u64 *__restrict in, u64 *__restrict out, Params p) {
	u32 i = BLOCK_X * THREADS + THREAD;
	u64 x[8];
	for (u32 k = 0; k < 8; k++)
		x[k] = in[4 * i + k % 4] + k;
	u32 by = (u32)in[4 * i] | 1;
	for (u32 n = 0; n < p.rounds; n += 16)
#pragma unroll
		for (u32 k = 0; k < 16 * 8; k++)
			asm volatile("mad.wide.u32 %0, %1, %2, %0;" : "+l"(x[k % 8]) : "r"((u32)x[k % 8]), "r"(by));
	for (u32 k = 0; k < 4; k++)
		out[4 * i + k] = x[k] ^ x[k + 4];
}

// rate_products multiplies a scalar by another, again and again, two chains at a time.
KERNEL(256, 1) rate_products(const Fr *__restrict in, Fr *__restrict out, Params p) {
	u32 i = BLOCK_X * THREADS + THREAD;
	Fr by = in[i], x = by, y = mul(by, by);
	for (u32 n = 0; n < p.rounds; n++) {
		x = mul(x, by);
		y = mul(y, by);
	}
	out[i] = add(x, y);
}
