// Phase states in float64. In phase_waves a block has a row; in phase_product it has 8 rows and
// 8 columns. There is no library of functions of float64, so those that are needed are here.
#include "../../device.cuh"

//params: params
struct Params {
	unsigned residues;
	unsigned first; // row of the task
	unsigned rows;
	unsigned stride; // numbers of the real parts of a row of ψ, and of the imaginary ones behind them
	double time;
};

enum : u32 { WaveThreads = 128, Side = 8, Deep = 16 };

constexpr double Pi = 3.14159265358979323846;
constexpr double Farthest = 690 * 3.8; // where waves end, as in the Go code

struct Pair {
	double x, y;
};
struct Vector {
	double x, y, z;
};

INLINE Vector operator-(Vector a, Vector b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
INLINE double along(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
INLINE Vector across(Vector a, Vector b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
INLINE Vector bead(const double *beads, u32 i) { return {beads[3 * i], beads[3 * i + 1], beads[3 * i + 2]}; }

// power is 2 to the n, for n from -1022 to 1023.
INLINE double power(int n) { return __builtin_bit_cast(double, (u64)(n + 1023) << 52); }

// exponential is e to the x for x up to 0, and 0 where that is below the normal numbers.
INLINE double exponential(double x) {
	if (!(x > -708.0))
		return 0.0;
	double n = __nvvm_floor_d(x * 1.44269504088896340736 + 0.5);
	double r = x - n * 0.693147180369123816490;
	r = r - n * 1.90821492927058770002e-10;
	double p = 1.0 / 6227020800.0;
	p = p * r + 1.0 / 479001600.0;
	p = p * r + 1.0 / 39916800.0;
	p = p * r + 1.0 / 3628800.0;
	p = p * r + 1.0 / 362880.0;
	p = p * r + 1.0 / 40320.0;
	p = p * r + 1.0 / 5040.0;
	p = p * r + 1.0 / 720.0;
	p = p * r + 1.0 / 120.0;
	p = p * r + 1.0 / 24.0;
	p = p * r + 1.0 / 6.0;
	p = p * r + 0.5;
	p = p * r + 1.0;
	p = p * r + 1.0;
	return p * power((int)n);
}

// logarithm is the natural one of x of at least 1.
INLINE double logarithm(double x) {
	u64 u = __builtin_bit_cast(u64, x);
	int n = (int)(u >> 52) - 1023;
	double m = __builtin_bit_cast(double, (u & 0xfffffffffffffull) | 0x3ffull << 52);
	if (m > 1.41421356237309504880) {
		m = m * 0.5;
		n++;
	}
	double f = (m - 1.0) / (m + 1.0), s = f * f;
	double p = 1.0 / 23.0;
	p = p * s + 1.0 / 21.0;
	p = p * s + 1.0 / 19.0;
	p = p * s + 1.0 / 17.0;
	p = p * s + 1.0 / 15.0;
	p = p * s + 1.0 / 13.0;
	p = p * s + 1.0 / 11.0;
	p = p * s + 1.0 / 9.0;
	p = p * s + 1.0 / 7.0;
	p = p * s + 1.0 / 5.0;
	p = p * s + 1.0 / 3.0;
	p = p * s + 1.0;
	double high = (double)n * 0.693147180369123816490, low = (double)n * 1.90821492927058770002e-10;
	double l = 2.0 * f * p + low;
	return high + l;
}

// circle is the cosine and the sine of x from 0 on, by quarters of a turn.
INLINE Pair circle(double x) {
	double n = __nvvm_floor_d(x * 0.63661977236758134308 + 0.5);
	double r = x - n * 1.57079632673412561417;
	r = r - n * 6.07710050630396597660e-11;
	r = r - n * 2.02226624879595063154e-21;
	double s = r * r;
	double b = 1.0 / 355687428096000.0;
	b = 1.0 / 1307674368000.0 - b * s;
	b = 1.0 / 6227020800.0 - b * s;
	b = 1.0 / 39916800.0 - b * s;
	b = 1.0 / 362880.0 - b * s;
	b = 1.0 / 5040.0 - b * s;
	b = 1.0 / 120.0 - b * s;
	b = 1.0 / 6.0 - b * s;
	b = r - r * s * b;
	double a = 1.0 / 20922789888000.0;
	a = 1.0 / 87178291200.0 - a * s;
	a = 1.0 / 479001600.0 - a * s;
	a = 1.0 / 3628800.0 - a * s;
	a = 1.0 / 40320.0 - a * s;
	a = 1.0 / 720.0 - a * s;
	a = 1.0 / 24.0 - a * s;
	a = 0.5 - a * s;
	a = 1.0 - a * s;
	switch ((u32)n & 3) {
	case 0:
		return Pair{a, b};
	case 1:
		return Pair{-b, a};
	case 2:
		return Pair{-a, -b};
	}
	return Pair{b, -a};
}

// tau and chi are as in the Go code.
INLINE double tau(const double *beads, u32 n, u32 p, u32 q) {
	u32 i = p < q ? p : q, j = p < q ? q : p;
	if (j + 1 >= n)
		return 1.0;
	Vector o = bead(beads, i + 1), e = bead(beads, j);
	Vector a = across(bead(beads, i) - o, e - o), b = across(bead(beads, j + 1) - e, o - e);
	double u = __nvvm_sqrt_rn_d(along(a, a)), v = __nvvm_sqrt_rn_d(along(b, b));
	if (u < 1e-10 || v < 1e-10)
		return 1.2;
	double c = along(a, b) / (u * v);
	return c > 0.5 ? 1.2 : c < -0.5 ? 0.8 : 1.0;
}

INLINE double chi(u32 p, u32 q) {
	u32 a = p < q ? p : q, b = p < q ? q : p;
	if (a == 1 || b == 1)
		return 1.2;
	if (a == 2 || b == 2)
		return 0.8;
	if (a == 3 && b == 3)
		return 1.1;
	if (a == b && a >= 4 && a <= 6)
		return 0.9;
	if ((a == 7 && b == 8) || (a == 9 && b == 10))
		return 1.3;
	return 1.0;
}

INLINE double energy(double d) {
	double q = 3.8 / d, q6 = q * q * q;
	q6 *= q6;
	double e = 332.0636 * exponential(-d / 10.0) / d + 2.0 * (q6 * q6 - q6);
	if (d >= 2.5 && d <= 3.5) {
		double q2 = 2.9 / d;
		q2 *= q2;
		double q10 = q2 * q2 * q2 * q2 * q2;
		double more = 2.0 * (5.0 * q10 * q2 - 6.0 * q10);
		e += more;
	}
	return __nvvm_fabs_d(e);
}

// phase_waves: grid (rows) cut by 1, 128 threads.
KERNEL(128, 4) phase_waves(const double *__restrict beads, const u32 *__restrict kinds, double *__restrict waves, double *__restrict states, double *__restrict squares, Params p) {
	__shared__ double lengths[WaveThreads], alphas[WaveThreads];
	u32 row = BLOCK_X, i = p.first + row;
	double *re = waves + 2 * (u64)row * p.stride, *im = re + p.stride, *to = states + 2 * (u64)row * p.residues;
	double length2 = 0, alpha2 = 0;
	for (u32 j = THREAD; j < p.stride; j += WaveThreads) {
		if (j >= p.residues) {
			re[j] = im[j] = 0;
			continue;
		}
		if (i == j) {
			re[j] = 1;
			im[j] = 0;
			to[2 * j] = 1;
			to[2 * j + 1] = 0;
			length2 += 1;
			continue;
		}
		Vector v = bead(beads, i) - bead(beads, j);
		double d = __nvvm_sqrt_rn_d(along(v, v)), s = i > j ? i - j : j - i;
		double r = d >= Farthest ? 0 : exponential(-d / 3.8) / (1 + s);
		double t = r * circle(2 * Pi * s / p.residues + d / 38).y;
		re[j] = r;
		im[j] = t;
		length2 += r * r + t * t;
		double turned = 2 * Pi * logarithm(1 + d / 3.8) * p.time;
		double e = energy(d);
		double alpha = e * __nvvm_fabs_d(circle(turned).x) * exponential(-d / 10) * exponential(-e / (0.001987 * 300));
		alpha2 += alpha * alpha;
		Pair at = circle(turned + Pi * s / d);
		alpha *= chi(kinds[i], kinds[j]) * tau(beads, p.residues, i, j);
		to[2 * j] = alpha * at.x;
		to[2 * j + 1] = alpha * at.y;
	}
	lengths[THREAD] = length2;
	alphas[THREAD] = alpha2;
	__syncthreads();
	for (u32 by = WaveThreads / 2; by > 0; by /= 2) {
		if (THREAD < by) {
			lengths[THREAD] += lengths[THREAD + by];
			alphas[THREAD] += alphas[THREAD + by];
		}
		__syncthreads();
	}
	if (THREAD == 0)
		squares[row] = alphas[0];
	double scale = power(480) / __nvvm_sqrt_rn_d(lengths[0]); // raised, as in the Go code
	for (u32 j = THREAD; j < p.residues; j += WaveThreads) {
		re[j] *= scale;
		im[j] *= scale;
	}
}

// phase_product: grid (rows, residues) cut by 8 and 8, 64 threads.
KERNEL(64, 8) phase_product(const double *__restrict waves, const double *__restrict squares, double *__restrict states, Params p) {
	__shared__ double ar[Side][Deep + 1], ai[Side][Deep + 1], br[Side][Deep + 1], bi[Side][Deep + 1], scale;
	u32 r = THREAD / Side, c = THREAD % Side, row = BLOCK_X * Side + r, j = BLOCK_Y * Side + c, mine = BLOCK_Y * Side + r;
	if (THREAD == 0) {
		double sum = 0;
		for (u32 k = 0; k < p.residues; k++)
			sum += squares[k];
		scale = sum > 0 ? 1 / __nvvm_sqrt_rn_d(sum) : 0;
	}
	double x = 0, y = 0;
	for (u32 from = 0; from < p.stride; from += Deep) {
		__syncthreads();
		for (u32 k = c; k < Deep; k += Side) {
			bool have = from + k < p.stride && row < p.rows, other = from + k < p.stride && mine < p.residues;
			const double *a = waves + 2 * (u64)(p.first + row) * p.stride + from + k, *b = waves + 2 * (u64)mine * p.stride + from + k;
			ar[r][k] = have ? a[0] : 0;
			ai[r][k] = have ? a[p.stride] : 0;
			br[r][k] = other ? b[0] : 0;
			bi[r][k] = other ? b[p.stride] : 0;
		}
		__syncthreads();
		for (u32 k = 0; k < Deep; k++) {
			x += ar[r][k] * br[c][k] + ai[r][k] * bi[c][k];
			y += ar[r][k] * bi[c][k] - ai[r][k] * br[c][k];
		}
	}
	if (row >= p.rows || j >= p.residues || p.first + row == j)
		return;
	double *at = states + 2 * ((u64)row * p.residues + j);
	double re = at[0] * scale, im = at[1] * scale, u = __nvvm_fabs_d(x), v = __nvvm_fabs_d(y), largest = u > v ? u : v;
	if (largest != 0) {
		x /= largest;
		y /= largest;
		double length = __nvvm_sqrt_rn_d(x * x + y * y);
		x /= length;
		y /= length;
		double turned = re * x - im * y;
		im = re * y + im * x;
		re = turned;
	}
	at[0] = re;
	at[1] = im;
}
