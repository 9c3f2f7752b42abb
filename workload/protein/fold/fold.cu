// Steps of replicas as package fold has them, in float64: a bead to a thread. A thread sums all
// forces on its beads in one order, so that a replica has the same bytes in every launch; that
// order is not the processors', products and sums are fused, and reciprocals and roots may be off
// in the last places, so that trajectories differ from the processors' by rounding. The
// random numbers are made of the same words.
//
// What a thread does between two barriers is a function of its bead. Compiled for a host, where
// device_test.go compares it with the reference, loops over beads take the place of threads.
#ifdef __CUDA__
#include "../../device.cuh"
#pragma clang fp contract(fast)
#else
#define INLINE static inline __attribute__((always_inline))
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

//params: params
struct Params {
	unsigned beads, bonds, angles, dihedrals, contacts;
	unsigned degree;
	unsigned first, groups; // of all groups, those of the task
	unsigned replicas; // of all groups
	unsigned seed;
	unsigned steps;
	double dt, gamma;
	double c1; // exp(-gamma dt)
};

enum : u32 { Lanes = 8, Span = 4, Rungs = 3, Seen = 4, Large = 512 };

struct Vector {
	double x, y, z;
};

INLINE Vector operator+(Vector a, Vector b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
INLINE Vector operator-(Vector a, Vector b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
INLINE Vector operator*(double by, Vector a) { return {by * a.x, by * a.y, by * a.z}; }
INLINE double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
INLINE Vector cross(Vector a, Vector b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }

INLINE double real(u64 x) { return __builtin_bit_cast(double, x); }
INLINE u64 word(double x) { return __builtin_bit_cast(u64, x); }

// guess and guessRoot are 1/a and 1/sqrt(a) in the twenty bits or so that the hardware has a table
// of.
#ifdef __CUDA__
INLINE double guess(double a) { return __nvvm_rcp_approx_ftz_d(a); }
INLINE double guessRoot(double a) {
	double y;
	asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(a));
	return y;
}
INLINE double root(double a) { return __nvvm_sqrt_rn_d(a); }
INLINE u32 upper(u32 a, u32 b) {
	u32 y;
	asm("mul.hi.u32 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
	return y;
}
#else
INLINE double root(double a) { return __builtin_sqrt(a); }
INLINE u32 upper(u32 a, u32 b) { return (u64)a * b >> 32; }
INLINE double guess(double a) { return real(word(1 / a) >> 32 << 32); }
INLINE double guessRoot(double a) { return real(word(1 / root(a)) >> 32 << 32); }
#endif

// over is 1/a and rootOver 1/sqrt(a), of numbers that are neither tiny nor huge: a step of the third
// order makes all bits of a guess.
INLINE double over(double a) {
	double y = guess(a), e = __builtin_fma(-a, y, 1.0);
	return __builtin_fma(y, __builtin_fma(e, e, e), y);
}

INLINE double rootOver(double a) {
	double y = guessRoot(a), e = __builtin_fma(-a * y, y, 1.0);
	return __builtin_fma(y * e, __builtin_fma(0.375, e, 0.5), y);
}

// angleOf is the angle of a vector with y not below zero.
INLINE double angleOf(double y, double x) {
	double ax = x < 0 ? -x : x;
	bool steep = y > ax;
	double num = steep ? ax : y, den = steep ? y : ax;
	bool upper = num > 0.41421356237309503 * den;
	double z = (upper ? num - den : num) * over(upper ? num + den : den), zz = z * z;
	double p = ((((-8.750608600031904122785e-1 * zz + -1.615753718733365076637e1) * zz + -7.500855792314704667340e1) * zz + -1.228866684490136173410e2) * zz + -6.485021904942025371773e1) * zz;
	double q = ((((zz + 2.485846490142306297962e1) * zz + 1.650270098316988542046e2) * zz + 4.328810604912902668951e2) * zz + 4.853903996359136964868e2) * zz + 1.945506571482613964425e2;
	double a = z * (p * over(q)) + z;
	a = upper ? a + 0.78539816339744830962 : a;
	a = steep ? 1.57079632679489661923 - a : a;
	return x < 0 ? 3.14159265358979323846 - a : a;
}

// logarithm is that of a number in (0, 1).
INLINE double logarithm(double u) {
	const u64 least = 0x3fe6a09e667f3bcd; // the square root of one half
	u64 moved = word(u) + (0x3ff0000000000000 - least);
	double e = real((moved >> 52) | 0x4330000000000000) - 0x1p52 - 1023;
	double f = real((moved & 0x000fffffffffffff) + least) - 1, s = f * over(f + 2), z = s * s, w = z * z;
	double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
	double odd = z * (6.666666666666735130e-01 + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
	double h = 0.5 * f * f;
	return e * 6.93147180369123816490e-01 - ((h - (s * (h + (even + odd)) + e * 1.90821492927058770002e-10)) - f);
}

// Turn is the cosine and the sine of a number of turns in (0, 1).
struct Turn {
	double cos, sin;
};

INLINE Turn turnOf(double u) {
	double t = u * 4, n = t + 0x1p52;
	u32 quarter = (u32)word(n);
	double r = (t - (n - 0x1p52)) * 1.57079632679489661923, z = r * r;
	double s = r + r * z * (-1.66666666666666324348e-01 + z * (8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
	double c = 1 - (0.5 * z - z * z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))))));
	double cos = quarter & 1 ? s : c, sin = quarter & 1 ? c : s;
	return {(quarter + 1) & 2 ? -cos : cos, quarter & 2 ? -sin : sin};
}

