// Rays of light, as package relativity has them: a ray to an invocation.
//: relativity_light
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Impacts { double impacts[]; };
layout(std430, binding = 1) writeonly buffer Rays { double rays[]; };
//params: lightParams
layout(push_constant) uniform Params {
	uint n, rounds; // rounds are the steps a ray has at most
	double step; // of the angle
};

struct Ray { double u, w; };

// next is one step of Runge and Kutta.
Ray next(Ray s, double k, double h) {
	precise double middle = h / 2, sixth = h / 6;
	precise double w1 = s.w, a1 = s.u * (k * s.u - 1);
	precise double u2 = s.u + middle * w1, w2 = s.w + middle * a1, a2 = u2 * (k * u2 - 1);
	precise double u3 = s.u + middle * w2, w3 = s.w + middle * a2, a3 = u3 * (k * u3 - 1);
	precise double u4 = s.u + h * w3, w4 = s.w + h * a3, a4 = u4 * (k * u4 - 1);
	precise double u = s.u + sixth * (w1 + 2 * w2 + 2 * w3 + w4);
	precise double w = s.w + sixth * (a1 + 2 * a2 + 2 * a3 + a4);
	return Ray(u, w);
}

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= n)
		return;
	// Smaller impact parameters are taken for 2⁻¹⁰⁰⁰.
	precise double least = 9.332636185032189e-302LF, b = impacts[i] < least ? least : impacts[i];
	precise double h = step * (b < 1 ? b : 1), k = 3 / b, most = b / 2, cube = 2 / b;
	precise double closest = 0, drift = 0, beyond = 0, escaped = 0, captured = 0;
	Ray s = Ray(0, 1);
	uint turn = 0;
	for (; turn < rounds; turn++) {
		Ray to = next(s, k, h);
		if (!(to.u < most)) {
			captured = 1;
			closest = b / s.u;
			break;
		}
		if (s.w > 0 && to.w <= 0) {
			precise double used = h * s.w / (s.w - to.w);
			for (uint c = 0; c < 4; c++) {
				Ray at = next(s, k, used);
				used -= at.w / (at.u * (k * at.u - 1));
			}
			closest = b / next(s, k, used).u;
		}
		if (to.u < 0) {
			beyond = h * s.u / (s.u - to.u);
			for (uint c = 0; c < 4; c++) {
				Ray at = next(s, k, beyond);
				beyond -= at.u / at.w;
			}
			escaped = 1;
			break;
		}
		s = to;
		precise double off = abs(s.w * s.w + s.u * s.u * (1 - cube * s.u) - 1);
		drift = isnan(off) || off > drift ? off : drift;
	}
	precise double angle = double(turn) * h + beyond;
	rays[6 * i] = angle;
	rays[6 * i + 1] = closest;
	rays[6 * i + 2] = drift;
	rays[6 * i + 3] = escaped;
	rays[6 * i + 4] = captured;
	rays[6 * i + 5] = double(turn);
}
