// Sums over fixed points of a Grassmannian modulo primes, as package enumerative has them. A
// group adds up a chunk of points modulo one prime, four points to an invocation.
//: enumerative_sums
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Space { uint space[]; };
layout(std430, binding = 1) readonly buffer Tables { uint tables[]; };
layout(std430, binding = 2) writeonly buffer Sums { uint sums[]; };
//params: params
layout(push_constant) uniform Params {
	uint problem, n, k; // problem is an index of problems
	uint exponent; // to which Degree takes the sum, or the hypersurface's degree
	uint classes;
	uint primes;
	uint first, count; // points
};

const uint Chunk = 256, MaxK = 16, MaxN = 64, RootsAt = 3;
const uint Degree = 0, Hypersurface = 1;

// The integers modulo p in Montgomery form, and where the table of the field begins.
uint p, neg, one, table;

uint mul(uint a, uint b) {
	uint high, low, more, zero;
	umulExtended(a, b, high, low);
	umulExtended(low * neg, p, more, zero);
	uint u = high + more + (low != 0 ? 1 : 0); // the lower words add up to 0 or 2^32
	return u >= p ? u - p : u;
}
uint add(uint a, uint b) { return a + b >= p ? a + b - p : a + b; }
uint sub(uint a, uint b) { return a < b ? a + p - b : a - b; }
uint power(uint a, uint e) {
	uint to = one;
	for (; e > 0; e >>= 1) {
		if ((e & 1) != 0)
			to = mul(to, a);
		a = mul(a, a);
	}
	return to;
}

uint x[MaxK]; // the roots of a point
uint h[MaxN]; // their complete symmetric polynomials
uint m[MaxK * MaxK];

// forms is the product of the linear forms with coefficients that add up to the degree.
uint forms(uint degree) {
	uint a[MaxK], small = table + RootsAt + 2 * n, to = one;
	for (uint i = 0; i < k; i++)
		a[i] = 0;
	a[0] = degree;
	for (;;) {
		uint form = 0;
		for (uint i = 0; i < k; i++)
			form = add(form, mul(tables[small + a[i]], x[i]));
		to = mul(to, form);
		uint first = 0;
		while (a[first] == 0)
			first++;
		if (first == k - 1)
			return to;
		uint t = a[first];
		a[first] = 0;
		a[0] = t - 1;
		a[first + 1]++;
	}
}

// schur is the determinant of h of parts[i] - i + j.
uint schur(uint parts) {
	uint size = 0, det = one;
	while (size < k && space[parts + size] > 0)
		size++;
	for (uint i = 0; i < size; i++)
		for (uint j = 0; j < size; j++) {
			uint part = space[parts + i];
			m[i * MaxK + j] = part + j >= i ? h[part + j - i] : 0;
		}
	for (uint col = 0; col < size; col++) {
		uint row = col;
		while (row < size && m[row * MaxK + col] == 0)
			row++;
		if (row == size)
			return 0;
		if (row != col) {
			for (uint j = 0; j < size; j++) {
				uint t = m[row * MaxK + j];
				m[row * MaxK + j] = m[col * MaxK + j];
				m[col * MaxK + j] = t;
			}
			det = sub(0, det);
		}
		det = mul(det, m[col * MaxK + col]);
		uint inverse = power(m[col * MaxK + col], p - 2);
		for (row++; row < size; row++) {
			uint by = mul(m[row * MaxK + col], inverse);
			for (uint j = col; j < size; j++)
				m[row * MaxK + j] = sub(m[row * MaxK + j], mul(by, m[col * MaxK + j]));
		}
	}
	return det;
}

// schubert is the product of the classes.
uint schubert() {
	uint to = one;
	h[0] = one;
	for (uint d = 1; d < n; d++)
		h[d] = 0;
	for (uint i = 0; i < k; i++)
		for (uint d = 1; d < n; d++)
			h[d] = add(h[d], mul(x[i], h[d - 1]));
	for (uint i = 0; i < classes; i++)
		to = mul(to, schur(n * (k + 1) + i * k));
	return to;
}

// term is the term of a point.
uint term(uint rank) {
	uint roots = table + RootsAt, weights = roots + n, all = one, product = one, total = 0;
	for (uint i = k, j = n; i > 0; i--) {
		for (j--; space[j * (k + 1) + i] > rank; j--)
			;
		rank -= space[j * (k + 1) + i];
		uint xi = tables[roots + j];
		for (uint l = i; l < k; l++)
			all = mul(all, sub(xi, x[l]));
		x[i - 1] = xi;
		product = mul(product, tables[weights + j]);
		total = add(total, xi);
	}
	product = mul(product, mul(all, all));
	uint f = problem == Degree ? power(total, exponent) : problem == Hypersurface ? forms(exponent) : schubert();
	return mul(product, f);
}

shared uint partial[64];

void main() {
	uint chunk = gl_WorkGroupID.x, prime = gl_WorkGroupID.y, thread = gl_LocalInvocationID.x;
	table = prime * (RootsAt + 2 * n + exponent + 1);
	p = tables[table];
	neg = tables[table + 1];
	one = tables[table + 2];
	uint sum = 0;
	for (uint i = thread; i < Chunk; i += 64)
		if (chunk * Chunk + i < count)
			sum = add(sum, term(first + chunk * Chunk + i));
	partial[thread] = sum;
	barrier();
	for (uint width = 32; width > 0; width /= 2) {
		if (thread < width)
			partial[thread] = add(partial[thread], partial[thread + width]);
		barrier();
	}
	if (thread == 0)
		sums[chunk * primes + prime] = partial[0];
}
