// The stages of package fusion. Eight threads have a record: each passes on four
// of its numbers where the stage does not touch them, and computes one of eight.
#include "../device.cuh"

//params: params
struct Count {
	unsigned n; // records
};

enum : u32 { Record = 32, TropicalAt = 0, ValueAt = 8, DerivativeAt = 16, CliffordAt = 24 };
enum : u32 { ScaleAt = 64, ShiftAt = 72, SandwichAt = 80 };

// Part is what a thread has of a record.
struct Part {
	const float *in;
	float *out;
	u32 i;
};

// part finds a thread's part and passes on what lies outside the numbers first to
// last-1, both multiples of four. It returns false past the last record.
INLINE bool part(const float *in, float *out, u32 n, u32 first, u32 last, Part &p) {
	u32 at = BLOCK_X * THREADS + THREAD;
	u64 record = at / 8;
	if (record >= n)
		return false;
	p = {in + record * Record, out + record * Record, at % 8};
	if (4 * p.i < first || 4 * p.i >= last)
		for (u32 k = 4 * p.i; k < 4 * p.i + 4; k++)
			p.out[k] = p.in[k];
	return true;
}

KERNEL(256, 4) fusion_t(const float *__restrict in, const float *__restrict weights, float *__restrict out, Count c) {
	Part p;
	if (!part(in, out, c.n, TropicalAt, TropicalAt + 8, p))
		return;
	const float *row = weights + 8 * p.i, *t = p.in + TropicalAt;
	float most = row[0] + t[0];
	for (u32 j = 1; j < 8; j++)
		most = largest(most, row[j] + t[j]);
	p.out[TropicalAt + p.i] = most;
}

KERNEL(256, 4) fusion_d(const float *__restrict in, const float *__restrict weights, float *__restrict out, Count c) {
	Part p;
	if (!part(in, out, c.n, ValueAt, DerivativeAt + 8, p))
		return;
	float scale = weights[ScaleAt + p.i];
	float v = tanh(scale * p.in[ValueAt + p.i] + weights[ShiftAt + p.i]);
	p.out[ValueAt + p.i] = v;
	p.out[DerivativeAt + p.i] = (1 - v * v) * scale * p.in[DerivativeAt + p.i];
}

KERNEL(256, 4) fusion_c(const float *__restrict in, const float *__restrict weights, float *__restrict out, Count c) {
	Part p;
	if (!part(in, out, c.n, CliffordAt, CliffordAt + 8, p))
		return;
	const float *row = weights + SandwichAt + 8 * p.i, *m = p.in + CliffordAt;
	float sum = 0;
	for (u32 j = 0; j < 8; j++)
		sum += row[j] * m[j];
	p.out[CliffordAt + p.i] = sum;
}

// For blades a and b of Cl(3,0) in the order 1 e1 e2 e3 e12 e13 e23 e123, bit b of
// signs[a] is set where their product is negative; blade has them as sets of vectors,
// and is its own inverse.
__constant__ const u8 signs[8] = {0x00, 0x00, 0xb2, 0x66, 0xb2, 0x66, 0xd4, 0xd4};
__constant__ const u8 blade[8] = {0, 1, 2, 4, 3, 5, 6, 7};

// fusion_bind: the tropical, the dual and the geometric product of two records.
KERNEL(256, 4) fusion_bind(const float *__restrict a, const float *__restrict b, float *__restrict out, Count c) {
	Part p;
	if (!part(a, out, c.n, 0, Record, p))
		return;
	const float *x = p.in, *y = b + (p.in - a);
	u32 i = p.i;
	p.out[TropicalAt + i] = x[TropicalAt + i] + y[TropicalAt + i];
	p.out[ValueAt + i] = x[ValueAt + i] * y[ValueAt + i];
	p.out[DerivativeAt + i] = x[ValueAt + i] * y[DerivativeAt + i] + x[DerivativeAt + i] * y[ValueAt + i];
	float sum = 0;
	for (u32 j = 0; j < 8; j++) {
		u32 k = blade[blade[i] ^ blade[j]];
		float term = x[CliffordAt + j] * y[CliffordAt + k];
		sum += signs[j] >> k & 1 ? -term : term;
	}
	p.out[CliffordAt + i] = sum;
}
