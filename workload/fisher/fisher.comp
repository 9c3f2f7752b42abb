// The Fisher information of a logistic regression, as the Go kernels compute it but
// for exp.
//: fisher_weights -DWEIGHTS
//: fisher_sums
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Points { float x[]; };

#ifdef WEIGHTS
layout(std430, binding = 1) readonly buffer Theta { float theta[]; };
layout(std430, binding = 2) writeonly buffer Out { double to[]; };
layout(push_constant) uniform Params { uint points, features, all; };

// expOf is within two units of the last place: x = n ln 2 + r, and a Taylor series
// in r.
double expOf(double x) {
	x = clamp(x, -700.0lf, 700.0lf);
	const double shift = 6755399441055744.0lf; // 3 << 51
	precise double m = x * 1.4426950408889634lf + shift, n = m - shift;
	precise double r = x - n * 0.69314718036912382lf - n * 1.9082149292705877e-10lf;
	precise double p = 1;
	for (int k = 13; k > 0; k--)
		p = p * r / double(k) + 1;
	return p * packDouble2x32(uvec2(0, uint(int(n) + 1023) << 20)); // 2ⁿ
}

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= points)
		return;
	precise double z = 0;
	for (uint k = 0; k < features; k++)
		z += double(x[i * features + k]) * double(theta[k]);
	precise double q = 1 / (1 + expOf(-z));
	to[i] = q * (1 - q) / double(all);
}
#else
layout(std430, binding = 1) readonly buffer Weights { double w[]; };
layout(std430, binding = 2) writeonly buffer Out { double to[]; };
layout(push_constant) uniform Params { uint points, features, first; };

// A group has a row of the matrix, its invocations columns in turn.
void main() {
	uint row = gl_WorkGroupID.x;
	for (uint k = gl_LocalInvocationID.x; k < features; k += 64) {
		precise double sum = 0;
		for (uint i = 0; i < points; i++) {
			uint at = i * features;
			precise double term = w[i] * double(x[at + first + row]);
			sum += term * double(x[at + k]);
		}
		to[row * features + k] = sum;
	}
}
#endif
