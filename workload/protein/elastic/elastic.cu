// Steps of the Lanczos method in float64. A block of threads has a block of rows; sums are
// those of blocks, in their order, so that they do not depend on how blocks are dealt out.
#include "../../device.cuh"

//params: params
struct Params {
	unsigned block; // rows of a block
	unsigned blocks; // of this task
	unsigned all; // blocks of the matrix
	unsigned first; // block of this task
	unsigned width; // vectors that a block has room for
	unsigned count; // vectors that there are, the new one included
	unsigned seed; // of random numbers: the step
	double least; // a vector whose sum of squares is no more is zero but for rounding
};

enum : u32 { Threads = 64 };

// dots adds up the products of every vector of a block with its rows: a warp has a vector at a
// time, and a lane of it every 32nd row.
INLINE void dots(double *sums, const double *basis, const double *rows, Params p, double *diagonal) {
	for (u32 i = THREAD / 32; i < p.count; i += Threads / 32) {
		double s = 0;
		for (u32 r = THREAD % 32; r < p.block; r += 32)
			s += basis[(u64)i * p.block + r] * rows[r];
		for (u32 by = 16; by > 0; by /= 2) {
			u64 b = __builtin_bit_cast(u64, s);
			u64 other = (u64)from_above((u32)b, by) | (u64)from_above((u32)(b >> 32), by) << 32;
			s += __builtin_bit_cast(double, other);
		}
		if (THREAD % 32 == 0) {
			sums[i] = s;
			if (diagonal && i == p.count - 1)
				*diagonal = s;
		}
	}
}

// noise is as in the Go code.
INLINE double noise(u32 row, u32 seed) {
	u32 x = row * 0x9e3779b9u ^ seed * 0x85ebca6bu;
	x = (x ^ x >> 16) * 0x85ebca6bu;
	x = (x ^ x >> 13) * 0xc2b2ae35u;
	x ^= x >> 16;
	return (double)x / 2147483648.0 - 1;
}

// elastic_multiply: grid (blocks) cut by 1, 64 threads.
KERNEL(64, 8) elastic_multiply(const u32 *__restrict starts, const u32 *__restrict columns, const double *__restrict values, const double *__restrict vector, const double *__restrict squares, double *basis, double *__restrict product, double *__restrict diagonal, double *__restrict sums, Params p) {
	__shared__ double rows[Threads];
	double *own = basis + (u64)BLOCK_X * p.block * p.width;
	double length2 = 0;
	for (u32 b = 0; b < p.all; b++)
		length2 += squares[b];
	double scale = length2 <= p.least ? 0 : 1 / __nvvm_sqrt_rn_d(length2);
	if (THREAD < p.block) {
		u32 row = BLOCK_X * p.block + THREAD;
		own[(u64)(p.count - 1) * p.block + THREAD] = vector[(u64)(p.first + BLOCK_X) * p.block + THREAD] * scale;
		double sum = 0;
		u32 k = starts[row] - starts[0], end = starts[row + 1] - starts[0];
		if (scale == 0 && k < end) {
			sum = noise((p.first + BLOCK_X) * p.block + THREAD, p.seed);
		} else {
			for (; k < end; k++)
				sum += values[k] * vector[columns[k]];
			sum *= scale;
		}
		rows[THREAD] = sum;
		product[row] = sum;
	}
	__syncthreads();
	dots(sums + (u64)BLOCK_X * p.width, own, rows, p, diagonal + BLOCK_X);
}

// less returns what is left of a row of a product without what is along the basis.
INLINE double less(double w, const double *sums, const double *own, Params p, double *along) {
	for (u32 i = 0; i < p.count; i += Threads) {
		double h = 0;
		for (u32 b = 0; i + THREAD < p.count && b < p.all; b++)
			h += sums[(u64)b * p.width + i + THREAD];
		__syncthreads();
		along[THREAD] = h;
		__syncthreads();
		for (u32 k = 0; THREAD < p.block && k < min(Threads, p.count - i); k++)
			w -= along[k] * own[(u64)(i + k) * p.block + THREAD];
	}
	return w;
}

// elastic_project: grid (blocks) cut by 1, 64 threads.
KERNEL(64, 8) elastic_project(const double *__restrict sums, const double *__restrict basis, double *__restrict product, double *__restrict again, Params p) {
	__shared__ double rows[Threads], along[Threads];
	const double *own = basis + (u64)BLOCK_X * p.block * p.width;
	u32 row = BLOCK_X * p.block + THREAD;
	double w = less(THREAD < p.block ? product[row] : 0, sums, own, p, along);
	if (THREAD < p.block) {
		rows[THREAD] = w;
		product[row] = w;
	}
	__syncthreads();
	dots(again + (u64)BLOCK_X * p.width, own, rows, p, 0);
}

// elastic_rest: grid (blocks) cut by 1, 64 threads.
KERNEL(64, 8) elastic_rest(const double *__restrict sums, const double *__restrict basis, const double *__restrict product, double *__restrict vector, double *__restrict squares, Params p) {
	__shared__ double rows[Threads], along[Threads];
	const double *own = basis + (u64)BLOCK_X * p.block * p.width;
	u32 row = BLOCK_X * p.block + THREAD;
	double w = less(THREAD < p.block ? product[row] : 0, sums, own, p, along);
	if (THREAD < p.block) {
		rows[THREAD] = w;
		vector[row] = w;
	}
	__syncthreads();
	if (THREAD == 0) {
		double sum = 0;
		for (u32 r = 0; r < p.block; r++)
			sum += rows[r] * rows[r];
		squares[BLOCK_X] = sum;
	}
}
