// Convolution of some rows of all images, which lie row by row: every element of the
// output one chain of fused multiply-adds from zero in the order of c, r, s. A group
// computes a row of the output for FILTERS filters.
//: conv_rows -DFILTERS=16
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Images { float x[]; };
layout(std430, binding = 1) readonly buffer Filters { float filters[]; };
layout(std430, binding = 2) writeonly buffer Out { float to[]; };
// Images, and their channels, rows and columns; filters, and their rows and columns;
// the first row and the number of rows of the output, and the first row of the images.
layout(push_constant) uniform Band { uint n, c, h, w, k, r, s, stride, pad, first, rows, top_row; };

void main() {
	uint q = (w + 2 * pad - s) / stride + 1, terms = c * r * s;
	uint row = first + gl_WorkGroupID.x, top = gl_WorkGroupID.y * FILTERS, image = gl_WorkGroupID.z;
	// All of a group go the same way, so that what they share is fetched once.
	for (uint base = 0; base < q; base += 64) {
		uint col = base + gl_LocalInvocationID.x;
		precise float acc[FILTERS];
		uint from[FILTERS];
		for (uint f = 0; f < FILTERS; f++) {
			acc[f] = 0;
			from[f] = min(top + f, k - 1) * terms; // what is not there is computed, and not written
		}
		uint term = 0;
		for (uint ch = 0; ch < c; ch++)
			for (uint i = 0; i < r; i++) {
				uint y = row * stride + i - pad, line = (((y - top_row) * n + image) * c + ch) * w;
				for (uint j = 0; j < s; j++, term++) {
					uint z = col * stride + j - pad; // what is below zero is large, too
					bool there = y < h && z < w;
					float v = x[there ? line + z : 0];
					v = there ? v : 0;
					for (uint f = 0; f < FILTERS; f++)
						acc[f] = fma(filters[from[f] + term], v, acc[f]);
				}
			}
		for (uint f = 0; f < FILTERS; f++)
			if (top + f < k && col < q)
				to[((gl_WorkGroupID.x * n + image) * k + top + f) * q + col] = acc[f];
	}
}
