// Orbits, light, boosts and bodies, as package relativity has them: a particle to a thread, or four bodies.
#include "../device.cuh"

enum : u32 { OrbitIn = 4, OrbitOut = 8, RayOut = 6 };
constexpr double LeastImpact = 0x1p-1000; // that smaller ones are taken for

//params: orbitParams
struct OrbitParams {
	unsigned n, turns, rounds; // rounds are the steps an orbit has at most
	double tolerance; // 0 for a fixed step
};

//params: boostParams
struct BoostParams {
	unsigned n;
};

//params: bodyParams
struct BodyParams {
	unsigned all, first, n; // bodies, and those that move
	float step, soft2;
};

//params: lightParams
struct LightParams {
	unsigned n, rounds; // rounds are the steps a ray has at most
	double step; // of the angle
};

struct State {
	double r, v, phi;
};

INLINE double size(double x) { return x < 0 ? -x : x; }
// more is the larger of two numbers, and none if either is none.
INLINE double more(double a, double b) { return a != a || a > b ? a : b; }

INLINE double pull(double r, double l2) {
	double i = 1 / r;
	return i * i * (l2 * i * (1 - 3 * i) - 1);
}

INLINE double energy2(State s, double l2) {
	double i = 1 / s.r;
	return s.v * s.v + (1 - 2 * i) * (1 + l2 * i * i);
}

// step is one step of Runge and Kutta.
INLINE State step(State s, double l, double h) {
	double l2 = l * l, half = h / 2;
	double v1 = s.v, a1 = pull(s.r, l2), w1 = l / (s.r * s.r);
	double r2 = s.r + half * v1, v2 = s.v + half * a1, a2 = pull(r2, l2), w2 = l / (r2 * r2);
	double r3 = s.r + half * v2, v3 = s.v + half * a2, a3 = pull(r3, l2), w3 = l / (r3 * r3);
	double r4 = s.r + h * v3, v4 = s.v + h * a3, a4 = pull(r4, l2), w4 = l / (r4 * r4);
	double sixth = h / 6;
	State to = {
		s.r + sixth * (v1 + 2 * v2 + 2 * v3 + v4),
		s.v + sixth * (a1 + 2 * a2 + 2 * a3 + a4),
		s.phi + sixth * (w1 + 2 * w2 + 2 * w3 + w4),
	};
	return to;
}

KERNEL(64, 1) relativity_orbits(const double *__restrict particles, double *__restrict orbits, OrbitParams c) {
	u64 i = (u64)BLOCK_X * THREADS + THREAD;
	if (i >= c.n)
		return;
	const double *in = particles + OrbitIn * i;
	double *out = orbits + OrbitOut * i;
	State s = {in[0], in[1], 0};
	double l = in[2], h = in[3], l2 = l * l, first = energy2(s, l2), tau = 0, drift = 0, fell = 0;
	u32 turns = 0, round = 0;
	for (; round < c.rounds && turns < c.turns; round++) {
		State to = step(s, l, h);
		double used = h;
		if (c.tolerance > 0) {
			State twice = step(step(s, l, h / 2), l, h / 2);
			double off = more(more(size(twice.r - to.r) / twice.r, size(twice.v - to.v)), size(twice.phi - to.phi));
			if (!(off <= c.tolerance)) {
				h /= 2;
				continue;
			}
			to = twice;
			if (off < c.tolerance / 64 && size(to.phi - s.phi) < 0.25)
				h *= 2;
		}
		if (!(to.r > 2)) {
			fell = 1;
			break;
		}
		if (s.v < 0 && to.v >= 0 && ++turns == c.turns) {
			used = used * s.v / (s.v - to.v);
			for (u32 k = 0; k < 4; k++) {
				State at = step(s, l, used);
				used -= at.v / pull(at.r, l2);
			}
			to = step(s, l, used);
		}
		s = to;
		tau += used;
		drift = more(drift, size(energy2(s, l2) - first) / first);
	}
	out[0] = s.r, out[1] = s.v, out[2] = s.phi, out[3] = tau;
	out[4] = drift, out[5] = turns, out[6] = fell, out[7] = round;
}

KERNEL(128, 1) relativity_boosts(const double *__restrict events, const double *__restrict others, const double *__restrict velocities, double *__restrict boosted, double *__restrict products, BoostParams c) {
	u64 i = (u64)BLOCK_X * THREADS + THREAD;
	if (i >= c.n)
		return;
	const double *x = events + 4 * i, *y = others + 4 * i, *v = velocities + 3 * i;
	double v2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
	double along = v[0] * x[1] + v[1] * x[2] + v[2] * x[3];
	double g = 1 / __nvvm_sqrt_rn_d(1 - v2);
	double by = g * (g / (g + 1) * along - x[0]);
	boosted[4 * i] = g * (x[0] - along);
	for (u32 k = 0; k < 3; k++)
		boosted[4 * i + k + 1] = x[k + 1] + by * v[k];
	products[i] = x[0] * y[0] - x[1] * y[1] - x[2] * y[2] - x[3] * y[3];
}

INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// relativity_bodies: grid (n) cut by 256, 256 threads. A thread has Own bodies, of which it adds up the
// pulls by one of Parts parts of each tile of all bodies in shared memory; the sums of the parts
// are added up at the end. A tile that is not full has bodies without mass far away.
KERNEL(256, 2) relativity_bodies(const float *__restrict at, const float *__restrict mass, const float *__restrict v, float *__restrict to, float *__restrict w, BodyParams c) {
	constexpr u32 Threads = 256, Own = 4, Parts = 4, Tile = 512, Group = Threads / Parts;
	__shared__ float4 tile[Tile];
	__shared__ float pulls[Parts][3][Own * Group];
	u32 lane = THREAD % Group, part = THREAD / Group;
	u64 begin = (u64)BLOCK_X * (Own * Group);
	float x[Own], y[Own], z[Own], px[Own] = {}, py[Own] = {}, pz[Own] = {};
#pragma unroll
	for (u32 b = 0; b < Own; b++) {
		u64 i = begin + b * Group + lane, body = c.first + (i < c.n ? i : 0);
		x[b] = at[3 * body], y[b] = at[3 * body + 1], z[b] = at[3 * body + 2];
	}
	for (u64 first = 0; first < c.all; first += Tile) {
		__syncthreads();
#pragma unroll
		for (u32 k = THREAD; k < Tile; k += Threads) {
			u64 j = first + k;
			float4 body = {1e18f, 1e18f, 1e18f, 0};
			if (j < c.all)
				body = float4{at[3 * j], at[3 * j + 1], at[3 * j + 2], mass[j]};
			tile[k] = body;
		}
		__syncthreads();
		const float4 *others = tile + part * (Tile / Parts);
#pragma unroll 8
		for (u32 k = 0; k < Tile / Parts; k++) {
			float4 o = others[k];
#pragma unroll
			for (u32 b = 0; b < Own; b++) {
				float dx = o.x - x[b], dy = o.y - y[b], dz = o.z - z[b];
				// 1 ÷ the distance, to some 22 bits.
				float i = __nvvm_rsqrt_approx_ftz_f(fused(dz, dz, fused(dy, dy, fused(dx, dx, c.soft2))));
				float by = o.w * i * (i * i);
				px[b] = fused(by, dx, px[b]);
				py[b] = fused(by, dy, py[b]);
				pz[b] = fused(by, dz, pz[b]);
			}
		}
	}
#pragma unroll
	for (u32 b = 0; b < Own; b++) {
		u32 e = b * Group + lane;
		pulls[part][0][e] = px[b], pulls[part][1][e] = py[b], pulls[part][2][e] = pz[b];
	}
	__syncthreads();
	for (u32 e = THREAD; e < 3 * Own * Group; e += Threads) {
		u32 b = e / 3, k = e % 3;
		u64 i = begin + b;
		if (i >= c.n)
			return;
		float pull = 0;
#pragma unroll
		for (u32 p = 0; p < Parts; p++)
			pull += pulls[p][k][b];
		float moved = v[3 * i + k] + c.step * pull;
		w[3 * i + k] = moved;
		to[3 * i + k] = at[3 * (c.first + i) + k] + c.step * moved;
	}
}

struct Ray {
	double u, w;
};

// step is one step of Runge and Kutta.
INLINE Ray step(Ray s, double k, double h) {
	double half = h / 2, sixth = h / 6;
	double w1 = s.w, a1 = s.u * (k * s.u - 1);
	double u2 = s.u + half * w1, w2 = s.w + half * a1, a2 = u2 * (k * u2 - 1);
	double u3 = s.u + half * w2, w3 = s.w + half * a2, a3 = u3 * (k * u3 - 1);
	double u4 = s.u + h * w3, w4 = s.w + h * a3, a4 = u4 * (k * u4 - 1);
	Ray to = {s.u + sixth * (w1 + 2 * w2 + 2 * w3 + w4), s.w + sixth * (a1 + 2 * a2 + 2 * a3 + a4)};
	return to;
}

KERNEL(64, 1) relativity_light(const double *__restrict impacts, double *__restrict rays, LightParams c) {
	u64 i = (u64)BLOCK_X * THREADS + THREAD;
	if (i >= c.n)
		return;
	double *out = rays + RayOut * i;
	double b = impacts[i] < LeastImpact ? LeastImpact : impacts[i], k = 3 / b, most = b / 2, cube = 2 / b, h = c.step * (b < 1 ? b : 1);
	double closest = 0, drift = 0, beyond = 0, escaped = 0, captured = 0;
	Ray s = {0, 1};
	u32 round = 0;
	for (; round < c.rounds; round++) {
		Ray to = step(s, k, h);
		if (!(to.u < most)) {
			captured = 1;
			closest = b / s.u;
			break;
		}
		if (s.w > 0 && to.w <= 0) {
			double used = h * s.w / (s.w - to.w);
			for (u32 n = 0; n < 4; n++) {
				Ray at = step(s, k, used);
				used -= at.w / (at.u * (k * at.u - 1));
			}
			closest = b / step(s, k, used).u;
		}
		if (to.u < 0) {
			beyond = h * s.u / (s.u - to.u);
			for (u32 n = 0; n < 4; n++) {
				Ray at = step(s, k, beyond);
				beyond -= at.u / at.w;
			}
			escaped = 1;
			break;
		}
		s = to;
		drift = more(drift, size(s.w * s.w + s.u * s.u * (1 - cube * s.u) - 1));
	}
	out[0] = round * h + beyond, out[1] = closest, out[2] = drift;
	out[3] = escaped, out[4] = captured, out[5] = round;
}
