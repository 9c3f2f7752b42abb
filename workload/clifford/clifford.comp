// Products and norms of multivectors, as package clifford has them: a multivector to an
// invocation.
//: clifford_product -DPRODUCT
//: clifford_normalize
#version 450
layout(local_size_x = 64) in;
#ifdef PRODUCT
layout(std430, binding = 0) readonly buffer Left { float x[]; };
layout(std430, binding = 1) readonly buffer Right { float y[]; };
layout(std430, binding = 2) readonly buffer Tables { uint tables[]; };
layout(std430, binding = 3) writeonly buffer Out { float to[]; };
#else
layout(std430, binding = 0) readonly buffer In { float x[]; };
layout(std430, binding = 1) readonly buffer Tables { uint tables[]; };
layout(std430, binding = 2) writeonly buffer Out { float to[]; };
#endif
//params: params
layout(push_constant) uniform Params {
	uint p, q; // of the algebra
	uint n; // multivectors
	uint left, right;
};

const uint Negative = 0x80000000;

// flipped is a number with its sign changed where an entry says so.
float flipped(float v, uint e) { return uintBitsToFloat(floatBitsToUint(v) ^ e & Negative); }

#ifndef PRODUCT
// scaled is a number times the power of two with an exponent field. Devices that take subnormal numbers for zero
// get those of their bits.
float scaled(float v, uint field) {
	uint bits = floatBitsToUint(v), small = bits & 0x7fffff;
	if ((bits >> 23 & 255) != 0 || small == 0)
		return v * uintBitsToFloat(field << 23);
	float size = field > 149 ? float(small) * uintBitsToFloat(field - 149 << 23) : 0;
	return (bits & Negative) != 0 ? -size : size;
}
#endif

void main() {
	uint size = 1 << (p + q), at = gl_GlobalInvocationID.x;
	if (at >= n)
		return;
#ifdef PRODUCT
	uint a = at * size * left, b = at * size * right;
	for (uint k = 0; k < size; k++) {
		precise float sum = 0;
		for (uint i = 0; i < size; i++) {
			uint e = tables[i * size + k];
			precise float term = x[a + i] * y[b + (e & ~Negative)];
			sum += flipped(term, e);
		}
		to[at * size + k] = sum;
	}
#else
	uint largest = 0;
	for (uint k = 0; k < size; k++)
		largest = max(largest, floatBitsToUint(x[at * size + k]) & ~Negative);
	// The exponent field of the power of two that takes the largest number to 1 to 4, of 1 if it is not finite.
	uint exponent = largest >> 23, field = exponent == 255 ? 127 : max(254 - exponent, 1);
	precise float sum = 0;
	for (uint k = 0; k < size; k++) {
		precise float v = scaled(x[at * size + k], field), square = v * v;
		sum += flipped(square, tables[size * size + k]);
	}
	float by = sqrt(abs(sum));
	for (uint k = 0; k < size; k++)
		to[at * size + k] = sum == 0 ? x[at * size + k] : scaled(x[at * size + k], field) / by;
#endif
}
