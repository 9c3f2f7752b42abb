// The tile of a matrix product that a block computes: 8 × 8 elements for each
// thread, operands in shared memory twice, so that the next part is fetched while
// this one is used. Which algebra it is over, an Op says,
// and how far to unroll.
#pragma once
#include "../../workload/device.cuh"

// Place is where in the tile of a block a thread's elements are: rows row to
// row+3 and row+16 to row+19, columns col to col+3 and col+32 to col+35. A warp
// has 32 rows and 64 columns, and its loads of shared memory meet no bank twice.
struct Place {
	u32 row, col;
};

// place puts the warps of a block side by side, so many in a row of them.
INLINE Place place(u32 across) {
	u32 warp = THREAD / 32, lane = THREAD % 32;
	return {warp / across * 32 + lane / 8 * 4, warp % across * 64 + lane % 8 * 4};
}

// accumulate takes one column of A and one row of B from shared memory into a
// thread's elements.
template <class Op> INLINE void accumulate(float (&acc)[8][8], const float *column, const float *row) {
	float4 a0 = *(const float4 *)column, a1 = *(const float4 *)(column + 16);
	float4 b0 = *(const float4 *)row, b1 = *(const float4 *)(row + 32);
	float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
	float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
	for (int i = 0; i < 8; i++)
#pragma unroll
		for (int j = 0; j < 8; j++)
			acc[i][j] = Op::step(acc[i][j], a[i], b[j]);
}

//params: graph.MatMul
struct Sizes {
	unsigned m, k, n;
};

// Depth is the part of the inner dimension that is in shared memory at a time.
enum : u32 { Depth = 8 };

// Stage is that part for a tile, the side of the square of C that a block
// computes. Rows of A's part lie apart so that its columns are stored without
// conflicts. Elements are read and written 16 bytes at a time.
template <u32 tile> struct alignas(16) Stage {
	float a[Depth][tile + 4], b[Depth][tile];
};

// product computes the tile of C at a row and column. If whole is set, the tile
// lies inside C, Depth divides k, and all rows may be read 16 bytes at a time;
// otherwise every element is looked at, and what is outside counts as the
// algebra's zero.
template <class Op, u32 tile, bool whole>
INLINE void product(float *c, const float *a, const float *b, Sizes size, u32 top, u32 left, Stage<tile> *stage) {
	// What this thread fetches: four elements of a row of A, four of a row of B,
	// and as many again of rows further on where threads are few.
	const u32 threads = tile * tile / 64, turns = tile * Depth / 4 / threads;
	u32 ra = THREAD / 2, ka = THREAD % 2 * 4, kb = THREAD / (tile / 4), cb = THREAD % (tile / 4) * 4;
	const float *pa = a + (u64)(top + ra) * size.k + ka, *pb = b + (u64)kb * size.n + left + cb;
	float4 va[turns], vb[turns];
	auto fetch = [&](u32 k) {
#pragma unroll
		for (u32 t = 0; t < turns; t++) {
			u32 da = t * threads / 2, db = t * threads / (tile / 4);
			const float *qa = pa + (u64)da * size.k + k, *qb = pb + (u64)(db + k) * size.n;
			if (whole) {
				va[t] = *(const float4 *)qa;
				vb[t] = *(const float4 *)qb;
				continue;
			}
#pragma unroll
			for (u32 i = 0; i < 4; i++) {
				va[t][i] = top + ra + da < size.m && k + ka + i < size.k ? qa[i] : Op::zero();
				vb[t][i] = left + cb + i < size.n && k + kb + db < size.k ? qb[i] : Op::zero();
			}
		}
	};
	auto store = [&](Stage<tile> *to) {
#pragma unroll
		for (u32 t = 0; t < turns; t++) {
#pragma unroll
			for (u32 i = 0; i < 4; i++)
				to->a[ka + i][ra + t * threads / 2] = va[t][i];
			*(float4 *)&to->b[kb + t * threads / (tile / 4)][cb] = vb[t];
		}
	};
	float acc[8][8];
#pragma unroll
	for (int i = 0; i < 8; i++)
#pragma unroll
		for (int j = 0; j < 8; j++)
			acc[i][j] = Op::start();
	Place at = place(tile / 64);
	fetch(0);
	store(stage);
	__syncthreads();
	u32 now = 0;
	for (u32 k = 0; k < size.k; k += Depth) {
		bool more = k + Depth < size.k;
		if (more)
			fetch(k + Depth);
#pragma unroll Op::Unroll
		for (u32 d = 0; d < Depth; d++)
			accumulate<Op>(acc, &stage[now].a[d][at.row], &stage[now].b[d][at.col]);
		now ^= 1;
		if (more)
			store(stage + now);
		__syncthreads();
	}
	u32 row = top + at.row, col = left + at.col;
	bool again = false;
#pragma unroll
	for (u32 i = 0; i < 8; i++) {
		u32 r = row + i / 4 * 16 + i % 4;
#pragma unroll
		for (u32 j = 0; j < 8; j += 4) {
			u32 cc = col + j * 8;
			float4 v;
#pragma unroll
			for (u32 l = 0; l < 4; l++) {
				v[l] = acc[i][j + l];
				again |= Op::doubtful(v[l]);
			}
			if (whole) {
				*(float4 *)(c + (u64)r * size.n + cc) = v;
				continue;
			}
#pragma unroll
			for (u32 l = 0; l < 4; l++)
				if (r < size.m && cc + l < size.n)
					c[(u64)r * size.n + cc + l] = v[l];
		}
	}
	if (!again)
		return;
#pragma clang loop unroll(disable)
	for (u32 e = 0; e < 64; e++) {
		u32 r = row + e / 32 * 16 + e / 8 % 4, cc = col + e / 4 % 2 * 32 + e % 4;
		if (r < size.m && cc < size.n && Op::doubtful(c[(u64)r * size.n + cc]))
			c[(u64)r * size.n + cc] = Op::settle(a + (u64)r * size.k, b + cc, size.k, size.n);
	}
}

// rows_product is the kernel: grid (m, n) cut by tile, a thread for 64 elements.
// Large tiles read less; small ones keep a device busy with less work.
template <class Op, u32 tile> INLINE void rows_product(float *c, const float *a, const float *b, Sizes size) {
	__shared__ Stage<tile> stage[2];
	u32 top = BLOCK_X * tile, left = BLOCK_Y * tile;
	bool whole = top + tile <= size.m && left + tile <= size.n && size.k % Depth == 0 && size.n % 4 == 0 &&
		aligned(a) && aligned(b) && aligned(c);
	if (whole)
		product<Op, tile, true>(c, a, b, size, top, left, stage);
	else
		product<Op, tile, false>(c, a, b, size, top, left, stage);
}
