// Sums over fixed points of a Grassmannian modulo primes, as package enumerative has them. A
// block adds up a chunk of points modulo one prime, a point to a thread.
#include "../device.cuh"

enum : u32 { Chunk = 256, MaxK = 16, MaxN = 64, RootsAt = 3 };
enum : u32 { Degree, Hypersurface, Schubert };

//params: params
struct Params {
	unsigned problem, n, k; // problem is an index of problems
	unsigned exponent; // to which Degree takes the sum, or the hypersurface's degree
	unsigned classes;
	unsigned primes;
	unsigned first, count; // points
};

//params: curveParams
struct CurveParams {
	unsigned primes, degree;
	unsigned from, to; // degrees from one to before another
};

// Field is the integers modulo p in Montgomery form.
struct Field {
	u32 p, neg, one;
};

INLINE u32 mul(Field f, u32 a, u32 b) {
	u64 t = (u64)a * b;
	u32 u = (t + (u64)((u32)t * f.neg) * f.p) >> 32;
	return u >= f.p ? u - f.p : u;
}
INLINE u32 add(Field f, u32 a, u32 b) { return a + b >= f.p ? a + b - f.p : a + b; }
INLINE u32 sub(Field f, u32 a, u32 b) { return a < b ? a + f.p - b : a - b; }
INLINE u32 power(Field f, u32 a, u32 e) {
	u32 out = f.one;
	for (; e > 0; e >>= 1) {
		if (e & 1)
			out = mul(f, out, a);
		a = mul(f, a, a);
	}
	return out;
}

// forms is the product of the linear forms with coefficients that add up to the degree.
INLINE u32 forms(Field f, const u32 *x, const u32 *small, u32 k, u32 degree) {
	u32 a[MaxK], out = f.one;
	for (u32 m = 0; m < k; m++)
		a[m] = 0;
	a[0] = degree;
	for (;;) {
		u32 form = 0;
		for (u32 m = 0; m < k; m++)
			form = add(f, form, mul(f, small[a[m]], x[m]));
		out = mul(f, out, form);
		u32 h = 0;
		while (a[h] == 0)
			h++;
		if (h == k - 1)
			return out;
		u32 t = a[h];
		a[h] = 0;
		a[0] = t - 1;
		a[h + 1]++;
	}
}

// schur is the determinant of h of parts[i] - i + j.
INLINE u32 schur(Field f, const u32 *parts, const u32 *h, u32 k) {
	u32 m[MaxK][MaxK], size = 0, det = f.one;
	while (size < k && parts[size] > 0)
		size++;
	for (u32 i = 0; i < size; i++)
		for (u32 j = 0; j < size; j++)
			m[i][j] = parts[i] + j >= i ? h[parts[i] + j - i] : 0;
	for (u32 col = 0; col < size; col++) {
		u32 row = col;
		while (row < size && m[row][col] == 0)
			row++;
		if (row == size)
			return 0;
		if (row != col) {
			for (u32 j = 0; j < size; j++) {
				u32 t = m[row][j];
				m[row][j] = m[col][j];
				m[col][j] = t;
			}
			det = sub(f, 0, det);
		}
		det = mul(f, det, m[col][col]);
		u32 inverse = power(f, m[col][col], f.p - 2);
		for (row++; row < size; row++) {
			u32 by = mul(f, m[row][col], inverse);
			for (u32 j = col; j < size; j++)
				m[row][j] = sub(f, m[row][j], mul(f, by, m[col][j]));
		}
	}
	return det;
}

// schubert is the product of the classes.
INLINE u32 schubert(Field f, const u32 *x, const u32 *classes, const Params &c) {
	u32 h[MaxN], out = f.one;
	h[0] = f.one;
	for (u32 d = 1; d < c.n; d++)
		h[d] = 0;
	for (u32 m = 0; m < c.k; m++)
		for (u32 d = 1; d < c.n; d++)
			h[d] = add(f, h[d], mul(f, x[m], h[d - 1]));
	for (u32 i = 0; i < c.classes; i++)
		out = mul(f, out, schur(f, classes + i * c.k, h, c.k));
	return out;
}

