// The dynamics of eight replicas of a chain of beads at once, one in each lane of a vector of
// doubles. step.sh makes assembly of it, with vectors of 512, 256 and 128 bits. lane.go does the same
// operations in the same order, so that all of them agree to the last bit: nothing is fused,
// and nothing is added up in another order.

typedef double v8 __attribute__((vector_size(64), aligned(8)));
typedef long long i8 __attribute__((vector_size(64), aligned(8)));
typedef unsigned long long u8 __attribute__((vector_size(64), aligned(8)));

// args is type args of lane.go.
struct args {
	v8 *x, *v, *f, *listed; // bead by bead x, y and z: [3 n]
	const int *first;       // of bonds, then angles, then dihedrals
	const double *native;   // of bonds, angles, cosines and sines of dihedrals
	const int *rows, *with; // contacts: bead i has those from rows[i] to rows[i+1]
	const double *size2;    // squares of their native distances
	const int *listRows, *listWith; // pairs that may repel each other, likewise
	long beads, bonds, angles, dihedrals;
	double half, c1;        // half the time step, and what is left of a velocity after one
	double reach2;          // square of the way a bead may go before the list is made anew
	unsigned long long key, step;
	v8 energy;
	i8 far;                 // not zero where a bead went farther, or is nowhere
	v8 noise;               // by temperature
	u8 replica;
};

static void drift(struct args *a);
static void force(struct args *a);
static void kick(struct args *a);

// FIRST is where the assembly begins: in a section of its own, or before all that is defined below.
#ifdef __x86_64__
#define FIRST __attribute__((section(".text.first")))
#else
#define FIRST
#endif

// step does what the bits of what ask for.
FIRST void step(struct args *a, long what) {
	if (what & 1)
		drift(a);
	if (what & 2)
		force(a);
	if (what & 4)
		kick(a);
}

static inline v8 all(double a) { return (v8){a, a, a, a, a, a, a, a}; }
static inline u8 allu(unsigned long long a) { return (u8){a, a, a, a, a, a, a, a}; }
static inline v8 root(v8 a) { return __builtin_elementwise_sqrt(a); }
static inline v8 pick(i8 m, v8 a, v8 b) { return (v8)((m & (i8)a) | (~m & (i8)b)); }
static inline v8 magnitude(v8 a) { return (v8)((u8)a & allu(0x7fffffffffffffff)); }

// 2^52, to which the bits of a smaller integer can be added.
#define SHIFT 4503599627370496.0

static inline v8 real(u8 a) { return (v8)(a | allu(0x4330000000000000)) - all(SHIFT); }

// angle is the angle of a vector with y not below zero.
static inline v8 angleOf(v8 y, v8 x) {
	v8 ax = magnitude(x);
	i8 steep = y > ax;
	v8 num = pick(steep, ax, y), den = pick(steep, y, ax);
	i8 upper = num > all(0.41421356237309503) * den;
	v8 z = pick(upper, num - den, num) / pick(upper, num + den, den);
	v8 zz = z * z;
	v8 p = ((((all(-8.750608600031904122785e-1) * zz + all(-1.615753718733365076637e1)) * zz + all(-7.500855792314704667340e1)) * zz + all(-1.228866684490136173410e2)) * zz + all(-6.485021904942025371773e1)) * zz;
	v8 q = ((((zz + all(2.485846490142306297962e1)) * zz + all(1.650270098316988542046e2)) * zz + all(4.328810604912902668951e2)) * zz + all(4.853903996359136964868e2)) * zz + all(1.945506571482613964425e2);
	v8 a = z * (p / q) + z;
	a = pick(upper, a + all(0.78539816339744830962), a);
	a = pick(steep, all(1.57079632679489661923) - a, a);
	return pick(x < all(0), all(3.14159265358979323846) - a, a);
}

