// Convolution as the product of the filters, K × (C·R·S), with the patches of the
// images, (C·R·S) × (N·P·Q), which are never laid out: they are fetched from the
// images as they are needed. Every element is one chain of fused multiply-adds
// from zero in the order of c, r, s, as on a CPU with AVX2: the same bits.
#include "../../internal/panel/tile.cuh"

//params: graph.Conv2D
struct Shape {
	unsigned n, c, h, w; // images, and their channels, rows and columns
	unsigned k, r, s; // filters, and their rows and columns
	unsigned stride, pad; // from one result to the next, and zeros on each side of an image
};

// A block of Threads computes Filters × Patches elements of the output, 8 × 8 to a
// thread.
enum : u32 { Filters = 64, Patches = 256, Threads = 256, Pitch = Filters + 4 };

struct SumProduct {
	INLINE float step(float acc, float a, float b) { return __builtin_fmaf(a, b, acc); }
};

typedef float Sums[8][8];

// pipeline takes layer after layer of filters and images into the elements of a
// thread, fetching the next while this one is used.
template <class Layer, class Fetch, class Store, class Use>
INLINE void pipeline(u32 layers, Layer *layer, Fetch fetch, Store store, Use use) {
	fetch(0);
	store(layer[0]);
	__syncthreads();
	u32 now = 0;
	for (u32 l = 0; l < layers; l++) {
		bool more = l + 1 < layers;
		if (more)
			fetch(l + 1);
		use(layer[now]);
		now ^= 1;
		if (more)
			store(layer[now]);
		__syncthreads();
	}
}

// Square is a channel of 3 × 3 filters, and of the part of an image that High ×
// Wide outputs side by side need: patches overlap, so they are read once. Elements are read 16 bytes at a time.
enum : u32 { High = 8, Wide = 32, Rows = High + 2, Cols = Wide + 2 };

struct alignas(16) Square {
	float w[9][Pitch], x[Rows][Cols + 2];
};

// square sums 3 × 3 filters with stride 1 for the outputs of an image from row p
// and column q on.
INLINE void square(Sums &acc, const float *image, const float *filters, const Shape &s, u32 top, u32 p, u32 q, Square *layer) {
	const u32 parts = (Rows * Cols + Threads - 1) / Threads, each = (Filters * 9 + Threads - 1) / Threads;
	u32 plane = s.h * s.w, from[parts], to[parts], put[each];
	const float *w[each];
	bool there[parts];
#pragma unroll
	for (u32 i = 0; i < parts; i++) {
		u32 e = THREAD + i * Threads, row = p - s.pad + e / Cols, col = q - s.pad + e % Cols;
		there[i] = e < Rows * Cols && row < s.h && col < s.w; // what is below zero is large, too
		from[i] = there[i] ? row * s.w + col : 0;
		to[i] = e / Cols * (Cols + 2) + e % Cols;
	}
#pragma unroll
	for (u32 i = 0; i < each; i++) {
		u32 e = min(THREAD + i * Threads, Filters * 9 - 1), f = e / 9;
		w[i] = filters + (u64)min(top + f, s.k - 1) * s.c * 9 + e % 9;
		put[i] = e % 9 * Pitch + f;
	}
	float vx[parts], vw[each];
	Place at = place(Patches / 64);
	pipeline(s.c, layer, [&](u32) {
#pragma unroll
		for (u32 i = 0; i < parts; i++)
			vx[i] = there[i] ? image[from[i]] : 0;
		image += plane;
#pragma unroll
		for (u32 i = 0; i < each; i++)
			vw[i] = *w[i], w[i] += 9;
	}, [&](Square &l) {
#pragma unroll
		for (u32 i = 0; i < parts; i++)
			if (THREAD + i * Threads < Rows * Cols)
				((float *)l.x)[to[i]] = vx[i];
#pragma unroll
		for (u32 i = 0; i < each; i++)
			if (THREAD + i * Threads < Filters * 9)
				((float *)l.w)[put[i]] = vw[i];
	}, [&](const Square &l) {
		// A thread's columns are four of one row and the same four of the next.
		float x[4][6];
#pragma unroll
		for (u32 r = 0; r < 4; r++) {
			const float *row = &l.x[at.col / Wide + r][at.col % Wide];
			float4 four = *(const float4 *)row;
			float2 two = *(const float2 *)(row + 4);
			x[r][0] = four.x, x[r][1] = four.y, x[r][2] = four.z, x[r][3] = four.w, x[r][4] = two.x, x[r][5] = two.y;
		}
#pragma unroll
		for (u32 t = 0; t < 9; t++) {
			float4 a[2] = {*(const float4 *)&l.w[t][at.row], *(const float4 *)&l.w[t][at.row + 16]};
#pragma unroll
			for (u32 i = 0; i < 8; i++)
#pragma unroll
				for (u32 j = 0; j < 8; j++)
					acc[i][j] = SumProduct::step(acc[i][j], a[i / 4][i % 4], x[j / 4 + t / 3][j % 4 + t % 3]);
		}
	});
}

