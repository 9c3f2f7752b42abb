// Convolution of some rows of all images, which lie row by row: every element of the
// output one chain of fused multiply-adds from zero in the order of c, r, s. A group
// computes a row of the output for FILTERS filters.
//: conv_rows -DFILTERS=16
//: conv_rows_more -DFILTERS=16 -DMORE
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Images { float x[]; };
layout(std430, binding = 1) readonly buffer Filters { float filters[]; };
layout(std430, binding = 2) buffer Out { float to[]; };
#ifdef MORE
//params: moreRowsParams
layout(push_constant) uniform Band {
	uint n, c, h, w; // images, and their channels, rows and columns
	uint k, r, s; // filters, and their rows and columns
	uint stride, pad; // from one result to the next, and zeros on each side of an image
	uint first, rows; // of the results
	uint top_row; // the first row of the images that there is
	uint first_term, first_col;
};
#else
//params: rowsParams
layout(push_constant) uniform Band {
	uint n, c, h, w; // images, and their channels, rows and columns
	uint k, r, s; // filters, and their rows and columns
	uint stride, pad; // from one result to the next, and zeros on each side of an image
	uint first, rows; // of the results
	uint top_row; // the first row of the images that there is
};
#endif
#include "part.glsl"

// Where an element of the output is, and whether it is.
#define AT ((gl_WorkGroupID.x * n + image) * k + top + f) * q + col
#define WRITTEN (top + f < k && col < q)

// TERM takes a term into the sums.
#define TERM(term) { \
	uint y = row * stride + i - pad, z = col * stride + j - pad; /* what is below zero is large, too */ \
	bool there = y < h && z < w; \
	float v = x[there ? (((y - top_row) * n + image) * c + ch) * w + z : 0]; \
	v = there ? v : 0; \
	for (uint f = 0; f < FILTERS; f++) \
		acc[f] = fma(filters[from[f] + (term)], v, acc[f]); \
	next_term(); \
}

void main() {
	uint q = (w + 2 * pad - s) / stride + 1, terms = c * r * s;
	uint row = first + gl_WorkGroupID.x, top = gl_WorkGroupID.y * FILTERS, image = gl_WorkGroupID.z;
	uint from[FILTERS];
	for (uint f = 0; f < FILTERS; f++)
		from[f] = min(top + f, k - 1) * terms; // what is not there is computed, and not written
	// All of a group go the same way, so that what they share is fetched once.
	for (uint base = first_col; base < last_col(q); base += 64) {
		uint col = base + gl_LocalInvocationID.x, term = first_term, end = last_term();
		precise float acc[FILTERS];
		for (uint f = 0; f < FILTERS; f++)
			acc[f] = first_term > 0 && WRITTEN ? to[AT] : 0;
		to_term(term);
		for (; term + 4 <= end; term += 4)
			[[unroll]] for (uint d = 0; d < 4; d++)
				TERM(term + d)
		for (; term < end; term++)
			TERM(term)
		for (uint f = 0; f < FILTERS; f++)
			if (WRITTEN)
				to[AT] = acc[f];
	}
}
