// Orbits and boosts, as package relativity has them: a particle to an invocation.
//: relativity_orbits -DORBITS
//: relativity_boosts
#version 450
layout(local_size_x = 64) in;
#ifdef ORBITS
layout(std430, binding = 0) readonly buffer Particles { double particles[]; };
layout(std430, binding = 1) writeonly buffer Orbits { double orbits[]; };
//params: orbitParams
layout(push_constant) uniform Params {
	uint n, turns, rounds; // rounds are the steps an orbit has at most
	double tolerance; // 0 for a fixed step
};

struct State { double r, v, phi; };

double pull(double r, double l2) {
	precise double i = 1 / r;
	precise double a = i * i * (l2 * i * (1 - 3 * i) - 1);
	return a;
}

double energy2(State s, double l2) {
	precise double i = 1 / s.r;
	precise double e = s.v * s.v + (1 - 2 * i) * (1 + l2 * i * i);
	return e;
}

// next is one step of Runge and Kutta.
State next(State s, double l, double h) {
	precise double l2 = l * l, middle = h / 2, sixth = h / 6;
	precise double v1 = s.v, a1 = pull(s.r, l2), w1 = l / (s.r * s.r);
	precise double r2 = s.r + middle * v1, v2 = s.v + middle * a1, a2 = pull(r2, l2), w2 = l / (r2 * r2);
	precise double r3 = s.r + middle * v2, v3 = s.v + middle * a2, a3 = pull(r3, l2), w3 = l / (r3 * r3);
	precise double r4 = s.r + h * v3, v4 = s.v + h * a3, a4 = pull(r4, l2), w4 = l / (r4 * r4);
	precise double r = s.r + sixth * (v1 + 2 * v2 + 2 * v3 + v4);
	precise double v = s.v + sixth * (a1 + 2 * a2 + 2 * a3 + a4);
	precise double phi = s.phi + sixth * (w1 + 2 * w2 + 2 * w3 + w4);
	return State(r, v, phi);
}

// more is the larger of two numbers, and none if either is none.
double more(double a, double b) { return isnan(a) || a > b ? a : b; }

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= n)
		return;
	State s = State(particles[4 * i], particles[4 * i + 1], 0);
	precise double l = particles[4 * i + 2], h = particles[4 * i + 3], l2 = l * l;
	precise double first = energy2(s, l2), tau = 0, drift = 0, fell = 0;
	uint count = 0, turn = 0;
	for (; turn < rounds && count < turns; turn++) {
		State to = next(s, l, h);
		precise double used = h;
		if (tolerance > 0) {
			State twice = next(next(s, l, h / 2), l, h / 2);
			double off = more(more(abs(twice.r - to.r) / twice.r, abs(twice.v - to.v)), abs(twice.phi - to.phi));
			if (!(off <= tolerance)) {
				h /= 2;
				continue;
			}
			to = twice;
			if (off < tolerance / 64 && abs(to.phi - s.phi) < 0.25)
				h *= 2;
		}
		if (!(to.r > 2)) {
			fell = 1;
			break;
		}
		if (s.v < 0 && to.v >= 0) {
			count++;
			if (count == turns) {
				used = used * s.v / (s.v - to.v);
				for (uint k = 0; k < 4; k++) {
					State at = next(s, l, used);
					used -= at.v / pull(at.r, l2);
				}
				to = next(s, l, used);
			}
		}
		s = to;
		tau += used;
		drift = more(drift, abs(energy2(s, l2) - first) / first);
	}
	orbits[8 * i] = s.r;
	orbits[8 * i + 1] = s.v;
	orbits[8 * i + 2] = s.phi;
	orbits[8 * i + 3] = tau;
	orbits[8 * i + 4] = drift;
	orbits[8 * i + 5] = double(count);
	orbits[8 * i + 6] = fell;
	orbits[8 * i + 7] = double(turn);
}
#else
layout(std430, binding = 0) readonly buffer Events { double x[]; };
layout(std430, binding = 1) readonly buffer Others { double y[]; };
layout(std430, binding = 2) readonly buffer Velocities { double v[]; };
layout(std430, binding = 3) writeonly buffer Boosted { double boosted[]; };
layout(std430, binding = 4) writeonly buffer Products { double products[]; };
//params: boostParams
layout(push_constant) uniform Params {
	uint n;
};

void main() {
	uint i = gl_GlobalInvocationID.x, e = 4 * i, f = 3 * i;
	if (i >= n)
		return;
	precise double v2 = v[f] * v[f] + v[f + 1] * v[f + 1] + v[f + 2] * v[f + 2];
	precise double along = v[f] * x[e + 1] + v[f + 1] * x[e + 2] + v[f + 2] * x[e + 3];
	precise double g = 1 / sqrt(1 - v2);
	precise double by = g * (g / (g + 1) * along - x[e]);
	precise double t = g * (x[e] - along);
	boosted[e] = t;
	for (uint k = 0; k < 3; k++) {
		precise double moved = x[e + k + 1] + by * v[f + k];
		boosted[e + k + 1] = moved;
	}
	precise double product = x[e] * y[e] - x[e + 1] * y[e + 1] - x[e + 2] * y[e + 2] - x[e + 3] * y[e + 3];
	products[i] = product;
}
#endif