// Layer is eight terms of the sums. Elements are read 16 bytes at a time.
struct alignas(16) Layer {
	float w[8][Pitch], x[8][Patches];
};

// any sums filters of any size for the outputs from j on, counted through all
// images. A thread fetches the terms of one patch.
INLINE void any(Sums &acc, const float *x, const float *filters, const Shape &s, u32 top, u64 j, u32 p, u32 q, Layer *layer) {
	u64 image = (j + THREAD) / ((u64)p * q);
	u32 rest = j + THREAD - image * p * q, terms = s.c * s.r * s.s, plane = s.h * s.w;
	u32 y = rest / q * s.stride - s.pad, z = rest % q * s.stride - s.pad; // of the patch; below zero is large
	x += image * s.c * plane;
	u32 channel = 0, row = 0, col = 0; // of the next term
	u32 f = THREAD / 4, part = THREAD % 4 * 2;
	const float *w = filters + (u64)min(top + f, s.k - 1) * terms + part;
	float vx[8], vw[2];
	Place at = place(Patches / 64);
	pipeline((terms + 7) / 8, layer, [&](u32 t) {
		t *= 8;
#pragma unroll
		for (u32 i = 0; i < 8; i++) {
			bool there = image < s.n && t + i < terms && y + row < s.h && z + col < s.w;
			vx[i] = there ? x[(u64)channel * plane + ((y + row) * s.w + (z + col))] : 0;
			if (++col == s.s) {
				col = 0;
				if (++row == s.r)
					row = 0, channel++;
			}
		}
#pragma unroll
		for (u32 i = 0; i < 2; i++)
			vw[i] = t + part + i < terms ? w[t + i] : 0;
	}, [&](Layer &l) {
#pragma unroll
		for (u32 i = 0; i < 8; i++)
			l.x[i][THREAD] = vx[i];
#pragma unroll
		for (u32 i = 0; i < 2; i++)
			l.w[part + i][f] = vw[i];
	}, [&](const Layer &l) {
#pragma unroll
		for (u32 d = 0; d < 8; d++)
			accumulate<SumProduct>(acc, &l.w[d][at.row], &l.x[d][at.col]);
	});
}

// save writes column j of a thread's elements, and the three after it if it may,
// to the output at a place of the first of its filters.
INLINE void save(const Sums &acc, u32 j, bool four, float *out, u32 area, u32 filters) {
#pragma unroll
	for (u32 i = 0; i < 8; i++) {
		u32 row = i / 4 * 16 + i % 4;
		if (row >= filters)
			continue;
		if (four)
			*(float4 *)(out + (u64)row * area) = {acc[i][j], acc[i][(j + 1) % 8], acc[i][(j + 2) % 8], acc[i][(j + 3) % 8]};
		else
			out[(u64)row * area] = acc[i][j];
	}
}

