// y += k·x, an element to an invocation.
//: saxpy
#version 450
layout(local_size_x = 128) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) buffer Y { float y[]; };
//params: params
layout(push_constant) uniform Params {
	uint n; // elements
	float k;
};

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i < n)
		y[i] += k * x[i];
}
