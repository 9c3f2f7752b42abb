// Merkle trees of SHA-256 (FIPS 180-4), a hash to an invocation.
//: merkle_chunks -DCHUNKS
//: merkle_root
#version 450

const uint RFC6962 = 0, Dup = 1;

const uint constants[64] = uint[](
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2);

// Node is a digest or a leaf as eight big-endian words.
struct Node { uint w[8]; };

uint right(uint x, uint n) { return x >> n | x << (32 - n); }

uint swapped(uint x) { return x << 24 | (x & 0xff00) << 8 | (x >> 8 & 0xff00) | x >> 24; }

// hash hashes a leaf behind a zero byte (alone), or two nodes, which are behind a
// one byte in mode RFC6962. A leaf is one block of a message, two nodes are two.
Node hash(uint mode, bool alone, Node l, Node r) {
	uint m[16];
	for (int i = 0; i < 8; i++) {
		m[i] = l.w[i];
		m[8 + i] = r.w[i];
	}
	uint tail = 0x80000000, bits = 64 * 8;
	if (mode == RFC6962) { // all moves on by a byte
		tail = m[15] << 24 | 0x800000;
		bits = 65 * 8;
		uint last = m[7] << 24 | 0x800000;
		for (int i = 15; i > 0; i--)
			m[i] = m[i - 1] << 24 | m[i] >> 8;
		m[0] = m[0] >> 8 | (alone ? 0 : 0x1000000);
		if (alone) {
			m[8] = last;
			for (int i = 9; i < 15; i++)
				m[i] = 0;
			m[15] = 33 * 8;
		}
	}
	uint h[8] = uint[](0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19);
	for (int block = 0; block < (alone ? 1 : 2); block++) {
		uint v[8] = h;
		for (int part = 0; part < 64; part += 16) {
			for (int t = 0; t < 16; t++) {
				uint a = v[0], e = v[4];
				uint t1 = v[7] + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + constants[part + t] + m[t];
				uint t2 = (right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
				for (int i = 7; i > 0; i--)
					v[i] = v[i - 1];
				v[4] += t1;
				v[0] = t1 + t2;
			}
			for (int t = 0; t < 16; t++) {
				uint early = m[(t + 1) % 16], late = m[(t + 14) % 16];
				uint s0 = right(early, 7) ^ right(early, 18) ^ early >> 3;
				uint s1 = right(late, 17) ^ right(late, 19) ^ late >> 10;
				m[t] += s0 + m[(t + 9) % 16] + s1;
			}
		}
		for (int i = 0; i < 8; i++)
			h[i] += v[i];
		m[0] = tail;
		for (int i = 1; i < 15; i++)
			m[i] = 0;
		m[15] = bits;
	}
	Node out_;
	out_.w = h;
	return out_;
}

// needed says whether a node is hashed on the way up: one without a neighbour
// moves up as it is, or in mode Dup hashed with itself.
bool needed(uint mode, bool both) { return both || mode == Dup; }

layout(local_size_x = 128) in;

#ifdef CHUNKS
layout(std430, binding = 0) readonly buffer Leaves { uvec4 leaves[]; };
layout(std430, binding = 1) writeonly buffer Nodes { uvec4 nodes[]; };
//params: chunkParams
layout(push_constant) uniform Chunks {
	uint mode, height; // of the tree, and of a chunk up to 11
	uint n; // leaves
	uint digests; // 1 where they are nodes already, which are not hashed by themselves
};

Node load(uint i) {
	uvec4 x = leaves[2 * i], y = leaves[2 * i + 1];
	Node l;
	for (int k = 0; k < 4; k++) {
		l.w[k] = swapped(x[k]);
		l.w[4 + k] = swapped(y[k]);
	}
	return l;
}

shared uint held[8][512];

Node get(uint i) {
	Node l;
	for (int k = 0; k < 8; k++)
		l.w[k] = held[k][i];
	return l;
}

void put(uint i, Node l) {
	for (int k = 0; k < 8; k++)
		held[k][i] = l.w[k];
}

// A group reduces a chunk of 2^height leaves to a node.
void main() {
	uint first = gl_WorkGroupID.x << height, count = min(1u << height, n - first);
	// The first levels, two if there are so many, are an invocation's own.
	uint own = min(height, 2), above = (count + (1u << own) - 1) >> own;
	for (uint base = 0; base < above; base += 128) {
		uint i = base + gl_LocalInvocationID.x;
		if (i < above) {
			// One place to hash for all, so that there is one copy of the code:
			// leaf, leaf, pair, leaf, leaf, pair, pair.
			Node done[3], l, r;
			uint leaf = i << own;
			for (int k = 0; k < (own == 2 ? 7 : own == 1 ? 3 : 1); k++) {
				bool alone = k != 2 && k != 5 && k != 6;
				int at = k == 0 || k == 2 || k == 6 ? 0 : k == 4 ? 2 : 1;
				bool there, both;
				if (alone) {
					there = leaf < count;
					both = false;
					if (there)
						l = load(first + leaf);
					leaf++;
				} else {
					int next = k == 5 ? 2 : 1;
					l = done[at];
					uint to = k == 2 ? leaf - 1 : k == 5 ? leaf - 1 : leaf - 2; // first leaf of the second
					both = to < count;
					there = k != 5 || leaf - 2 < count;
					r = l;
					if (both)
						r = done[next];
				}
				if (there && (alone ? mode == RFC6962 && digests == 0 : needed(mode, both)))
					l = hash(mode, alone, l, r);
				if (there)
					done[at] = l;
			}
			put(i, done[0]);
		}
	}
	barrier();
	count = above;
	for (uint level = own; level < height; level++) {
		above = (count + 1) / 2;
		for (uint base = 0; base < above; base += 128) {
			uint i = base + gl_LocalInvocationID.x;
			Node l, r;
			if (i < above) {
				bool both = 2 * i + 1 < count;
				l = get(2 * i);
				if (needed(mode, both)) {
					r = get(both ? 2 * i + 1 : 2 * i);
					l = hash(mode, false, l, r);
				}
			}
			barrier(); // all have read before any writes
			if (i < above)
				put(i, l);
			barrier();
		}
		count = above;
	}
	if (gl_LocalInvocationID.x == 0) {
		Node l = get(0);
		for (int k = 0; k < 8; k++)
			l.w[k] = swapped(l.w[k]);
		nodes[2 * gl_WorkGroupID.x] = uvec4(l.w[0], l.w[1], l.w[2], l.w[3]);
		nodes[2 * gl_WorkGroupID.x + 1] = uvec4(l.w[4], l.w[5], l.w[6], l.w[7]);
	}
}
#else
layout(std430, binding = 0) readonly buffer Nodes { uvec4 nodes[]; };
layout(std430, binding = 1) writeonly buffer Root { uvec4 root[]; };
layout(std430, binding = 2) coherent buffer Work { uvec4 work[]; };
//params: rootParams
layout(push_constant) uniform Tree {
	uint mode, n; // of the tree, and nodes
};

Node load(bool below, uint i) {
	uvec4 x = below ? work[2 * i] : nodes[2 * i], y = below ? work[2 * i + 1] : nodes[2 * i + 1];
	Node l;
	for (int k = 0; k < 4; k++) {
		l.w[k] = swapped(x[k]);
		l.w[4 + k] = swapped(y[k]);
	}
	return l;
}

// One group reduces n nodes to the root. The workspace has room for half of the
// nodes, rounded up.
void main() {
	bool below = false; // the level is in the workspace
	uint count = n;
	while (count > 1) {
		uint above = (count + 1) / 2;
		for (uint base = 0; base < above; base += 128) {
			uint i = base + gl_LocalInvocationID.x;
			Node l, r;
			if (i < above) {
				bool both = 2 * i + 1 < count;
				l = load(below, 2 * i);
				if (needed(mode, both)) {
					r = load(below, both ? 2 * i + 1 : 2 * i);
					l = hash(mode, false, l, r);
				}
			}
			memoryBarrierBuffer();
			barrier(); // all have read before any writes
			if (i < above) {
				for (int k = 0; k < 8; k++)
					l.w[k] = swapped(l.w[k]);
				work[2 * i] = uvec4(l.w[0], l.w[1], l.w[2], l.w[3]);
				work[2 * i + 1] = uvec4(l.w[4], l.w[5], l.w[6], l.w[7]);
			}
			memoryBarrierBuffer();
			barrier();
		}
		below = true;
		count = above;
	}
	if (gl_LocalInvocationID.x < 2)
		root[gl_LocalInvocationID.x] = below ? work[gl_LocalInvocationID.x] : nodes[gl_LocalInvocationID.x];
}
#endif