// term is the term of a point.
INLINE u32 term(Field f, const u32 *space, const u32 *table, u32 rank, const Params &c) {
	const u32 *roots = table + RootsAt, *weights = roots + c.n, *small = weights + c.n;
	u32 x[MaxK], all = f.one, product = f.one, total = 0;
	for (u32 i = c.k, j = c.n; i > 0; i--) {
		for (j--; space[j * (c.k + 1) + i] > rank; j--)
			;
		rank -= space[j * (c.k + 1) + i];
		u32 xi = roots[j];
		for (u32 m = i; m < c.k; m++)
			all = mul(f, all, sub(f, xi, x[m]));
		x[i - 1] = xi;
		product = mul(f, product, weights[j]);
		total = add(f, total, xi);
	}
	product = mul(f, product, mul(f, all, all));
	if (c.problem == Degree)
		return mul(f, product, power(f, total, c.exponent));
	if (c.problem == Hypersurface)
		return mul(f, product, forms(f, x, small, c.k, c.exponent));
	return mul(f, product, schubert(f, x, space + c.n * (c.k + 1), c));
}

KERNEL(256, 1) enumerative_sums(const u32 *__restrict space, const u32 *__restrict tables, u32 *__restrict sums, Params c) {
	__shared__ u32 partial[Chunk];
	u32 chunk = BLOCK_X, prime = BLOCK_Y, at = chunk * Chunk + THREAD;
	const u32 *table = tables + prime * (RootsAt + 2 * c.n + c.exponent + 1);
	Field f = {table[0], table[1], table[2]};
	partial[THREAD] = at < c.count ? term(f, space, table, c.first + at, c) : 0;
	__syncthreads();
	for (u32 half = Chunk / 2; half > 0; half /= 2) {
		if (THREAD < half)
			partial[THREAD] = add(f, partial[THREAD], partial[THREAD + half]);
		__syncthreads();
	}
	if (THREAD == 0)
		sums[(u64)chunk * c.primes + prime] = partial[0];
}

INLINE u32 small(Field f, u32 square, u32 i) { return mul(f, i, square); }

// A thread has a prime.
KERNEL(32, 1) enumerative_curves(const u32 *__restrict fields, u32 *__restrict numbers, CurveParams c) {
	u64 i = (u64)BLOCK_X * THREADS + THREAD;
	if (i >= c.primes)
		return;
	Field f = {fields[4 * i], fields[4 * i + 1], fields[4 * i + 2]};
	u32 square = fields[4 * i + 3];
	u64 n = c.degree + 1;
	u32 *number = numbers + 5 * n * i, *cubes = number + n, *ones = cubes + n, *squares = ones + n, *twos = squares + n;
	for (u32 d = c.from; d < c.to; d++) {
		u32 at;
		if (d > 1) {
			u32 twice = 0, once = 0;
			for (u32 a = 1; a < d; a++) {
				twice = add(f, twice, mul(f, cubes[a], ones[d - a]));
				once = add(f, once, mul(f, squares[a], twos[d - a]));
			}
			u32 below = mul(f, mul(f, small(f, square, 3 * d - 1), small(f, square, 3 * d - 2)), small(f, square, 3 * d - 3));
			at = mul(f, sub(f, add(f, twice, twice), once), power(f, below, f.p - 2));
		} else {
			at = power(f, small(f, square, 2), f.p - 2);
			for (u32 row = 0; row < 5; row++)
				number[row * n] = 0;
		}
		u32 by = small(f, square, d), product = mul(f, at, by), both = mul(f, product, small(f, square, 3 * d - 1));
		number[d] = at;
		squares[d] = mul(f, product, by);
		cubes[d] = mul(f, mul(f, product, by), by);
		ones[d] = both;
		twos[d] = mul(f, both, by);
	}
}
