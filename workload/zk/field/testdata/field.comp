// One operation of a field for each invocation, for a test that compares.
//: fr -DELEMENT=Fr -DZERO=Fr_zero
//: fp -DELEMENT=Fp -DZERO=Fp_zero
#version 450
#extension GL_GOOGLE_include_directive : require
#include "../fp.glsl"
#include "../fr.glsl"
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer A { ELEMENT a[]; };
layout(std430, binding = 1) readonly buffer B { ELEMENT b[]; };
layout(std430, binding = 2) writeonly buffer C { ELEMENT c[]; };
//params: ...pushed
layout(push_constant) uniform Params {
	uint n; // elements
	uint op; // an index of ops
};

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= n)
		return;
	ELEMENT x = a[i], y = b[i], to = ZERO;
	switch (op) {
	case 0: to = add(x, y); break;
	case 1: to = sub(x, y); break;
	case 2: to = mul(x, y); break;
	case 3: to = neg(x); break;
	case 4: to = to_number(x); break;
	case 5: to = power(x, y.v[0]); break;
	case 6: to = inverse(x); break;
	case 7: to = doubled(x); break;
	case 8: to = square(x); break;
	case 9: to = from_number(to_number(x)); break;
	case 10: to.v[0] = equal(x, y) ? 1 : 0; break;
	case 11: to.v[0] = is_zero(x) ? 1 : 0; break;
	}
	c[i] = to;
}
