// Philox4x32-10, as package philox has it: the same words, and the same numbers
// of them.
#pragma once
#include "../../workload/device.cuh"

// philox returns the four words that a counter is assigned under a key.
INLINE uint4 philox(uint4 c, u32 k0, u32 k1) {
#pragma unroll
	for (int round = 0; round < 10; round++) {
		u64 p0 = (u64)0xD2511F53 * c.x, p1 = (u64)0xCD9E8D57 * c.z;
		c = {(u32)(p1 >> 32) ^ c.y ^ k0, (u32)p1, (u32)(p0 >> 32) ^ c.w ^ k1, (u32)p0};
		k0 += 0x9E3779B9, k1 += 0xBB67AE85;
	}
	return c;
}

// symmetric maps a word to the open interval (-1, 1); no result is rounded.
INLINE float symmetric(u32 word) { return ((float)(word >> 9) + 0.5f) / (1 << 22) - 1; }
