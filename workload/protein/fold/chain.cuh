// The model of package fold for its kernels on GPUs: numbers, the random ones among them, the terms of a
// chain and their forces, what is observed of a replica, and where its data are. fold.cu includes it after
// the parameters.
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
