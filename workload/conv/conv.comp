// Convolution: every element of the output one chain of fused multiply-adds from
// zero in the order of c, r, s. A group computes ROWS rows of the output for
// FILTERS filters, whose weights are the same for all of it.
//
// Drivers on the CPU fetch number by number, and four at once as fast as one. So a
// weight serves four rows, a pixel all filters, and weights come in fours where
// filters have a multiple of them; the order of the terms is always the same.
//: conv_images -DFILTERS=16
//: conv_images_more -DFILTERS=16 -DMORE
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Images { float x[]; };
layout(std430, binding = 1) readonly buffer Filters { float filters[]; };
layout(std430, binding = 1) readonly buffer Filters4 { vec4 filters4[]; };
layout(std430, binding = 2) buffer Out { float to[]; };
#ifdef MORE
//params: moreParams
layout(push_constant) uniform Shape {
	uint n, c, h, w; // images, and their channels, rows and columns
	uint k, r, s; // filters, and their rows and columns
	uint stride, pad; // from one result to the next, and zeros on each side of an image
	uint first_term, first_col;
};
#else
//params: graph.Conv2D
layout(push_constant) uniform Shape {
	uint n, c, h, w; // images, and their channels, rows and columns
	uint k, r, s; // filters, and their rows and columns
	uint stride, pad; // from one result to the next, and zeros on each side of an image
};
#endif
#include "part.glsl"

const uint Rows = 4;

precise vec4 acc[FILTERS];

// pixels returns what a term takes of the four rows from row on, and goes on to the
// next term.
vec4 pixels(uint image, uint row, uint col) {
	uint plane = (image * c + ch) * h, z = col * stride + j - pad; // what is below zero is large, too
	vec4 v;
	for (uint e = 0; e < Rows; e++) {
		uint y = (row + e) * stride + i - pad;
		bool there = y < h && z < w;
		float one = x[there ? (plane + y) * w + z : 0];
		v[e] = there ? one : 0;
	}
	next_term();
	return v;
}

// Where an element of the output is, and whether it is.
#define AT ((image * k + top + f) * p + row + e) * q + col
#define WRITTEN (top + f < k && row + e < p && col < q)

// TERM takes a term into the sums.
#define TERM(weight) { \
	vec4 v = pixels(image, row, col); \
	for (uint f = 0; f < FILTERS; f++) \
		acc[f] = fma(vec4(weight), v, acc[f]); \
}

void main() {
	uint p = (h + 2 * pad - r) / stride + 1, q = (w + 2 * pad - s) / stride + 1, terms = c * r * s;
	uint row = gl_WorkGroupID.x * Rows, top = gl_WorkGroupID.y * FILTERS, image = gl_WorkGroupID.z;
	uint from[FILTERS];
	for (uint f = 0; f < FILTERS; f++)
		from[f] = min(top + f, k - 1) * terms; // what is not there is computed, and not written
	// All of a group go the same way, so that what they share is fetched once.
	for (uint base = first_col; base < last_col(q); base += 64) {
		uint col = base + gl_LocalInvocationID.x, term = first_term, end = last_term();
		for (uint f = 0; f < FILTERS; f++)
			acc[f] = vec4(0);
#ifdef MORE
		if (first_term > 0)
			for (uint f = 0; f < FILTERS; f++)
				for (uint e = 0; e < Rows; e++)
					if (WRITTEN)
						acc[f][e] = to[AT];
#endif
		to_term(term);
		if (terms % 4 == 0)
			for (; term < end; term += 4) {
				vec4 weights[FILTERS];
				for (uint f = 0; f < FILTERS; f++)
					weights[f] = filters4[(from[f] + term) / 4];
				[[unroll]] for (uint d = 0; d < 4; d++)
					TERM(weights[f][d])
			}
		for (; term + 4 <= end; term += 4)
			[[unroll]] for (uint d = 0; d < 4; d++)
				TERM(filters[from[f] + term + d])
		for (; term < end; term++)
			TERM(filters[from[f] + term])
		for (uint f = 0; f < FILTERS; f++)
			for (uint e = 0; e < Rows; e++)
				if (WRITTEN)
					to[AT] = acc[f][e];
	}
}
