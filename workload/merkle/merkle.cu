// Merkle trees of SHA-256 (FIPS 180-4), a hash to a thread.
#include "../device.cuh"

enum Mode : u32 { RFC6962, Dup };

// Node is a digest or a leaf as eight big-endian words.
struct Node {
	u32 w[8];
};

__constant__ const u32 constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

INLINE u32 right(u32 x, u32 n) { return funnel(x, x, 32 - n); }

// compress takes one block of a message into the state.
INLINE void compress(Node &state, u32 (&m)[16]) {
	u32 a = state.w[0], b = state.w[1], c = state.w[2], d = state.w[3];
	u32 e = state.w[4], f = state.w[5], g = state.w[6], h = state.w[7];
#pragma clang loop unroll(disable)
	for (u32 part = 0; part < 64; part += 16) {
#pragma unroll
		for (u32 t = 0; t < 16; t++) {
			u32 t1 = h + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & f) ^ (~e & g)) + constants[part + t] + m[t];
			u32 t2 = (right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
			h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
		}
		if (part == 48)
			break;
#pragma unroll
		for (u32 t = 0; t < 16; t++) {
			u32 early = m[(t + 1) % 16], late = m[(t + 14) % 16];
			u32 s0 = right(early, 7) ^ right(early, 18) ^ early >> 3;
			u32 s1 = right(late, 17) ^ right(late, 19) ^ late >> 10;
			m[t] += s0 + m[(t + 9) % 16] + s1;
		}
	}
	u32 out[8] = {a, b, c, d, e, f, g, h};
#pragma unroll
	for (int i = 0; i < 8; i++)
		state.w[i] += out[i];
}

INLINE Node start() {
	return {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

// leaf hashes a leaf behind a zero byte: 33 bytes, one block.
INLINE Node leaf(const Node &l) {
	u32 m[16] = {};
	m[0] = l.w[0] >> 8;
#pragma unroll
	for (int i = 1; i < 8; i++)
		m[i] = funnel(l.w[i - 1], l.w[i], 24);
	m[8] = l.w[7] << 24 | 0x800000;
	m[15] = 33 * 8;
	Node out = start();
	compress(out, m);
	return out;
}

// pair hashes two nodes, behind a one byte in mode RFC6962: two blocks.
INLINE Node pair(u32 mode, const Node &l, const Node &r) {
	u32 m[16];
#pragma unroll
	for (int i = 0; i < 8; i++)
		m[i] = l.w[i], m[8 + i] = r.w[i];
	u32 tail = 0x80000000, length = 64 * 8;
	if (mode == RFC6962) {
		tail = m[15] << 24 | 0x800000, length = 65 * 8;
#pragma unroll
		for (int i = 15; i > 0; i--)
			m[i] = funnel(m[i - 1], m[i], 24);
		m[0] = m[0] >> 8 | 0x1000000;
	}
	Node out = start();
#pragma clang loop unroll(disable)
	for (int block = 0; block < 2; block++) {
		compress(out, m);
#pragma unroll
		for (int i = 1; i < 15; i++)
			m[i] = 0;
		m[0] = tail, m[15] = length;
	}
	return out;
}

// needed says whether a node is hashed on the way up: one without a neighbour
// moves up as it is, or in mode Dup hashed with itself.
INLINE bool needed(u32 mode, bool both) { return both || mode == Dup; }

INLINE Node load(const u8 *nodes, u64 i) {
	const uint4 *from = (const uint4 *)(nodes + 32 * i);
	uint4 x = from[0], y = from[1];
	Node n = {{x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w}};
#pragma unroll
	for (int k = 0; k < 8; k++)
		n.w[k] = __builtin_bswap32(n.w[k]);
	return n;
}

INLINE void save(u8 *nodes, u64 i, Node n) {
#pragma unroll
	for (int k = 0; k < 8; k++)
		n.w[k] = __builtin_bswap32(n.w[k]);
	uint4 *to = (uint4 *)(nodes + 32 * i);
	to[0] = {n.w[0], n.w[1], n.w[2], n.w[3]};
	to[1] = {n.w[4], n.w[5], n.w[6], n.w[7]};
}

//params: chunkParams
struct Chunks {
	unsigned mode, height; // of the tree, and of a chunk up to 11
	unsigned n; // leaves
	unsigned digests; // 1 where they are nodes already, which are not hashed by themselves
};

//params: rootParams
struct Nodes {
	unsigned mode, n; // of the tree, and nodes
};

// Held is how many nodes a block keeps in shared memory.
enum : u32 { Held = 1024 };

struct Level {
	u32 w[8][Held];
};

INLINE Node get(const Level &s, u32 i) {
	Node n;
#pragma unroll
	for (int k = 0; k < 8; k++)
		n.w[k] = s.w[k][i];
	return n;
}

INLINE void put(Level &s, u32 i, const Node &n) {
#pragma unroll
	for (int k = 0; k < 8; k++)
		s.w[k][i] = n.w[k];
}

// merkle_chunks reduces chunks of 2^h leaves, h up to 11, to a node each: a block
// of 256 threads for a chunk.
KERNEL(256, 4) merkle_chunks(const u8 *__restrict leaves, u8 *__restrict nodes, Chunks t) {
	__shared__ Level s;
	u64 first = (u64)BLOCK_X << t.height;
	u32 count = min(1u << t.height, t.n - (u32)first), level = 0;
	do {
		u32 above = (count + 1) / 2;
		for (u32 base = 0; base < above; base += 256) {
			u32 i = base + THREAD;
			bool both = 2 * i + 1 < count;
			Node l = {}, r = {};
			if (i < above && level > 0) {
				l = get(s, 2 * i);
				r = get(s, both ? 2 * i + 1 : 2 * i);
			} else if (i < above) {
				// A loop, so that there is one copy of the code.
#pragma clang loop unroll(disable)
				for (u32 k = 0; k < 2; k++) {
					l = r;
					if (k == 0 || both) {
						r = load(leaves, first + 2 * i + k);
						if (t.mode == RFC6962 && !t.digests)
							r = leaf(r);
					}
				}
			}
			if (i < above && t.height > 0 && needed(t.mode, both))
				l = pair(t.mode, l, r);
			__syncthreads(); // all have read before any writes
			if (i < above)
				put(s, i, l);
			__syncthreads();
		}
		count = above;
	} while (++level < t.height);
	if (THREAD == 0)
		save(nodes, BLOCK_X, get(s, 0));
}

// merkle_root reduces n nodes to the root: one block of 256 threads. The
// workspace has room for half of the nodes, rounded up.
KERNEL(256, 1) merkle_root(const u8 *__restrict nodes, u8 *__restrict root, u8 *work, Nodes t) {
	const u8 *from = nodes;
	for (u32 count = t.n; count > 1;) {
		u32 above = (count + 1) / 2;
		for (u32 base = 0; base < above; base += 256) {
			u32 i = base + THREAD;
			Node up = {};
			if (i < above) {
				bool both = 2 * i + 1 < count;
				up = load(from, 2 * i);
				if (needed(t.mode, both))
					up = pair(t.mode, up, load(from, both ? 2 * i + 1 : 2 * i));
			}
			__syncthreads(); // all have read before any writes
			if (i < above)
				save(work, i, up);
			__syncthreads();
		}
		from = work, count = above;
	}
	if (THREAD == 0)
		save(root, 0, load(from, 0));
}
