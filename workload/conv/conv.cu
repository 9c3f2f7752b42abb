// Convolution as the product of the filters, K × (C·R·S), with the patches of the
// images, (C·R·S) × (N·P·Q), which are never laid out: they are fetched from the
// images as they are needed. Every element is one chain of fused multiply-adds
// from zero in the order of c, r, s, as on a CPU with AVX2: the same bits.
#include "../gemm/panel/tile.cuh"

// Params: the numbers of the layer.
struct Shape {
	u32 n, c, h, w, k, r, s, stride, pad;
};

// A block computes Filters × Patches elements of the output.
enum : u32 { Filters = 64, Patches = 256, FilterPitch = Filters + 4 };

struct SumProduct {
	INLINE float step(float acc, float a, float b) { return __builtin_fmaf(a, b, acc); }
};

template <u32 depth> struct Layer {
	float w[depth][FilterPitch], x[depth][Patches];
};

// Patch is where a thread fetches from: the images at the first element of its
// patch, which may lie outside, and the row and column of that.
struct Patch {
	const float *at;
	int row, col;
	bool none;
};

INLINE Patch patch(const float *x, const Shape &s, u64 j, u32 p, u32 q) {
	u64 image = j / ((u64)p * q), rest = j - image * p * q;
	Patch out;
	out.none = image >= s.n;
	out.row = (int)((u32)rest / q * s.stride) - (int)s.pad;
	out.col = (int)((u32)rest % q * s.stride) - (int)s.pad;
	out.at = x + (long long)(image * s.c) * s.h * s.w + (long long)out.row * s.w + out.col;
	return out;
}

// multiply takes all of a layer into the elements of a thread.
template <u32 depth> INLINE void multiply(float (&acc)[8][8], const Layer<depth> &l, Place at) {
#pragma unroll
	for (u32 d = 0; d < depth; d++)
		accumulate<SumProduct>(acc, &l.w[d][at.row], &l.x[d][at.col]);
}

// square sums filters of 3 × 3 and fewer than 2²⁰ channels, a channel at a time.
// Which elements of a patch lie inside the image is the same for all channels.
INLINE void square(float (&acc)[8][8], const Patch &from, const float *filters, const Shape &s, u32 top, Layer<9> *layer) {
	u32 inside = 0, plane = s.h * s.w, terms = s.c * 9;
#pragma unroll
	for (int i = 0; i < 9; i++)
		if (!from.none && (u32)(from.row + i / 3) < s.h && (u32)(from.col + i % 3) < s.w)
			inside |= 1u << i;
	// Up to three elements of the filters: 64 × 9 of them for 256 threads.
	u32 w[3], to[3];
#pragma unroll
	for (u32 i = 0; i < 3; i++) {
		u32 e = min(THREAD + i * 256, Filters * 9 - 1), f = e / 9;
		w[i] = min(f, s.k - 1 - top) * terms + e % 9;
		to[i] = e % 9 * FilterPitch + f;
	}
	filters += (u64)top * terms;
	float vx[9], vw[3];
	auto fetch = [&](u32 c) {
		const float *row = from.at + (u64)c * plane;
#pragma unroll
		for (int r = 0; r < 3; r++, row += s.w)
#pragma unroll
			for (int i = 0; i < 3; i++)
				vx[3 * r + i] = inside >> (3 * r + i) & 1 ? row[i] : 0;
#pragma unroll
		for (u32 i = 0; i < 3; i++)
			vw[i] = filters[w[i] + 9 * c];
	};
	auto store = [&](u32 which) {
#pragma unroll
		for (u32 i = 0; i < 9; i++)
			layer[which].x[i][THREAD] = vx[i];
#pragma unroll
		for (u32 i = 0; i < 3; i++)
			if (i < 2 || THREAD < Filters * 9 - 512)
				((float *)layer[which].w)[to[i]] = vw[i];
	};
	Place at = place(4);
	fetch(0);
	store(0);
	__syncthreads();
	u32 now = 0;
	for (u32 c = 0; c < s.c; c++) {
		bool more = c + 1 < s.c;
		if (more)
			fetch(c + 1);
		multiply(acc, layer[now], at);
		now ^= 1;
		if (more)
			store(now);
		__syncthreads();
	}
}

