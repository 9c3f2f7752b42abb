// The Fisher information of a logistic regression, as the Go kernels compute it but
// for exp.
//: fisher_weights -DWEIGHTS
//: fisher_sums
//: fisher_sums_more -DMORE
#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Points { float x[]; };

#ifdef WEIGHTS
layout(std430, binding = 1) readonly buffer Theta { float theta[]; };
layout(std430, binding = 2) writeonly buffer Out { double to[]; };
//params: weightParams
layout(push_constant) uniform Params {
	uint points, features;
	uint all; // points of all tasks
};

// expOf is within two units of the last place: x = n ln 2 + r, and a Taylor series
// in r.
double expOf(double x) {
	x = x < -700.0lf ? -700.0lf : x > 700.0lf ? 700.0lf : x; // a NaN stays
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
layout(std430, binding = 2) buffer Out { double to[]; };
#ifdef MORE
//params: moreSumParams
layout(push_constant) uniform Params {
	uint points, features;
	uint first; // row
	uint from; // point
};
#else
//params: sumParams
layout(push_constant) uniform Params {
	uint points, features;
	uint first; // row
};
#endif

const uint Most = 1 << 19; // sumPoints of the Go code
const uint Round = 16;

// A group has 64 columns of a row of the matrix. lavapipe ends all loops of an
// invocation after 65535 rounds in total. So a round has several points, and a launch
// Most of them; another goes on where it ended.
void main() {
	uint row = gl_WorkGroupID.x, k = gl_WorkGroupID.y * 64 + gl_LocalInvocationID.x;
	if (k >= features)
		return;
#ifdef MORE
	precise double sum = to[row * features + k];
#else
	uint from = 0;
	precise double sum = 0;
#endif
	uint end = min(from + Most, points);
	for (uint base = from; base < end; base += Round)
		[[unroll]] for (uint d = 0; d < Round; d++)
			if (base + d < end) {
				uint at = (base + d) * features;
				precise double term = w[base + d] * double(x[at + first + row]);
				sum += term * double(x[at + k]);
			}
	to[row * features + k] = sum;
}
#endif
