// The probes for NVIDIA GPUs: one thread for each of n items.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 uint4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef double double2 __attribute__((ext_vector_type(2)));

#define KERNEL extern "C" __attribute__((global)) void
#define ITEM ((u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x())

//params: Params
struct Count {
	unsigned n; // items
};

// Operations of an item, and of a round: eight chains of two.
#define OPS 65536
#define ROUNDS (OPS / 16)

KERNEL probe_empty() {}

// Chains begin differently, or the compiler would keep one of them.
#define CHAINS(T, begin) T a = begin, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5, g = a + 6, h = a + 7
#define EACH(step) step(a) step(b) step(c) step(d) step(e) step(f) step(g) step(h)

KERNEL probe_fp32(float4 *out, Count p) {
	if (ITEM >= p.n)
		return;
	CHAINS(float, (float)ITEM);
	for (u32 i = 0; i < ROUNDS; i++) {
#define STEP(x) x = __builtin_fmaf(x, 0.5f, 1.0f);
		EACH(STEP)
#undef STEP
	}
	out[ITEM] = (float4){a + b, c + d, e + f, g + h};
}

KERNEL probe_fp64(double2 *out, Count p) {
	if (ITEM >= p.n)
		return;
	CHAINS(double, (double)ITEM);
	for (u32 i = 0; i < ROUNDS; i++) {
#define STEP(x) x = __builtin_fma(x, 0.5, 1.0);
		EACH(STEP)
#undef STEP
	}
	out[ITEM] = (double2){a + b + c + d, e + f + g + h};
}

KERNEL probe_int32(uint4 *out, Count p) {
	if (ITEM >= p.n)
		return;
	CHAINS(u32, (u32)ITEM);
	for (u32 i = 0; i < ROUNDS; i++) {
#define STEP(x) x = (x + 0x9e3779b9) ^ 0x7f4a7c15;
		EACH(STEP)
#undef STEP
	}
	out[ITEM] = (uint4){a ^ b, c ^ d, e ^ f, g ^ h};
}

// probe_crash writes where nothing is, which costs the process its GPU.
KERNEL probe_crash(u32 *x) {
	*(volatile u32 *)((u64)x ^ 0x100000000000ull) = 1;
}

// probe_check is the arithmetic of a check: see Check in probe.go.
KERNEL probe_check(const uint4 *in, uint4 *out, Count p) {
	if (ITEM >= p.n)
		return;
	uint4 v = in[ITEM];
	for (u32 i = 0; i < 8; i++) {
		v.x += ((v.y << 7) | (v.y >> 25)) ^ v.z;
		v.w ^= v.x * 0x9e3779b1;
		float x = (float)(v.x >> 20), y = (float)(v.w >> 20), z = (float)(v.y >> 20);
		u32 more = (u32)(x * y + z), less = (u32)(int)((x - y) * z);
		v = (uint4){v.y ^ more * 0x85ebca6b, ((v.z << 11) | (v.z >> 21)) + less, v.w, v.x};
	}
	out[ITEM] = v;
}

KERNEL probe_stream(const uint4 *in, uint4 *out, Count p) {
	if (ITEM < p.n)
		out[ITEM] = in[ITEM];
}
