// Bregman divergences, as package fisher has them: a pair of vectors to an invocation.
//: bregman_divergences
#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer P { double x[]; };
layout(std430, binding = 1) readonly buffer Q { double y[]; };
layout(std430, binding = 2) writeonly buffer Out { double to[]; };
//params: divergenceParams
layout(push_constant) uniform Params {
	uint function; // its place among functions
	uint dim, n;
};

#define None packDouble2x32(uvec2(0, 0x7ff80000))
#define Infinite packDouble2x32(uvec2(0, 0x7ff00000))
const double Largest = 3.2733906078961419e+150lf, Smallest = 9.3326361850321888e-302lf; // 2⁵⁰⁰ and 2⁻¹⁰⁰⁰
const double Shift = 693.14718055994530942lf, Near = 0.25lf; // 1000 ln 2

// logOf is within a unit of the last place: x = 2ᵏ(1 + f) with 1 + f from √½ to √2, and a series in
// s = f ÷ (2 + f) (Sun's, as in FreeBSD and Go).
double logOf(double x) {
	uvec2 bits = unpackDouble2x32(x);
	int k = int(bits.y >> 20) - 1023;
	precise double m = packDouble2x32(uvec2(bits.x, bits.y & 0xfffff | 0x3ff00000));
	if (m > 1.4142135623730951lf) {
		m /= 2;
		k++;
	}
	precise double f = m - 1, s = f / (2 + f), s2 = s * s, s4 = s2 * s2;
	precise double t1 = s2 * (6.666666666666735130e-01lf + s4 * (2.857142874366239149e-01lf + s4 * (1.818357216161805012e-01lf + s4 * 1.479819860511658591e-01lf)));
	precise double t2 = s4 * (3.999999999940941908e-01lf + s4 * (2.222219843214978396e-01lf + s4 * 1.531383769920937332e-01lf));
	precise double r = t1 + t2, half_square = 0.5lf * f * f, n = double(k);
	precise double sum = n * 6.93147180369123816490e-01lf - ((half_square - (s * (half_square + r) + n * 1.90821492927058770002e-10lf)) - f);
	return sum;
}

double logRatio(double p, double q) {
	precise double t = p / q, shift = 0;
	if (t < Smallest) {
		t = p * Largest / (q / Largest);
		shift = -Shift;
	} else if (t > 1 / Smallest) {
		t = p / Largest / (q * Largest);
		shift = Shift;
	}
	precise double sum = logOf(t) + shift;
	return sum;
}

double beyond(double z) {
	precise double sum = 1.0lf / 29;
	[[unroll]] for (int k = 27; k >= 3; k -= 2)
		sum = sum * z + 1.0lf / double(k);
	return sum;
}

double entropy(double p, double q) {
	if (!(p >= 0 && q >= 0 && p <= Largest && q <= Largest))
		return None;
	precise double d = p - q, all = p + q;
	if (p == 0)
		return q;
	if (q == 0)
		return Infinite;
	if (abs(d) < Near * all) {
		precise double s = d / all, z = s * s, b = beyond(z);
		precise double term = all * z * (1 + z * b + s * b);
		return term;
	}
	precise double term = p * logRatio(p, q) - d;
	return term;
}

double burg(double p, double q) {
	if (!(p >= 0 && q >= 0 && p <= Largest && q <= Largest))
		return None;
	precise double d = p - q, all = p + q;
	if (all == 0)
		return 0;
	if (p == 0 || q == 0)
		return Infinite;
	if (abs(d) < Near * all) {
		precise double s = d / all, z = s * s;
		precise double term = 2 * z * (1 / (1 - s) - s * beyond(z));
		return term;
	}
	precise double term = p / q - logRatio(p, q) - 1;
	return term;
}

double squares(double p, double q) {
	if (!(abs(p) <= Largest && abs(q) <= Largest))
		return None;
	precise double d = p - q, term = d * d;
	return term;
}

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= n)
		return;
	precise double sum = 0;
	for (uint k = i * dim; k < (i + 1) * dim; k++)
		sum += function == 0 ? entropy(x[k], y[k]) : function == 1 ? burg(x[k], y[k]) : squares(x[k], y[k]);
	to[i] = sum;
}
