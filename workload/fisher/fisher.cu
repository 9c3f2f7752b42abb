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
