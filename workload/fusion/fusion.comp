// The stages of fusion and the binding of records: 32 invocations take a record,
// each one of its numbers.
//: fusion_t -DT
//: fusion_d -DD
//: fusion_c -DC
//: fusion_bind -DBIND
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
// A record is 8 tropical numbers, 8 values, 8 derivatives, 8 coefficients; weights
// are W, by row, g, h and the sandwich, by row. To be bound are two records.
layout(std430, binding = 0) readonly buffer In { float a[]; };
layout(std430, binding = 1) readonly buffer Weights { float w[]; };
layout(std430, binding = 2) writeonly buffer Out { float to[]; };
//params: params
layout(push_constant) uniform Params {
	uint n; // records
};
#include "../tanh.glsl"

#ifdef BIND
// As in fusion.cu: which products of blades are negative, and blades as sets of
// vectors, which is its own inverse.
const uint signs[8] = uint[8](0x00, 0x00, 0xb2, 0x66, 0xb2, 0x66, 0xd4, 0xd4);
const uint blade[8] = uint[8](0, 1, 2, 4, 3, 5, 6, 7);
#endif

float made(uint r, uint i) {
#if defined(T)
	if (i >= 8)
		return a[r + i];
	precise float most = w[8 * i] + a[r];
	for (uint j = 1; j < 8; j++) {
		precise float next = w[8 * i + j] + a[r + j];
		most = next > most || isnan(next) ? next : most; // a NaN stays
	}
	return most;
#elif defined(D)
	if (i < 8 || i >= 24)
		return a[r + i];
	precise float g = w[64 + i % 8], v = bent(g * a[r + 8 + i % 8] + w[72 + i % 8]);
	precise float d = (1 - v * v) * g * a[r + i];
	return i < 16 ? v : d;
#elif defined(C)
	if (i < 24)
		return a[r + i];
	precise float sum = 0;
	for (uint j = 0; j < 8; j++)
		sum += w[80 + 8 * (i - 24) + j] * a[r + 24 + j];
	return sum;
#else
	if (i < 8)
		return a[r + i] + w[r + i];
	if (i < 16)
		return a[r + i] * w[r + i];
	if (i < 24) {
		precise float d = a[r + i - 8] * w[r + i] + a[r + i] * w[r + i - 8];
		return d;
	}
	precise float sum = 0;
	for (uint j = 0; j < 8; j++) {
		uint m = blade[blade[i - 24] ^ blade[j]];
		precise float term = a[r + 24 + j] * w[r + 24 + m];
		sum += (signs[j] >> m & 1) != 0 ? -term : term;
	}
	return sum;
#endif
}

// A group takes 16 records.
void main() {
	for (uint k = gl_LocalInvocationID.x / 32; k < 16; k += 2) {
		uint r = gl_WorkGroupID.x * 16 + k, i = gl_LocalInvocationID.x % 32;
		if (r < n)
			to[r * 32 + i] = made(r * 32, i);
	}
}
