// Products of the values of polynomials, as package zk has them.
//: zk_product
#version 450
#extension GL_GOOGLE_include_directive : require
#include "field/fr.glsl"
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer A { Fr a[]; };
layout(std430, binding = 1) readonly buffer B { Fr b[]; };
layout(std430, binding = 2) readonly buffer C { Fr c[]; };
layout(std430, binding = 3) writeonly buffer After { Fr after_[]; };

//params: productParams
layout(push_constant) uniform ProductParams {
	uint n; // values
};

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i < n)
		after_[i] = sub(mul(a[i], b[i]), c[i]);
}