// any sums filters of any size, eight terms at a time.
INLINE void any(float (&acc)[8][8], const Patch &from, const float *filters, const Shape &s, u32 top, Layer<8> *layer) {
	u32 terms = s.c * s.r * s.s, plane = s.h * s.w;
	u32 c = 0, row = 0, col = 0; // of the next term
	u32 f = THREAD / 4, part = THREAD % 4 * 2;
	const float *w = filters + (u64)min(top + f, s.k - 1) * terms + part;
	float vx[8], vw[2];
	auto fetch = [&](u32 t) {
#pragma unroll
		for (u32 i = 0; i < 8; i++) {
			bool inside = !from.none && t + i < terms && (u32)(from.row + (int)row) < s.h && (u32)(from.col + (int)col) < s.w;
			vx[i] = inside ? from.at[(u64)c * plane + row * s.w + col] : 0;
			if (++col == s.s) {
				col = 0;
				if (++row == s.r)
					row = 0, c++;
			}
		}
#pragma unroll
		for (u32 i = 0; i < 2; i++)
			vw[i] = t + part + i < terms ? w[t + i] : 0;
	};
	auto store = [&](u32 which) {
#pragma unroll
		for (u32 i = 0; i < 8; i++)
			layer[which].x[i][THREAD] = vx[i];
#pragma unroll
		for (u32 i = 0; i < 2; i++)
			layer[which].w[part + i][f] = vw[i];
	};
	Place at = place(4);
	fetch(0);
	store(0);
	__syncthreads();
	u32 now = 0;
	for (u32 t = 0; t < terms; t += 8) {
		bool more = t + 8 < terms;
		if (more)
			fetch(t + 8);
		multiply(acc, layer[now], at);
		now ^= 1;
		if (more)
			store(now);
		__syncthreads();
	}
}

// conv_images: grid (rows, filters, images) cut by 2, Filters and 1, 256 threads.
// Only the number of blocks counts: they take the outputs of all images in turn.
KERNEL(256, 2) conv_images(const float *__restrict x, const float *__restrict filters, float *__restrict y, Shape s) {
	__shared__ union {
		Layer<9> square[2];
		Layer<8> any[2];
	} layer;
	u32 p = (s.h + 2 * s.pad - s.r) / s.stride + 1, q = (s.w + 2 * s.pad - s.s) / s.stride + 1;
	u32 area = p * q, top = BLOCK_Y * Filters;
	u64 outputs = (u64)s.n * area;
	u32 tiles = (outputs + Patches - 1) / Patches;
	for (u32 tile = BLOCK_Z * BLOCKS_X + BLOCK_X; tile < tiles; tile += BLOCKS_X * BLOCKS_Z) {
		float acc[8][8] = {};
		Patch from = patch(x, s, (u64)tile * Patches + THREAD, p, q);
		if (s.r == 3 && s.s == 3 && s.c < 1 << 20)
			square(acc, from, filters, s, top, layer.square);
		else
			any(acc, from, filters, s, top, layer.any);
		Place at = place(4);
		bool fours = area % 4 == 0 && aligned(y);
#pragma unroll
		for (u32 j = 0; j < 8; j++) {
			u64 to = (u64)tile * Patches + at.col + j / 4 * 32 + j % 4;
			if (to >= outputs || (fours && j % 4 > 0))
				continue;
			u64 image = to / area;
			float *out = y + (image * s.k + top + at.row) * area + (to - image * area);
#pragma unroll
			for (u32 i = 0; i < 8; i++) {
				u32 row = i / 4 * 16 + i % 4;
				if (top + at.row + row >= s.k)
					continue;
				if (fours)
					*(float4 *)(out + (u64)row * area) = {acc[i][j], acc[i][(j + 1) % 8], acc[i][(j + 2) % 8], acc[i][(j + 3) % 8]};
				else
					out[(u64)row * area] = acc[i][j];
			}
		}
	}
}