// unit maps a word to (0, 1).
INLINE double unit(u32 w) { return (real(w | 0x4330000000000000) - 0x1p52 + 0.5) * 0x1p-32; }

// normal are three numbers of the normal distribution, of a block of Philox4x32-10.
INLINE Vector normal(u32 seed, u32 bead, u32 replica, u64 step) {
	u32 w0 = bead, w1 = replica, w2 = (u32)step, w3 = (u32)(step >> 32), k0 = seed, k1 = 1;
	for (u32 r = 0; r < 10; r++) {
		u32 p = upper(0xD2511F53, w0) ^ w3 ^ k1, q = upper(0xCD9E8D57, w2) ^ w1 ^ k0;
		w1 = 0xCD9E8D57 * w2, w3 = 0xD2511F53 * w0;
		w0 = q, w2 = p;
		k0 += 0x9E3779B9, k1 += 0xBB67AE85;
	}
	double a = -2 * logarithm(unit(w0)), b = -2 * logarithm(unit(w2));
	double r1 = a * rootOver(a), r2 = b * rootOver(b);
	Turn t1 = turnOf(unit(w1)), t2 = turnOf(unit(w3));
	return {r1 * t1.cos, r1 * t1.sin, r2 * t2.cos};
}

// Chain is the model, as type tables has it.
struct Chain {
	u32 n, bonds, angles, dihedrals, contacts, degree;
	const int *first, *chain, *with; // with: contact k of bead i, either way, at k*n + i
	const double *native, *xyz, *size2;
	const int *rows, *upper; // bead i has contacts rows[i] to rows[i+1] with beads behind it
	const double *upper2; // squares of their native distances
};

INLINE Chain chainOf(const int *ints, const double *reals, const Params &p) {
	u32 terms = p.bonds + p.angles + p.dihedrals, natives = terms + p.dihedrals;
	const int *rows = ints + terms, *upper = rows + p.beads + 1, *chain = upper + p.contacts;
	const double *upper2 = reals + natives, *xyz = upper2 + p.contacts;
	return {p.beads, p.bonds, p.angles, p.dihedrals, p.contacts, p.degree, ints, chain, chain + p.beads, reals, xyz, xyz + 3 * p.beads, rows, upper, upper2};
}

// Terms are those that begin at a bead, as its bond, angle and dihedral have their native values.
struct Terms {
	double length, angle, cosine, sine;
	u32 has; // bits
};