// logarithm is that of a number in (0, 1).
static inline v8 logarithm(v8 u) {
	u8 bits = (u8)u;
	// The exponent is that of a mantissa from the square root of one half on.
	u8 moved = bits + allu(0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
	v8 e = real(moved >> 52) - all(1023);
	v8 m = (v8)((moved & allu(0x000fffffffffffff)) + allu(0x3fe6a09e667f3bcd));
	v8 f = m - all(1), s = f / (f + all(2)), z = s * s, w = z * z;
	v8 even = w * (all(3.999999999940941908e-01) + w * (all(2.222219843214978396e-01) + w * all(1.531383769920937332e-01)));
	v8 odd = z * (all(6.666666666666735130e-01) + w * (all(2.857142874366239149e-01) + w * (all(1.818357216161805012e-01) + w * all(1.479819860511658591e-01))));
	v8 h = all(0.5) * f * f;
	return e * all(6.93147180369123816490e-01) - ((h - (s * (h + (even + odd)) + e * all(1.90821492927058770002e-10))) - f);
}

struct turn { v8 cos, sin; };

// turnOf is the cosine and the sine of a number of turns in (0, 1).
static inline struct turn turnOf(v8 u) {
	v8 t = u * all(4), n = t + all(SHIFT);
	u8 quarter = (u8)n;
	v8 r = (t - (n - all(SHIFT))) * all(1.57079632679489661923);
	v8 z = r * r;
	v8 s = r + r * z * (all(-1.66666666666666324348e-01) + z * (all(8.33333333332248946124e-03) + z * (all(-1.98412698298579493134e-04) + z * (all(2.75573137070700676789e-06) + z * (all(-2.50507602534068634195e-08) + z * all(1.58969099521155010221e-10))))));
	v8 c = all(1) - (all(0.5) * z - z * z * (all(4.16666666666666019037e-02) + z * (all(-1.38888888888741095749e-03) + z * (all(2.48015872894767294178e-05) + z * (all(-2.75573143513906633035e-07) + z * (all(2.08757232129817482790e-09) + z * all(-1.13596475577881948265e-11)))))));
	i8 odd = (i8)(allu(0) - (quarter & allu(1)));
	v8 cos = pick(odd, s, c), sin = pick(odd, c, s);
	cos = (v8)((u8)cos ^ (((quarter + allu(1)) & allu(2)) << 62));
	sin = (v8)((u8)sin ^ ((quarter & allu(2)) << 62));
	return (struct turn){cos, sin};
}

static inline u8 low(u8 a) { return a & allu(0xffffffff); }

// unit maps a word to (0, 1).
static inline v8 unit(u8 w) { return (real(w) + all(0.5)) * all(0x1p-32); }

// drift moves beads by half a step, lets their velocities relax to the temperature, and moves
// them by another half.
static __attribute__((noinline)) void drift(struct args *a) {
	u8 step = allu(a->step);
	i8 far = (i8)allu(0);
	v8 half = all(a->half), c1 = all(a->c1), noise = a->noise, reach2 = all(a->reach2);
	for (long i = 0; i < a->beads; i++) {
		// Philox4x32-10, counter by bead, replica and step.
		u8 w0 = allu((unsigned long long)i), w1 = a->replica, w2 = low(step), w3 = step >> 32;
		unsigned long long k0 = a->key & 0xffffffff, k1 = a->key >> 32;
		for (int r = 0; r < 10; r++) {
			u8 p = w0 * allu(0xD2511F53), q = w2 * allu(0xCD9E8D57);
			w0 = (q >> 32) ^ w1 ^ allu(k0);
			w1 = low(q);
			w2 = (p >> 32) ^ w3 ^ allu(k1);
			w3 = low(p);
			k0 = (k0 + 0x9E3779B9) & 0xffffffff;
			k1 = (k1 + 0xBB67AE85) & 0xffffffff;
		}
		v8 r1 = root(all(-2) * logarithm(unit(w0))), r2 = root(all(-2) * logarithm(unit(w2)));
		struct turn t1 = turnOf(unit(w1)), t2 = turnOf(unit(w3));
		v8 g[3] = {r1 * t1.cos, r1 * t1.sin, r2 * t2.cos};
		v8 moved2 = all(0);
		for (int c = 0; c < 3; c++) {
			v8 v = a->v[3 * i + c] + half * a->f[3 * i + c];
			v8 x = a->x[3 * i + c] + half * v;
			v = c1 * v + noise * g[c];
			x = x + half * v;
			a->v[3 * i + c] = v;
			a->x[3 * i + c] = x;
			v8 d = x - a->listed[3 * i + c];
			moved2 = moved2 + d * d;
		}
		far |= ~(moved2 <= reach2);
	}
	a->far = far;
}

static inline void add(v8 *f, v8 x, v8 y, v8 z) {
	f[0] = f[0] + x;
	f[1] = f[1] + y;
	f[2] = f[2] + z;
}

// bend adds the forces of bonds and angles and returns their energy.
static inline v8 bend(struct args *a) {
	v8 e = all(0);
	const int *first = a->first;
	const double *native = a->native;
	for (long t = 0; t < a->bonds; t++) {
		v8 *x = a->x + 3 * (long)first[t], *f = a->f + 3 * (long)first[t];
		v8 dx = x[0] - x[3], dy = x[1] - x[4], dz = x[2] - x[5];
		v8 r = root(dx * dx + dy * dy + dz * dz);
		v8 off = r - all(native[t]);
		e = e + all(100) * off * off;
		v8 s = all(-200) * off / r;
		add(f, s * dx, s * dy, s * dz);
		s = all(0) - s;
		add(f + 3, s * dx, s * dy, s * dz);
	}
	first += a->bonds;
	native += a->bonds;
	for (long t = 0; t < a->angles; t++) {
		v8 *x = a->x + 3 * (long)first[t], *f = a->f + 3 * (long)first[t];
		v8 ax = x[0] - x[3], ay = x[1] - x[4], az = x[2] - x[5];
		v8 bx = x[6] - x[3], by = x[7] - x[4], bz = x[8] - x[5];
		v8 cx = ay * bz - az * by, cy = az * bx - ax * bz, cz = ax * by - ay * bx;
		v8 sin = root(cx * cx + cy * cy + cz * cz + all(1e-12));
		v8 off = angleOf(sin, ax * bx + ay * by + az * bz) - all(native[t]);
		e = e + all(20) * off * off;
		v8 slope = all(40) * off / sin;
		v8 sa = slope / (ax * ax + ay * ay + az * az), sb = slope / (bx * bx + by * by + bz * bz);
		v8 px = (ay * cz - az * cy) * sa, py = (az * cx - ax * cz) * sa, pz = (ax * cy - ay * cx) * sa;
		v8 qx = (cy * bz - cz * by) * sb, qy = (cz * bx - cx * bz) * sb, qz = (cx * by - cy * bx) * sb;
		add(f, all(0) - px, all(0) - py, all(0) - pz);
		add(f + 3, px + qx, py + qy, pz + qz);
		add(f + 6, all(0) - qx, all(0) - qy, all(0) - qz);
	}
	return e;
}

// twist adds the forces of dihedrals and returns their energy.
static inline v8 twist(struct args *a) {
	v8 e = all(0);
	const int *first = a->first + a->bonds + a->angles;
	const double *native = a->native + a->bonds + a->angles;
	for (long t = 0; t < a->dihedrals; t++) {
		v8 *x = a->x + 3 * (long)first[t], *f = a->f + 3 * (long)first[t];
		v8 ax = x[3] - x[0], ay = x[4] - x[1], az = x[5] - x[2];
		v8 bx = x[6] - x[3], by = x[7] - x[4], bz = x[8] - x[5];
		v8 cx = x[9] - x[6], cy = x[10] - x[7], cz = x[11] - x[8];
		v8 mx = ay * bz - az * by, my = az * bx - ax * bz, mz = ax * by - ay * bx;
		v8 nx = by * cz - bz * cy, ny = bz * cx - bx * cz, nz = bx * cy - by * cx;
		v8 mm = mx * mx + my * my + mz * mz + all(1e-12), nn = nx * nx + ny * ny + nz * nz + all(1e-12);
		v8 bb = bx * bx + by * by + bz * bz, b = root(bb);
		v8 over = all(1) / root(mm * nn);
		v8 cos = (mx * nx + my * ny + mz * nz) * over, sin = b * (ax * nx + ay * ny + az * nz) * over;
		v8 cos0 = all(native[t]), sin0 = all(native[a->dihedrals + t]);
		v8 c = cos * cos0 + sin * sin0, s = sin * cos0 - cos * sin0;
		v8 c3 = c * (all(4) * c * c - all(3)), s3 = s * (all(3) - all(4) * s * s);
		e = e + ((all(1) - c) + all(0.5) * (all(1) - c3));
		v8 slope = s + all(1.5) * s3;
		v8 g0 = slope * b / mm, g3 = all(0) - slope * b / nn;
		v8 u = (ax * bx + ay * by + az * bz) / bb, w = (cx * bx + cy * by + cz * bz) / bb;
		v8 px = g0 * mx, py = g0 * my, pz = g0 * mz, qx = g3 * nx, qy = g3 * ny, qz = g3 * nz;
		add(f, px, py, pz);
		add(f + 3, w * qx - u * px - px, w * qy - u * py - py, w * qz - u * pz - pz);
		add(f + 6, u * px - w * qx - qx, u * py - w * qy - qy, u * pz - w * qz - qz);
		add(f + 9, qx, qy, qz);
	}
	return e;
}

// force sets the forces and the energy.
static __attribute__((noinline)) void force(struct args *a) {
	v8 *x = a->x, *f = a->f;
	for (long i = 0; i < 3 * a->beads; i++)
		f[i] = all(0);
	v8 e = bend(a);
	e = e + twist(a);
	for (long i = 0; i < a->beads; i++) {
		v8 xi = x[3 * i], yi = x[3 * i + 1], zi = x[3 * i + 2], fx = f[3 * i], fy = f[3 * i + 1], fz = f[3 * i + 2];
		for (long k = a->rows[i]; k < a->rows[i + 1]; k++) {
			long j = a->with[k];
			v8 dx = xi - x[3 * j], dy = yi - x[3 * j + 1], dz = zi - x[3 * j + 2];
			v8 over = all(1) / (dx * dx + dy * dy + dz * dz);
			v8 q = all(a->size2[k]) * over, q2 = q * q, q5 = q2 * q2 * q;
			e = e + q5 * (all(5) * q - all(6));
			v8 s = all(60) * q5 * (q - all(1)) * over;
			v8 px = s * dx, py = s * dy, pz = s * dz;
			fx = fx + px, fy = fy + py, fz = fz + pz;
			f[3 * j] = f[3 * j] - px, f[3 * j + 1] = f[3 * j + 1] - py, f[3 * j + 2] = f[3 * j + 2] - pz;
		}
		for (long k = a->listRows[i]; k < a->listRows[i + 1]; k++) {
			long j = a->listWith[k];
			v8 dx = xi - x[3 * j], dy = yi - x[3 * j + 1], dz = zi - x[3 * j + 2];
			v8 r2 = dx * dx + dy * dy + dz * dz;
			i8 within = r2 < all(144);
			if (!__builtin_reduce_or(within))
				continue;
			v8 over = all(1) / r2;
			v8 q = all(16) * over, q3 = q * q * q;
			v8 q6 = (v8)((i8)(q3 * q3) & within);
			e = e + q6;
			v8 s = all(12) * q6 * over;
			v8 px = s * dx, py = s * dy, pz = s * dz;
			fx = fx + px, fy = fy + py, fz = fz + pz;
			f[3 * j] = f[3 * j] - px, f[3 * j + 1] = f[3 * j + 1] - py, f[3 * j + 2] = f[3 * j + 2] - pz;
		}
		f[3 * i] = fx, f[3 * i + 1] = fy, f[3 * i + 2] = fz;
	}
	a->energy = e;
}

// kick changes velocities by the forces over half a step.
static __attribute__((noinline)) void kick(struct args *a) {
	v8 half = all(a->half);
	for (long i = 0; i < 3 * a->beads; i++)
		a->v[i] = a->v[i] + half * a->f[i];
}
