// Convolution: every element of the output one chain of fused multiply-adds from
// zero in the order of c, r, s. A group computes a row of the output for FILTERS
// filters; the filters' weights are the same for all of it.
//: conv_images -DFILTERS=8
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Images { float x[]; };
layout(std430, binding = 1) readonly buffer Filters { float filters[]; };
layout(std430, binding = 2) writeonly buffer Out { float to[]; };
// Images, and their channels, rows and columns; filters, and their rows and columns.
layout(push_constant) uniform Shape { uint n, c, h, w, k, r, s, stride, pad; };

void main() {
	uint p = (h + 2 * pad - r) / stride + 1, q = (w + 2 * pad - s) / stride + 1, terms = c * r * s;
	uint row = gl_WorkGroupID.x, top = gl_WorkGroupID.y * FILTERS, image = gl_WorkGroupID.z;
	for (uint col = gl_LocalInvocationID.x; col < q; col += 64) {
		precise float acc[FILTERS];
		uint from[FILTERS];
		for (uint f = 0; f < FILTERS; f++) {
			acc[f] = 0;
			from[f] = min(top + f, k - 1) * terms; // what is not there is computed, and not written
		}
		uint term = 0;
		for (uint ch = 0; ch < c; ch++)
			for (uint i = 0; i < r; i++) {
				uint y = row * stride + i - pad, line = ((image * c + ch) * h + y) * w;
				for (uint j = 0; j < s; j++, term++) {
					uint z = col * stride + j - pad; // what is below zero is large, too
					float v = 0;
					if (y < h && z < w)
						v = x[line + z];
					for (uint f = 0; f < FILTERS; f++)
						acc[f] = fma(filters[from[f] + term], v, acc[f]);
				}
			}
		for (uint f = 0; f < FILTERS; f++)
			if (top + f < k)
				to[((image * k + top + f) * p + row) * q + col] = acc[f];
	}
}