// conv_images: grid (rows, filters, images) cut by 1, Filters and 2, 256 threads.
// Only the number of blocks counts: they take the outputs in turn.
KERNEL(256, 2) conv_images(const float *__restrict x, const float *__restrict filters, float *__restrict y, Shape s) {
	__shared__ union {
		Square square[2];
		Layer any[2];
	} layer;
	u32 p = (s.h + 2 * s.pad - s.r) / s.stride + 1, q = (s.w + 2 * s.pad - s.s) / s.stride + 1, area = p * q;
	u32 down = (p + High - 1) / High, across = (q + Wide - 1) / Wide, top = BLOCK_Y * Filters;
	u32 block = BLOCK_Z * BLOCKS_X + BLOCK_X, blocks = BLOCKS_X * BLOCKS_Z;
	Place at = place(Patches / 64);
	u32 rest = s.k - top > at.row ? s.k - top - at.row : 0; // filters from the thread's first on
	// Tiles that stand out over the edges by more than a third cost more than they
	// save.
	if (s.r == 3 && s.s == 3 && s.stride == 1 && 3ull * down * across * Patches <= 4ull * area) {
		for (u32 tile = block; tile < s.n * down * across; tile += blocks) {
			u32 image = tile / (down * across), row = tile / across % down * High, col = tile % across * Wide;
			Sums acc = {};
			square(acc, x + (u64)image * s.c * s.h * s.w, filters, s, top, row, col, layer.square);
			row += at.col / Wide, col += at.col % Wide;
			bool four = q % 4 == 0 && aligned(y) && col < q;
			float *out = y + ((u64)image * s.k + top + at.row) * area + (u64)row * q + col;
#pragma unroll
			for (u32 j = 0; j < 8; j++)
				if (row + j / 4 < p && col + j % 4 < q && (!four || j % 4 == 0))
					save(acc, j, four, out + j / 4 * q + j % 4, area, rest);
		}
		return;
	}
	u64 outputs = (u64)s.n * area;
	for (u64 j = (u64)block * Patches; j < outputs; j += (u64)blocks * Patches) {
		Sums acc = {};
		any(acc, x, filters, s, top, j, p, q, layer.any);
		bool four = area % 4 == 0 && aligned(y);
#pragma unroll
		for (u32 i = 0; i < 8; i++) {
			u64 to = j + at.col + i / 4 * 32 + i % 4, image = to / area;
			if (to < outputs && (!four || i % 4 == 0))
				save(acc, i, four, y + (image * s.k + top + at.row) * area + (to - image * area), area, rest);
		}
	}
}

//params: rowsParams
struct Band {
	unsigned n, c, h, w; // images, and their channels, rows and columns
	unsigned k, r, s; // filters, and their rows and columns
	unsigned stride, pad; // from one result to the next, and zeros on each side of an image
	unsigned first, rows; // of the results
	unsigned top_row; // the first row of the images that there is
};

// conv_rows: grid (rows, filters, images) cut by 1, 16 and 1, 64 threads. Rows of all
// channels of all images lie together. A block computes a row of 16 filters.
KERNEL(64, 8) conv_rows(const float *__restrict x, const float *__restrict filters, float *__restrict y, Band band) {
	Band s = band;
	u32 q = (s.w + 2 * s.pad - s.s) / s.stride + 1, terms = s.c * s.r * s.s;
	u32 row = band.first + BLOCK_X, top = BLOCK_Y * 16, image = BLOCK_Z;
	for (u32 col = THREAD; col < q; col += 64) {
		float acc[16] = {};
		u32 term = 0;
		for (u32 c = 0; c < s.c; c++)
			for (u32 i = 0; i < s.r; i++) {
				u32 h = row * s.stride + i - s.pad; // what is below zero is large, too
				const float *line = x + (((u64)h - band.top_row) * s.n * s.c + (u64)image * s.c + c) * s.w;
				for (u32 j = 0; j < s.s; j++, term++) {
					u32 w = col * s.stride + j - s.pad;
					float v = h < s.h && w < s.w ? line[w] : 0;
#pragma unroll
					for (u32 f = 0; f < 16; f++) // what is not there is computed, and not written
						acc[f] = __builtin_fmaf(filters[(u64)min(top + f, s.k - 1) * terms + term], v, acc[f]);
				}
			}
#pragma unroll
		for (u32 f = 0; f < 16; f++)
			if (top + f < s.k)
				y[((u64)BLOCK_X * s.n * s.k + (u64)image * s.k + top + f) * q + col] = acc[f];
	}
}
