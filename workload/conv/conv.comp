// Convolution: every element of the output one chain of fused multiply-adds from
// zero in the order of c, r, s. A group computes a row of the output for FILTERS
// filters; the filters' weights are the same for all of it.
//: conv_images -DFILTERS=16
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
				uint y = row * stride + i - pad, line = ((image * c + ch) * h + y) * w;
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
				to[((image * k + top + f) * p + row) * q + col] = acc[f];
	}
}
