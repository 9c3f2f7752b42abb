// Products and norms of multivectors, as package clifford has them: a multivector to a thread at a time.
#include "../device.cuh"

//params: params
struct Params {
	unsigned p, q; // of the algebra
	unsigned n; // multivectors
	unsigned left, right;
};

enum : u32 { Negative = 1u << 31, Threads = 128, Each = 4 }; // products of a thread

// Table has the entries of an algebra of P + Q = D vectors, made by the compiler: in row i the
// blade j whose product with i is k, and whether that is negative. Blades are in the order of
// their number of vectors and then of their names.
template <int P, int D> struct Table {
	static constexpr int Size = 1 << D;
	u8 right[Size][Size];
	bool minus[Size][Size];

	static constexpr int count(u32 set) {
		int n = 0;
		for (; set; set &= set - 1)
			n++;
		return n;
	}
	// before says whether blade a comes before b.
	static constexpr bool before(u32 a, u32 b) {
		if (count(a) != count(b))
			return count(a) < count(b);
		u32 differ = a ^ b;
		return differ & -differ & a; // the lowest vector that is in one only
	}
	constexpr Table() : right{}, minus{} {
		u32 sets[Size] = {}, at[Size] = {};
		for (u32 a = 0; a < Size; a++) {
			u32 position = 0;
			for (u32 b = 0; b < Size; b++)
				if (b != a && before(b, a))
					position++;
			sets[position] = a;
			at[a] = position;
		}
		for (u32 i = 0; i < Size; i++)
			for (u32 k = 0; k < Size; k++) {
				u32 left = sets[i], other = left ^ sets[k];
				int changes = count(left & other & (~0u << P));
				for (u32 s = left >> 1; s; s >>= 1)
					changes += count(s & other);
				right[i][k] = at[other];
				minus[i][k] = changes & 1;
			}
	}
};

template <int N> INLINE void load(float (&to)[N], const float *from) {
#pragma unroll
	for (int i = 0; i < N; i += 4) {
		float4 u = *(const float4 *)(from + i);
		to[i] = u.x, to[i + 1] = u.y, to[i + 2] = u.z, to[i + 3] = u.w;
	}
}

// multiply writes a product of an algebra that the compiler knows, by vectors of four numbers.
template <int P, int D> INLINE void multiply(const float (&a)[1 << D], const float (&b)[1 << D], float *out) {
	constexpr Table<P, D> table;
	constexpr int n = 1 << D;
#pragma unroll
	for (int k = 0; k < n; k += 4) {
		float sum[4];
#pragma unroll
		for (int l = 0; l < 4; l++) {
			sum[l] = 0;
#pragma unroll
			for (int i = 0; i < n; i++) {
				float term = a[i] * b[table.right[i][k + l]];
				sum[l] += table.minus[i][k + l] ? -term : term;
			}
		}
		float4 w = {sum[0], sum[1], sum[2], sum[3]};
		*(float4 *)(out + k) = w;
	}
}

// fixed has the products of a block, of an algebra that the compiler knows. A thread reads the factors
// of Batch products before it multiplies, so that enough reads are under way: the registers of the
// largest algebra leave room for few threads. In the last block, where some may be missing, it has one
// at a time.
template <int P, int D, u32 Batch> INLINE void fixed(const float *left, const float *right, float *out, Params c) {
	constexpr int n = 1 << D;
	u64 at = (u64)BLOCK_X * (Threads * Each), end = at + Threads * Each;
	bool full = end <= c.n;
	end = full ? end : c.n;
	at += THREAD;
	if (Batch > 1 && full) {
#pragma unroll 1
		for (; at < end; at += Batch * Threads) {
			float a[Batch][n], b[Batch][n];
#pragma unroll
			for (u32 m = 0; m < Batch; m++) {
				load(a[m], left + (at + m * Threads) * n * c.left);
				load(b[m], right + (at + m * Threads) * n * c.right);
			}
#pragma unroll
			for (u32 m = 0; m < Batch; m++)
				multiply<P, D>(a[m], b[m], out + (at + m * Threads) * n);
		}
		return;
	}
#pragma unroll 1
	for (; at < end; at += Threads) {
		float a[n], b[n];
		load(a, left + at * n * c.left);
		load(b, right + at * n * c.right);
		multiply<P, D>(a, b, out + at * n);
	}
}

// clifford_product: grid (n) cut by 512, 128 threads.
KERNEL(128, 1) clifford_product(const float *__restrict left, const float *__restrict right, const u32 *__restrict tables, float *__restrict out, Params c) {
	if (aligned(left) && aligned(right) && aligned(out)) {
		if (c.p == 3 && c.q == 0)
			return fixed<3, 3, 4>(left, right, out, c);
		if (c.p == 1 && c.q == 3)
			return fixed<1, 4, 2>(left, right, out, c);
		if (c.p == 4 && c.q == 1)
			return fixed<4, 5, 1>(left, right, out, c);
	}
	u32 n = 1u << (c.p + c.q);
	u64 at = (u64)BLOCK_X * (Threads * Each) + THREAD;
#pragma unroll 1
	for (u32 m = 0; m < Each && at < c.n; m++, at += Threads) {
		const float *x = left + at * n * c.left, *y = right + at * n * c.right;
		float *to = out + at * n;
		for (u32 k = 0; k < n; k++) {
			float sum = 0;
			for (u32 i = 0; i < n; i++) {
				u32 e = tables[i * n + k];
				float term = x[i] * y[e & ~Negative];
				sum += e & Negative ? -term : term;
			}
			to[k] = sum;
		}
	}
}

KERNEL(128, 1) clifford_normalize(const float *__restrict x, const u32 *__restrict tables, float *__restrict out, Params c) {
	u32 n = 1u << (c.p + c.q);
	u64 at = (u64)BLOCK_X * THREADS + THREAD;
	if (at >= c.n)
		return;
	x += at * n;
	out += at * n;
	u32 largest = 0;
	for (u32 k = 0; k < n; k++) {
		u32 bits = __builtin_bit_cast(u32, x[k]) & ~Negative;
		largest = bits > largest ? bits : largest;
	}
	// The power of two that takes the largest number to 1 to 4, 1 if it is not finite.
	u32 exponent = largest >> 23;
	float scale = exponent == 255 ? 1 : __builtin_bit_cast(float, (exponent == 254 ? 1 : 254 - exponent) << 23);
	float sum = 0;
	for (u32 k = 0; k < n; k++) {
		float v = x[k] * scale;
		float square = v * v;
		sum += tables[n * n + k] & Negative ? -square : square;
	}
	float by = __nvvm_sqrt_rn_f(sum < 0 ? -sum : sum); // of NaN none
	for (u32 k = 0; k < n; k++)
		out[k] = sum == 0 ? x[k] : x[k] * scale / by;
}