// find returns the index of bead i among n that are in order, or n if it is not there.
INLINE u32 find(const int *first, u32 n, u32 i) {
	u32 lo = 0, hi = n;
	while (lo < hi) {
		u32 mid = (lo + hi) / 2;
		if ((u32)first[mid] < i)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && (u32)first[lo] == i ? lo : n;
}

INLINE Terms termsOf(const Chain &c, u32 i) {
	Terms t = {0, 0, 0, 0, 0};
	u32 at = find(c.first, c.bonds, i);
	if (at < c.bonds)
		t.has |= 1, t.length = c.native[at];
	at = find(c.first + c.bonds, c.angles, i);
	if (at < c.angles)
		t.has |= 2, t.angle = c.native[c.bonds + at];
	at = find(c.first + c.bonds + c.angles, c.dihedrals, i);
	if (at < c.dihedrals) {
		t.has |= 4, t.cosine = c.native[c.bonds + c.angles + at];
		t.sine = c.native[c.bonds + c.angles + c.dihedrals + at];
	}
	return t;
}

// Pulls are the forces of a bead's terms on it and on the three behind it.
struct Pulls {
	Vector on[4];
	double energy;
};

// pull computes terms; x are the beads from theirs on.
INLINE Pulls pull(const Terms &t, const Vector *x) {
	Pulls f = {{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, 0};
	if (!(t.has & 1))
		return f; // the end of a chain has no other terms either
	Vector x1 = x[1], u = x1 - x[0];
	double uu = dot(u, u), by = rootOver(uu), off = uu * by - t.length;
	f.energy = 100 * off * off;
	Vector p = 200 * off * by * u;
	f.on[0] = p, f.on[1] = Vector{0, 0, 0} - p;
	if (!(t.has & 2))
		return f;
	Vector x2 = x[2], v = x2 - x1;
	double vv = dot(v, v);
	Vector m = cross(u, v); // of the angle and of the dihedral
	double m0 = dot(m, m), mm = m0 + 1e-12, sinOver = rootOver(mm);
	off = angleOf(mm * sinOver, 0 - dot(u, v)) - t.angle;
	f.energy += 20 * off * off;
	double slope = 40 * off * sinOver, uuOver = over(uu), vvOver = over(vv);
	// The angle is between -u and v, so that their cross product is -m.
	p = slope * uuOver * cross(u, m);
	Vector q = slope * vvOver * cross(v, m);
	f.on[0] = f.on[0] - p, f.on[1] = f.on[1] + (p + q), f.on[2] = Vector{0, 0, 0} - q;
	if (!(t.has & 4))
		return f;
	Vector w = x[3] - x2, n = cross(v, w);
	double nn = dot(n, n) + 1e-12, b = vv * rootOver(vv), nnOver = over(nn), both = rootOver(mm * nn);
	double cos = dot(m, n) * both, sin = b * dot(u, n) * both;
	double c = cos * t.cosine + sin * t.sine, s = sin * t.cosine - cos * t.sine;
	f.energy += (1 - c) + 0.5 * (1 - c * (4 * c * c - 3));
	slope = (s + 1.5 * (s * (3 - 4 * s * s))) * b;
	p = slope * (sinOver * sinOver) * m;
	q = (0 - slope * nnOver) * n;
	Vector between = dot(w, v) * vvOver * q - dot(u, v) * vvOver * p;
	f.on[0] = f.on[0] + p, f.on[1] = f.on[1] + (between - p), f.on[2] = f.on[2] - (between + q), f.on[3] = q;
	return f;
}

// attracted adds sixtieths of the force of contact k on bead i.
INLINE Vector attracted(Vector f, const Chain &c, const Vector *x, Vector xi, u32 k) {
	Vector d = xi - x[c.with[k]];
	double o = over(dot(d, d)), q = c.size2[k] * o, q2 = q * q;
	return f + q2 * q2 * q * (q - 1) * o * d;
}

// attracted is the force of its contacts on bead i, two at a time.
INLINE Vector attracted(const Chain &c, const Vector *x, u32 i) {
	Vector f = {0, 0, 0}, xi = x[i];
#pragma clang loop unroll(disable)
	for (u32 k = i; k < c.degree * c.n; k += 2 * c.n)
		f = attracted(attracted(f, c, x, xi, k), c, x, xi, k + c.n);
	return 60 * f;
}

// near says whether the square of a distance is below 144. It is not below zero.
INLINE bool near(double r2) { return (u32)(word(r2) >> 32) < 0x40620000; }

enum : u64 { Repels = 12 * (1ull << 24) }; // 12 * 4^12

// apart says whether beads i and j, by the model, repel each other.
INLINE bool apart(const Chain &c, u32 i, u32 j) {
	if (c.chain[i] == c.chain[j] && j + Span > i && i + Span > j)
		return false;
	for (u32 k = 0; k < c.degree; k++)
		if ((u32)c.with[k * c.n + i] == j && c.size2[k * c.n + i] > 0)
			return false;
	return true;
}

// Motion holds the constants of a replica's motion.
struct Motion {
	double half, c1, noise;
	u32 seed, replica;
};

// drift moves a bead by a step and returns its new position; g are random numbers.
INLINE Vector drift(const Motion &m, Vector x, Vector &v, Vector f, Vector g) {
	v = v + m.half * f;
	x = x + m.half * v;
	v = m.c1 * v + m.noise * g;
	return x + m.half * v;
}

// bond returns the force on bead i of the terms that begin before it: tail[k] holds the force of each
// bead's terms on the bead k+1 behind it.
INLINE Vector bond(Vector *const tail[3], u32 i) {
	Vector f = {0, 0, 0};
	for (u32 k = 0; k < 3; k++)
		if (i > k)
			f = f + tail[k][i - k - 1];
	return f;
}

// Part is the contribution of bead i to the energy, by terms that begin at it and pairs with beads
// behind it, and to the number of contacts that are formed.
struct Part {
	double energy, formed;
};

INLINE Part partOf(const Chain &c, const Terms &t, const Vector *x, u32 i) {
	Part p = {pull(t, x + i).energy, 0};
	for (u32 k = 0; k < c.degree; k++) {
		u32 j = c.with[k * c.n + i];
		double size2 = c.size2[k * c.n + i];
		if (j < i || !(size2 > 0))
			continue;
		Vector d = x[i] - x[j];
		double r2 = dot(d, d), q = size2 / r2, q2 = q * q;
		p.energy += q2 * q2 * q * (5 * q - 6);
		p.formed += r2 < 1.2 * 1.2 * size2;
	}
	for (u32 j = i + 1; j < c.n; j++) {
		Vector d = x[i] - x[j];
		double r2 = dot(d, d);
		if (!near(r2) || !apart(c, i, j))
			continue;
		double q = 16 / r2, q3 = q * q * q;
		p.energy += q3 * q3;
	}
	return p;
}

// rotate makes element p, q of a symmetric matrix zero and turns the vectors along.
INLINE void rotate(double a[4][4], double v[4][4], u32 p, u32 q) {
	double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
	double t = 1 / ((theta < 0 ? -theta : theta) + root(theta * theta + 1));
	t = theta < 0 ? -t : t;
	double c = 1 / root(t * t + 1), s = t * c;
	for (u32 k = 0; k < 4; k++) {
		double x = a[k][p], y = a[k][q];
		a[k][p] = c * x - s * y, a[k][q] = s * x + c * y;
	}
	for (u32 k = 0; k < 4; k++) {
		double x = a[p][k], y = a[q][k];
		a[p][k] = c * x - s * y, a[q][k] = s * x + c * y;
		x = v[k][p], y = v[k][q];
		v[k][p] = c * x - s * y, v[k][q] = s * x + c * y;
	}
}

INLINE Vector at(const double *x, u32 i) { return {x[3 * i], x[3 * i + 1], x[3 * i + 2]}; }

// observe writes what is seen of a replica: energy, Q, Rg and RMSD as package protein has them. parts are
// those of its beads.
INLINE void observe(const Chain &c, const Vector *x, const Part *parts, double *seen) {
	double energy = 0, formed = 0, gyration = 0, off = 0, n = c.n, v[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
	Vector cx = {0, 0, 0}, cy = {0, 0, 0}, s[3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
	for (u32 i = 0; i < c.n; i++) {
		energy += parts[i].energy, formed += parts[i].formed;
		cx = cx + x[i], cy = cy + at(c.xyz, i);
	}
	cx = 1 / n * cx, cy = 1 / n * cy;
	for (u32 i = 0; i < c.n; i++) {
		Vector a = x[i] - cx, b = at(c.xyz, i) - cy;
		gyration += dot(a, a);
		s[0] = s[0] + a.x * b, s[1] = s[1] + a.y * b, s[2] = s[2] + a.z * b;
	}
	double a[4][4] = {
		{s[0].x + s[1].y + s[2].z, s[1].z - s[2].y, s[2].x - s[0].z, s[0].y - s[1].x},
		{s[1].z - s[2].y, s[0].x - s[1].y - s[2].z, s[0].y + s[1].x, s[2].x + s[0].z},
		{s[2].x - s[0].z, s[0].y + s[1].x, s[1].y - s[0].x - s[2].z, s[1].z + s[2].y},
		{s[0].y - s[1].x, s[2].x + s[0].z, s[1].z + s[2].y, s[2].z - s[0].x - s[1].y},
	};
#pragma clang loop unroll(disable)
	for (u32 sweep = 0; sweep < 12; sweep++) // eight make all bits
		for (u32 p = 0; p < 4; p++)
			for (u32 q = p + 1; q < 4; q++)
				if (a[p][q] != 0)
					rotate(a, v, p, q);
	double most = a[0][0], w = v[0][0];
	Vector turn = {v[1][0], v[2][0], v[3][0]};
	for (u32 p = 1; p < 4; p++)
		if (a[p][p] > most)
			most = a[p][p], w = v[0][p], turn = {v[1][p], v[2][p], v[3][p]};
	for (u32 i = 0; i < c.n; i++) {
		Vector b = x[i] - cx, t = 2 * cross(turn, b);
		Vector d = b + w * t + cross(turn, t) - (at(c.xyz, i) - cy);
		off += dot(d, d);
	}
	seen[0] = energy, seen[Lanes] = formed / c.contacts, seen[2 * Lanes] = root(gyration / n), seen[3 * Lanes] = root(off / n);
}

// Replica points to the data of a replica in the memory of its group.
struct Replica {
	const double *ladder, *before;
	double *after, *seen;
	u32 n;
	u64 step;
	double scale;
};

INLINE Replica replicaOf(const Params &p, const double *ladder, const double *before, double *after, double *seen, u32 group, u32 lane, Motion &m) {
	u64 state = (u64)group * 6 * Lanes * p.beads + lane;
	const double *rung = ladder + Rungs * Lanes * group + lane;
	u32 number = (p.first + group) * Lanes + lane;
	m = {p.dt / 2, p.c1, root((1 - p.c1 * p.c1) * rung[0]), p.seed, number < p.replicas ? number : p.replicas - 1};
	return {rung, before + state, after + state, seen + Seen * Lanes * group + lane, p.beads, (u64)rung[2 * Lanes], rung[Lanes]};
}

INLINE void load(const Replica &r, u32 i, Vector &x, Vector &v) {
	const double *a = r.before + 3 * Lanes * i, *b = a + 3 * Lanes * r.n;
	x = {a[0], a[Lanes], a[2 * Lanes]};
	v = r.scale * Vector{b[0], b[Lanes], b[2 * Lanes]};
}

INLINE void store(const Replica &r, u32 i, Vector x, Vector v) {
	double *a = r.after + 3 * Lanes * i, *b = a + 3 * Lanes * r.n;
	a[0] = x.x, a[Lanes] = x.y, a[2 * Lanes] = x.z;
	b[0] = v.x, b[Lanes] = v.y, b[2 * Lanes] = v.z;
}

// Short chains, of 64 beads or fewer, are in shared memory. Several threads work at a bead, each in a
// role: the first has its terms and moves it, the second the noise, and one of them the contacts; those
// of the last roles share the pairs that repel each other.
//
// Those pairs are listed within 13.5 angstrom, as chunks of four beads, or of eight where there are too
// many, that are near the same bead. The list is made anew once a bead has moved 0.75 angstrom: half of
// the margin to the cutoff, 12. A sum depends on which beads are listed beside each other in its last
// places, and so do trajectories on where launches begin.
template <u32 Beads> struct Links { // what replicas of a chain have in common
	enum : u32 { Most = 3 * Beads }; // contacts
	Terms terms[Beads];
	double size2[Most];
	unsigned short ends[2][Most]; // of each contact
	unsigned short begin[Beads + 1], entries[2 * Most]; // by bead: twice a contact's number, and one more at its second bead
};

#ifndef FOURS
#define FOURS (u32) s.Most // chunks of four beads, at most; a test has fewer
#endif

// Scene is what the threads of a replica tell each other.
template <u32 Beads> struct Scene {
	enum : u32 { Most = Beads * ((Beads + 7) / 8) }; // chunks
	Vector x[Beads + 1]; // the one beyond the last is far from all
	Vector tail[3][Beads], pull[Beads], noise[Beads], listed[Beads];
	Vector pulled[3 * Beads], sums[Most]; // of contacts and of chunks
	u32 near[2 * Most]; // the beads of chunks, four to a word
	unsigned short counts[Beads], begin[Beads + 1]; // of each bead: how many are near, and its chunks
	unsigned char owner[Most]; // of each chunk
	u32 words; // of a chunk
};

// linkBead sets what bead i has, and contacts with beads behind it.
template <u32 Beads> INLINE void linkBead(const Chain &c, Links<Beads> &l, u32 i) {
	l.terms[i] = termsOf(c, i);
	u32 at = c.rows[i];
	for (u32 k = 0; k < c.contacts; k++)
		at += (u32)c.upper[k] < i;
	l.begin[i] = at;
	for (u32 k = 0; k < c.contacts; k++)
		if ((u32)c.upper[k] == i)
			l.entries[at++] = 2 * k + 1;
	for (u32 k = c.rows[i]; k < (u32)c.rows[i + 1]; k++) {
		l.entries[at++] = 2 * k;
		l.ends[0][k] = i, l.ends[1][k] = c.upper[k], l.size2[k] = c.upper2[k];
	}
	l.begin[i + 1] = at; // as the next bead has it
}

// repelsOf are bits by bead of those that repel bead i.
INLINE u64 repelsOf(const Chain &c, u32 i) {
	u64 bits = 0;
	for (u32 j = 0; j < c.n; j++)
		bits |= (u64)apart(c, i, j) << j;
	return bits;
}

// look counts the beads that are near bead i and repel it, and returns their bits.
template <u32 Beads> INLINE u64 look(Scene<Beads> &s, u64 repels, u32 i, u32 n) {
	u64 bits = 0;
	Vector xi = s.x[i];
	s.listed[i] = xi;
#pragma clang loop unroll(disable)
	for (u32 j = 0; j < n; j++) {
		Vector d = xi - s.x[j];
		bits |= (u64)(dot(d, d) < 182.25) << j;
	}
	bits &= repels;
	s.counts[i] = __builtin_popcountll(bits);
	return bits;
}

// list makes the chunks of bead i, once all have looked.
template <u32 Beads> INLINE void list(Scene<Beads> &s, u64 bits, u32 i, u32 n) {
	u32 four = 0, at = 0, all = 0;
	for (u32 j = 0; j < n; j++)
		all += (s.counts[j] + 3u) / 4;
	u32 words = all <= FOURS ? 1 : 2, size = 4 * words;
	for (u32 j = 0; j < i; j++)
		at += (s.counts[j] + size - 1) / size;
	s.begin[i] = at;
	for (; bits != 0; at++) {
		s.owner[at] = i;
		for (u32 w = 0; w < words; w++) {
			four = 0;
			for (u32 k = 0; k < 32; k += 8, bits &= bits - 1)
				four |= (bits != 0 ? (u32)__builtin_ctzll(bits) : n) << k;
			s.near[at * words + w] = four;
		}
	}
	s.begin[i + 1] = at; // as the next bead has it
	s.words = words;
}

// repel computes chunk k.
template <u32 Beads> INLINE void repel(Scene<Beads> &s, u32 k) {
	Vector f = {0, 0, 0}, xi = s.x[s.owner[k]];
	u32 words = s.words;
#pragma clang loop unroll(disable)
	for (u32 w = 0; w < words; w++) {
		u32 four = s.near[k * words + w];
		for (u32 q = 0; q < 4; q++) {
			Vector d = xi - s.x[four >> (8 * q) & 255];
			double r2 = dot(d, d), o = over(r2), o3 = o * o * o, o7 = o3 * o3 * o;
			f = f + (near(r2) ? o7 : 0) * d;
		}
	}
	s.sums[k] = f;
}

// pullAt computes contact k.
template <u32 Beads> INLINE void pullAt(const Links<Beads> &l, Scene<Beads> &s, u32 k) {
	Vector d = s.x[l.ends[0][k]] - s.x[l.ends[1][k]];
	double o = over(dot(d, d)), q = l.size2[k] * o, q2 = q * q;
	s.pulled[k] = 60 * (q2 * q2 * q * (q - 1) * o) * d;
}

// gather sums the contacts of bead i.
template <u32 Beads> INLINE void gather(const Links<Beads> &l, Scene<Beads> &s, u32 i) {
	Vector f = {0, 0, 0};
	for (u32 k = l.begin[i], end = l.begin[i + 1]; k < end; k++) {
		u32 e = l.entries[k];
		f = f + (e & 1 ? -1.0 : 1.0) * s.pulled[e / 2];
	}
	s.pull[i] = f;
}

// bend computes the terms of bead i, and returns their force on it.
template <u32 Beads> INLINE Vector bend(const Links<Beads> &l, Scene<Beads> &s, u32 i) {
	Pulls p = pull(l.terms[i], s.x + i);
	for (u32 k = 0; k < 3; k++)
		s.tail[k][i] = p.on[k + 1];
	return p.on[0];
}

// forceOf is the force on bead i, given that of its terms.
template <u32 Beads> INLINE Vector forceOf(const Scene<Beads> &s, Vector f, u32 i) {
	f = f + s.pull[i];
	for (u32 k = 0; k < 3; k++)
		if (i > k)
			f = f + s.tail[k][i - k - 1];
	Vector r = {0, 0, 0};
	for (u32 k = s.begin[i], end = s.begin[i + 1]; k < end; k++)
		r = r + s.sums[k];
	return f + (double)Repels * r;
}

// far says whether a bead has gone too far from where it was listed.
INLINE bool far(Vector x, Vector listed) {
	Vector d = x - listed;
	return !(dot(d, d) <= 0.5625);
}

// Long chains: a replica is in the workspace, with a list of the pairs within 15 angstrom, as bits by
// bead. The list is made anew once a bead has moved 1.5 angstrom: half of the margin to the cutoff, 12.
struct Work {
	Vector *x, *v, *f, *listed, *tail[3];
	Terms *terms;
	Part *parts;
	u32 *pairs; // word w of bead i at w*n + i
};

INLINE Work workOf(double *work, const Params &p, u32 replica) {
	u32 n = p.beads, words = (n + 31) / 32;
	u64 size = (u64)28 * n + ((u64)n * words + 1) / 2;
	Vector *v = (Vector *)(work + size * replica);
	Terms *t = (Terms *)(v + 7 * n);
	Part *q = (Part *)(t + n);
	return {v, v + n, v + 2 * n, v + 3 * n, {v + 4 * n, v + 5 * n, v + 6 * n}, t, q, (u32 *)(work + size * replica + 28 * n)};
}

INLINE void list(const Chain &c, const Work &w, u32 i) {
	Vector xi = w.x[i];
	w.listed[i] = xi;
	for (u32 at = 0; 32 * at < c.n; at++) {
		u32 bits = 0, end = 32 * at + 32 < c.n ? 32 : c.n - 32 * at;
		for (u32 k = 0; k < end; k++) {
			Vector d = xi - w.x[32 * at + k];
			if (dot(d, d) < 225 && apart(c, i, 32 * at + k))
				bits |= 1u << k;
		}
		w.pairs[(u64)at * c.n + i] = bits;
	}
}

INLINE void forceLong(const Chain &c, const Work &w, u32 i) {
	Pulls p = pull(w.terms[i], w.x + i);
	for (u32 k = 0; k < 3; k++)
		w.tail[k][i] = p.on[k + 1];
	Vector f = {0, 0, 0}, xi = w.x[i];
	for (u32 at = 0; 32 * at < c.n; at++)
		for (u32 m = w.pairs[(u64)at * c.n + i]; m != 0; m &= m - 1) {
			Vector d = xi - w.x[32 * at + __builtin_ctz(m)];
			double r2 = dot(d, d);
			if (!near(r2))
				continue;
			double o = over(r2), o3 = o * o * o;
			f = f + o3 * o3 * o * d;
		}
	w.f[i] = p.on[0] + attracted(c, w.x, i) + (double)Repels * f;
}

INLINE void finishLong(const Work &w, u32 i, double kick) {
	Vector f = w.f[i] + bond(w.tail, i);
	w.f[i] = f;
	w.v[i] = w.v[i] + kick * f;
}

// driftLong returns whether the bead went too far for the list.
INLINE bool driftLong(const Motion &m, const Work &w, u32 i, u64 step) {
	Vector v = w.v[i], x = drift(m, w.x[i], v, w.f[i], normal(m.seed, i, m.replica, step)), d = x - w.listed[i];
	w.x[i] = x, w.v[i] = v;
	return !(dot(d, d) <= 2.25);
}

#ifdef __CUDA__
// meet is a barrier of so many threads: those of one role.
INLINE void meet(u32 threads) { asm volatile("bar.sync 1, %0;" : : "r"(threads) : "memory"); }

// short_chains: grid (groups, lanes), Count replicas of Beads beads or fewer to a block.
template <u32 Beads, u32 Count, u32 Roles> INLINE void short_chains(const int *ints, const double *reals, const double *ladder, const double *before, double *after, double *seen, const Params &p) {
	enum : u32 { Width = Count * Beads, Contacts = Roles > 2, Listed = Roles > 2 ? 2 : 1 }; // the role of contacts, and the first of pairs
	__shared__ Links<Beads> links;
	__shared__ Scene<Beads> scenes[Count];
	u32 n = p.beads, role = THREAD / Width, t = THREAD % Width, which = t / n, i = t - which * n;
	bool own = which < Count;
	if (!own)
		which = 0, i = 0;
	Chain c = chainOf(ints, reals, p);
	Motion m;
	Replica r = replicaOf(p, ladder, before, after, seen, BLOCK_X, BLOCK_Y * Count + which, m);
	Scene<Beads> &scene = scenes[which];
	u64 repels = 0;
	Vector x, v, f;
	bool moves = own && role == 0, gone = true;
	if (moves) {
		repels = repelsOf(c, i);
		load(r, i, x, v);
		scene.x[i] = x;
		if (which == 0)
			linkBead(c, links, i);
		if (i == 0)
			scene.x[n] = {1e6, 1e6, 1e6};
	}
	for (u32 s = 0;; s++) {
		if (__nvvm_bar0_or(gone)) {
			u64 bits = 0;
			if (moves)
				bits = look(scene, repels, i, n);
			__syncthreads();
			if (moves)
				list(scene, bits, i, n);
			__syncthreads();
		}
		if (role == Contacts) {
			for (u32 k = t; k < Count * c.contacts; k += Width) {
				u32 w = Count > 1 && k >= c.contacts;
				pullAt(links, scenes[w], k - w * c.contacts);
			}
			meet(Width);
			if (own)
				gather(links, scene, i);
		}
		if (moves)
			f = bend(links, scene, i);
		if (own && role == 1)
			scene.noise[i] = normal(m.seed, i, m.replica, r.step + s);
		if (role >= Listed) {
			u32 first = scenes[0].begin[n], all = Count > 1 ? first + scenes[Count - 1].begin[n] : first;
			for (u32 k = THREAD - Listed * Width; k < all; k += (Roles - Listed) * Width) {
				u32 w = Count > 1 && k >= first;
				repel(scenes[w], k - w * first);
			}
		}
		__syncthreads();
		gone = false;
		if (moves) {
			f = forceOf(scene, f, i);
			if (s > 0)
				v = v + m.half * f;
			if (s < p.steps) {
				scene.x[i] = x = drift(m, x, v, f, scene.noise[i]);
				gone = far(x, scene.listed[i]);
			}
		}
		if (s == p.steps)
			break;
	}
	__syncthreads();
	Part *parts = (Part *)scene.sums; // a vector is larger
	if (moves) {
		store(r, i, x, v);
		parts[i] = partOf(c, links.terms[i], scene.x, i);
	}
	__syncthreads();
	if (moves && i == 0)
		observe(c, scene.x, parts, r.seen);
}

KERNEL(192, 4) fold_two(const int *__restrict ints, const double *__restrict reals, const double *__restrict ladder, const double *__restrict before, double *__restrict after, double *__restrict seen, Params p) {
	short_chains<48, 2, 2>(ints, reals, ladder, before, after, seen, p);
}

KERNEL(256, 3) fold_one(const int *__restrict ints, const double *__restrict reals, const double *__restrict ladder, const double *__restrict before, double *__restrict after, double *__restrict seen, Params p) {
	short_chains<64, 1, 4>(ints, reals, ladder, before, after, seen, p);
}

// fold_long: grid (groups, lanes), a replica to a block.
KERNEL(512, 1) fold_long(const int *__restrict ints, const double *__restrict reals, const double *__restrict ladder, const double *__restrict before, double *__restrict after, double *__restrict seen, double *work, Params p) {
	Chain c = chainOf(ints, reals, p);
	Motion m;
	Replica r = replicaOf(p, ladder, before, after, seen, BLOCK_X, BLOCK_Y, m);
	Work w = workOf(work, p, BLOCK_X * Lanes + BLOCK_Y);
	for (u32 i = THREAD; i < p.beads; i += Large) {
		w.terms[i] = termsOf(c, i);
		load(r, i, w.x[i], w.v[i]);
	}
	bool far = true;
	for (u32 s = 0;; s++) {
		if (__nvvm_bar0_or(far))
			for (u32 i = THREAD; i < p.beads; i += Large)
				list(c, w, i);
		for (u32 i = THREAD; i < p.beads; i += Large)
			forceLong(c, w, i);
		__syncthreads();
		for (u32 i = THREAD; i < p.beads; i += Large)
			finishLong(w, i, s > 0 ? m.half : 0);
		if (s == p.steps)
			break;
		far = false;
		for (u32 i = THREAD; i < p.beads; i += Large)
			far |= driftLong(m, w, i, r.step + s);
	}
	for (u32 i = THREAD; i < p.beads; i += Large) {
		store(r, i, w.x[i], w.v[i]);
		w.parts[i] = partOf(c, w.terms[i], w.x, i);
	}
	__syncthreads();
	if (THREAD == 0)
		observe(c, w.x, w.parts, r.seen);
}
#else
// hostShort does a replica of a short chain.
static void hostShort(const Chain &c, const Replica &r, const Motion &m, u32 steps) {
	static Links<64> links;
	static Scene<64> scene;
	static Vector v[64], f[64];
	static u64 repels[64], bits[64];
	static Part parts[64];
	u32 n = c.n;
	for (u32 i = 0; i < n; i++) {
		linkBead(c, links, i);
		load(r, i, scene.x[i], v[i]);
		repels[i] = repelsOf(c, i);
	}
	scene.x[n] = {1e6, 1e6, 1e6};
	bool gone = true;
	for (u32 s = 0;; s++) {
		for (u32 i = 0; gone && i < n; i++)
			bits[i] = look(scene, repels[i], i, n);
		for (u32 i = 0; gone && i < n; i++)
			list(scene, bits[i], i, n);
		for (u32 k = 0; k < c.contacts; k++)
			pullAt(links, scene, k);
		for (u32 k = 0; k < scene.begin[n]; k++)
			repel(scene, k);
		for (u32 i = 0; i < n; i++) {
			gather(links, scene, i);
			f[i] = bend(links, scene, i);
			scene.noise[i] = normal(m.seed, i, m.replica, r.step + s);
		}
		gone = false;
		for (u32 i = 0; i < n; i++) {
			f[i] = forceOf(scene, f[i], i);
			if (s > 0)
				v[i] = v[i] + m.half * f[i];
			if (s < steps) {
				scene.x[i] = drift(m, scene.x[i], v[i], f[i], scene.noise[i]);
				gone |= far(scene.x[i], scene.listed[i]);
			}
		}
		if (s == steps)
			break;
	}
	for (u32 i = 0; i < n; i++) {
		store(r, i, scene.x[i], v[i]);
		parts[i] = partOf(c, links.terms[i], scene.x, i);
	}
	observe(c, scene.x, parts, r.seen);
}

// fold_host does all replicas as fold_two and fold_one do, or, with a workspace, as fold_long does.
extern "C" void fold_host(const int *ints, const double *reals, const double *ladder, const double *before, double *after, double *seen, double *work, Params p) {
	Chain c = chainOf(ints, reals, p);
	u32 n = p.beads;
	for (u32 k = 0; k < p.groups * Lanes; k++) {
		Motion m;
		Replica r = replicaOf(p, ladder, before, after, seen, k / Lanes, k % Lanes, m);
		if (!work) {
			hostShort(c, r, m, p.steps);
			continue;
		}
		Work w = workOf(work, p, k);
		for (u32 i = 0; i < n; i++) {
			w.terms[i] = termsOf(c, i);
			load(r, i, w.x[i], w.v[i]);
		}
		bool far = true;
		for (u32 s = 0;; s++) {
			for (u32 i = 0; far && i < n; i++)
				list(c, w, i);
			for (u32 i = 0; i < n; i++)
				forceLong(c, w, i);
			for (u32 i = 0; i < n; i++)
				finishLong(w, i, s > 0 ? m.half : 0);
			if (s == p.steps)
				break;
			far = false;
			for (u32 i = 0; i < n; i++)
				far |= driftLong(m, w, i, r.step + s);
		}
		for (u32 i = 0; i < n; i++) {
			store(r, i, w.x[i], w.v[i]);
			w.parts[i] = partOf(c, w.terms[i], w.x, i);
		}
		observe(c, w.x, w.parts, r.seen);
	}
}
#endif
