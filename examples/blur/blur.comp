// Blurs images with a filter, a group of 64 invocations to a row. What lies outside of an
// image is black.
//: blur
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Images { float image[]; };
layout(std430, binding = 1) readonly buffer Filter { float weight[]; };
layout(std430, binding = 2) writeonly buffer Results { float smoothed[]; };
//params: graph.Conv2D
layout(push_constant) uniform Params {
	uint n, c, h, w; // images, and their channels, rows and columns
	uint k, r, s; // filters, and their rows and columns
	uint stride, pad; // from one result to the next, and zeros on each side of an image
};

void main() {
	int row = int(gl_WorkGroupID.x), first = int(gl_WorkGroupID.z * h * w);
	for (int column = int(gl_LocalInvocationID.x); column < int(w); column += 64) {
		float sum = 0;
		for (int i = 0; i < int(r); i++)
			for (int j = 0; j < int(s); j++) {
				int y = row + i - int(pad), x = column + j - int(pad);
				if (y >= 0 && y < int(h) && x >= 0 && x < int(w))
					sum += image[first + y * int(w) + x] * weight[i * int(s) + j];
			}
		smoothed[first + row * int(w) + column] = sum;
	}
}
