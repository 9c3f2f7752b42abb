// The step of a computation whose whole state changes, for weft bench checkpoint.
#include "../../../../workload/device.cuh"

//params: evolveParams
struct Params {
	unsigned long long words;
};

const u32 item = 1 << 16; // words; evolveWords in Go

// evolve makes the next state of words, an item a block.
KERNEL(256, 4) evolve(const u64 *__restrict in, u64 *__restrict out, Params p) {
	u64 begin = (u64)BLOCK_X * item, end = begin + item < p.words ? begin + item : p.words;
	for (u64 i = begin + THREAD; i < end; i += THREADS) {
		u64 x = in[i];
#pragma unroll
		for (u32 n = 0; n < 16; n++) {
			x ^= x >> 29;
			x = x * 0xbf58476d1ce4e5b9ull + i;
		}
		out[i] = x;
	}
}
