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
	precise float sum = 0;
	for (uint k = 0; k < size; k++) {
		precise float square = x[at * size + k] * x[at * size + k];
		sum += flipped(square, tables[size * size + k]);
	}
	float by = sum == 0 ? 1 : sqrt(abs(sum));
	for (uint k = 0; k < size; k++)
		to[at * size + k] = x[at * size + k] / by;
#endif
}
