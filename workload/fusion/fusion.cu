// The stages of package fusion. Eight threads have a record: each passes on four
// of its numbers where the stage does not touch them, and computes one of eight.
#include "../device.cuh"

struct Count {
	u32 n; // records
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

// tanh is expm1(2x)/(expm1(2x)+2) by a polynomial: no instruction's own
// approximation.
INLINE float tanh(float x) {
	const float shift = 3 << 22, high = 0x1.62ep-1f, low = (float)(0x1.62e42fefa39efp-1 - 0x1.62ep-1);
	float y = 2 * smaller(larger(x, -9.02f), 9.02f);
	float m = y * 0x1.71547652b82fep+0f + shift, n = m - shift;
	float r = y - n * high - n * low;
	float p = r * (1.0f / 5040) + 1.0f / 720;
	p = r * p + 1.0f / 120;
	p = r * p + 1.0f / 24;
	p = r * p + 1.0f / 6;
	p = r * p + 0.5f;
	p = r * r * p + r;
	float s = number((bits(m) << 23) + 0x3f800000); // 2ⁿ
	float e = s * p + (s - 1);
	return e / (e + 2);
}

KERNEL(256, 4) fusion_t(const float *__restrict in, const float *__restrict weights, float *__restrict out, Count c) {
	Part p;
	if (!part(in, out, c.n, TropicalAt, TropicalAt + 8, p))
		return;
	const float *row = weights + 8 * p.i, *t = p.in + TropicalAt;
	float most = row[0] + t[0];
	for (u32 j = 1; j < 8; j++)
		most = larger(most, row[j] + t[j]);
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
