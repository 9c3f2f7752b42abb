// The kernels of package fisher, in float64 and in the order of the Go kernels.
#include "../device.cuh"

//params: weightParams
struct Weigh {
	unsigned points, features;
	unsigned all; // points of all tasks
};
//params: sumParams
struct Sum {
	unsigned points, features;
	unsigned first; // row
};

//params: divergenceParams
struct Divergence {
	unsigned function; // its place among functions
	unsigned dim, n;
};

// exp is by its series around the nearest multiple of ln 2, to the last bit or two.
INLINE double exp(double x) {
	const double shift = 0x1.8p52, high = 0x1.62e42fee00000p-1, low = 0x1.a39ef35793c76p-33;
	x = x < -700 ? -700 : x > 700 ? 700 : x;
	double m = x * 0x1.71547652b82fep+0 + shift, n = m - shift;
	double r = x - n * high - n * low, p = 1;
	for (int k = 14; k > 0; k--)
		p = 1 + r * p / k;
	return p * __builtin_bit_cast(double, (__builtin_bit_cast(u64, m) + 1023) << 52); // 2ⁿ
}

// A thread has a point.
KERNEL(256, 2) fisher_weights(const float *__restrict x, const float *__restrict theta, double *__restrict out, Weigh c) {
	u64 i = (u64)BLOCK_X * THREADS + THREAD;
	if (i >= c.points)
		return;
	double z = 0;
	for (u32 k = 0; k < c.features; k++)
		z += (double)x[i * c.features + k] * (double)theta[k];
	double p = 1 / (1 + exp(-z));
	out[i] = p * (1 - p) / c.all;
}

// A block has a row of the matrix, a thread some of its columns.
KERNEL(128, 4) fisher_sums(const float *__restrict x, const double *__restrict w, double *__restrict out, Sum c) {
	u32 row = BLOCK_X, d = c.features;
	for (u32 k = THREAD; k < d; k += THREADS) {
		double sum = 0;
		for (u64 i = 0; i < c.points; i++)
			sum += w[i] * (double)x[i * d + c.first + row] * (double)x[i * d + k];
		out[(u64)row * d + k] = sum;
	}
}

// log splits x into 2ᵏ(1 + f) with 1 + f from √½ to √2, and sums a series in s = f ÷ (2 + f), right
// to the last bit (Sun's, as in FreeBSD and Go).
INLINE double log(double x) {
	u64 bits = __builtin_bit_cast(u64, x);
	int k = (int)(bits >> 52) - 1023;
	double m = __builtin_bit_cast(double, (bits & 0xfffffffffffff) | 0x3ff0000000000000);
	if (m > 0x1.6a09e667f3bcdp+0) {
		m /= 2;
		k++;
	}
	double f = m - 1, s = f / (2 + f), s2 = s * s, s4 = s2 * s2;
	double t1 = s2 * (6.666666666666735130e-01 + s4 * (2.857142874366239149e-01 + s4 * (1.818357216161805012e-01 + s4 * 1.479819860511658591e-01)));
	double t2 = s4 * (3.999999999940941908e-01 + s4 * (2.222219843214978396e-01 + s4 * 1.531383769920937332e-01));
	double r = t1 + t2, square = 0.5 * f * f;
	return k * 6.93147180369123816490e-01 - ((square - (s * (square + r) + k * 1.90821492927058770002e-10)) - f);
}

INLINE double log_ratio(double p, double q) {
	double t = p / q, shift = 0;
	if (t < 0x1p-1000) {
		t = p * 0x1p500 / (q * 0x1p-500);
		shift = -693.14718055994530942; // 1000 ln 2
	} else if (t > 0x1p1000) {
		t = p * 0x1p-500 / (q * 0x1p500);
		shift = 693.14718055994530942;
	}
	return log(t) + shift;
}

INLINE double beyond(double z) {
	double sum = 1. / 29;
#pragma unroll
	for (int k = 27; k >= 3; k -= 2)
		sum = sum * z + 1. / k;
	return sum;
}

enum : u64 { None = 0x7ff8000000000000, Infinite = 0x7ff0000000000000 };
INLINE double as(u64 bits) { return __builtin_bit_cast(double, bits); }
INLINE double size(double x) { return x < 0 ? -x : x; }

// within says whether a divergence of x is computed.
INLINE bool within(double x, double low) { return x >= low && x <= 0x1p500; }

INLINE double entropy(double p, double q) {
	if (!within(p, 0) || !within(q, 0))
		return as(None);
	double d = p - q, all = p + q;
	if (p == 0)
		return q;
	if (q == 0)
		return as(Infinite);
	if (size(d) < 0.25 * all) {
		double s = d / all, z = s * s, b = beyond(z);
		return all * z * (1 + z * b + s * b);
	}
	return p * log_ratio(p, q) - d;
}

INLINE double burg(double p, double q) {
	if (!within(p, 0) || !within(q, 0))
		return as(None);
	double d = p - q, all = p + q;
	if (all == 0)
		return 0;
	if (p == 0 || q == 0)
		return as(Infinite);
	if (size(d) < 0.25 * all) {
		double s = d / all, z = s * s;
		return 2 * z * (1 / (1 - s) - s * beyond(z));
	}
	return p / q - log_ratio(p, q) - 1;
}

INLINE double squares(double p, double q) {
	if (!within(p, -0x1p500) || !within(q, -0x1p500))
		return as(None);
	return (p - q) * (p - q);
}

// A thread has a pair of vectors.
KERNEL(128, 1) bregman_divergences(const double *__restrict p, const double *__restrict q, double *__restrict out, Divergence c) {
	u64 i = (u64)BLOCK_X * THREADS + THREAD;
	if (i >= c.n)
		return;
	p += i * c.dim;
	q += i * c.dim;
	double sum = 0;
	for (u32 k = 0; k < c.dim; k++)
		sum += c.function == 0 ? entropy(p[k], q[k]) : c.function == 1 ? burg(p[k], q[k]) : squares(p[k], q[k]);
	out[i] = sum;
}
