// Number-theoretic transforms in the field of scalars of BN254, as package ntt has them. A
// block transforms columns that have 512 elements together, two to a thread, in shared memory,
// where the words of an element lie apart so that threads side by side meet in no bank.
#include "../field/fr.cuh"

enum : u32 { LogLocal = 9, Elements = 1 << LogLocal, Locals = Elements / 2 };
enum : u32 { ScaleNone, ScaleFirst, ScaleBy, ScaleLast };
enum : u32 { OrderRows, OrderMixed, OrderColumns };

//params: passParams
struct PassParams {
	unsigned size, span; // logs
	unsigned before; // log of the product of the lengths of passes before
	unsigned shift; // log of the number of such rows in the whole transform
	unsigned first, count; // the columns: the first, and their number
	unsigned from; // the first column of the source
	unsigned stride; // distance in elements from one element of a column to the next
	unsigned rows, row; // rows, and the number of the first
	unsigned backward; // 1 for an inverse transform
	unsigned scale; // scaling: one of those below
	unsigned order; // of the elements after: one of those below
};

//params: moveParams
struct MoveParams {
	unsigned rows, cols;
	unsigned from, from_stride;
	unsigned to, to_stride;
};

// Behind every 32 words one is left out, or words 2, 16 and 256 apart would meet in banks.
enum : u32 { Spread = Elements + Elements / 32 };

INLINE Fr get(const u32 (*words)[Spread], u32 i) {
	Fr x;
	for (u32 w = 0; w < 8; w++)
		x.v[w] = words[w][i + i / 32];
	return x;
}

INLINE void put(u32 (*words)[Spread], u32 i, Fr x) {
	for (u32 w = 0; w < 8; w++)
		words[w][i + i / 32] = x.v[w];
}

// at is a power from a pair of tables.
INLINE Fr at(const Fr *table, u32 bits, u32 exponent) {
	return mul(table[exponent & ((1u << bits) - 1)], table[(1u << bits) + (exponent >> bits)]);
}

KERNEL(256, 2) ntt_pass(const Fr *__restrict before, Fr *__restrict after, const Fr *__restrict tables, PassParams p) {
	__shared__ u32 words[8][Spread];
	u32 length = 1u << p.span, per = Elements >> p.span;
	u32 log = p.size + p.shift, bits = (log + 1) / 2;
	const Fr *roots = tables + Locals, *factor = roots + (1u << bits) + (1u << (log - bits));
	u32 column = BLOCK_X * per, row = BLOCK_Y;
	before += (u64)row << p.size;

	for (u32 e = THREAD; e < Elements; e += THREADS) {
		u32 c = column + e % per, n = e / per;
		Fr x = Fr::zero();
		if (c < p.count) {
			c += p.first;
			x = before[n * p.stride + c - p.from];
			if (p.scale == ScaleFirst)
				x = mul(x, at(factor, bits, (n << (p.size - p.span)) + c));
		}
		put(words, e % per * length + n, x);
	}
	__syncthreads();

	// Columns lie one after the other, so that a butterfly's number says where it is.
	for (u32 half = length / 2; half > 0; half /= 2) {
		u32 j = THREAD % half, i = 2 * (THREAD - j) + j;
		Fr a = get(words, i), b = get(words, i + half), d = sub(a, b);
		if (half > 1)
			d = mul(d, tables[j * (Locals / half)]);
		put(words, i, add(a, b));
		put(words, i + half, d);
		__syncthreads();
	}

	for (u32 e = THREAD; e < Elements; e += THREADS) {
		u32 c = e % per, k = e / per;
		if (p.before == 0 && p.order != OrderColumns) { // then those of a column are written side by side
			c = e / length;
			k = e % length;
		}
		if (column + c >= p.count)
			continue;
		u32 from = p.backward ? (length - k) % length : k;
		Fr x = get(words, c * length + (p.span ? __builtin_bitreverse32(from) >> (32 - p.span) : 0));
		c += p.first + column;
		u32 rest = c >> p.before;
		if (rest)
			x = mul(x, at(roots, bits, (rest * k) << (p.before + p.shift)));
		u32 place = (rest << (p.before + p.span)) + (c & ((1u << p.before) - 1)) + (k << p.before);
		if (p.scale == ScaleBy)
			x = mul(x, factor[1u << bits]);
		else if (p.scale == ScaleLast)
			x = mul(x, at(factor, bits, (place << p.shift) + p.row + row));
		u64 to = place + ((u64)row << p.size);
		if (p.order == OrderMixed)
			to = (u64)place * p.rows + row;
		else if (p.order == OrderColumns)
			to = (u64)k * p.count + c - p.first;
		after[to] = x;
	}
}

KERNEL(256, 1) ntt_move(const Fr *__restrict from, Fr *__restrict to, MoveParams p) {
	u32 i = BLOCK_X * THREADS + THREAD;
	if (i >= p.rows * p.cols)
		return;
	u32 row = i / p.cols, col = i % p.cols;
	to[p.to + row * p.to_stride + col] = from[p.from + row * p.from_stride + col];
}
