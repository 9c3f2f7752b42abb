// Steps of replicas as package fold has them, in float64: a replica to a group and a bead to an
// invocation, which sums all forces on its bead in one order. Trajectories differ from those of
// processors by rounding, as those of fold.cu do; the random numbers are made of the same words.
//: fold_48 -DBEADS=48
//: fold_64 -DBEADS=64
//: fold_160 -DBEADS=160
#version 450
layout(local_size_x = BEADS) in;
layout(std430, binding = 0) readonly buffer Ints { int ints[]; };
layout(std430, binding = 1) readonly buffer Reals { double reals[]; };
layout(std430, binding = 2) readonly buffer Ladder { double ladder[]; };
layout(std430, binding = 3) readonly buffer Before { double before[]; };
layout(std430, binding = 4) writeonly buffer After { double after[]; };
layout(std430, binding = 5) writeonly buffer Seen { double seen[]; };
//params: params
layout(push_constant) uniform Params {
	uint beads, bonds, angles, dihedrals, contacts;
	uint degree;
	uint first, groups; // of all groups, those of the task
	uint replicas; // of all groups
	uint seed;
	uint steps;
	double dt, gamma;
	double c1; // exp(-gamma dt)
};

const uint Lanes = 8, Span = 4, Rungs = 3, Quantities = 4, Words = (BEADS + 31) / 32;
const double Pi = 3.14159265358979323846LF;

// The offsets of the tables, in the order of type tables.
uint terms = bonds + angles + dihedrals;
uint chainAt = terms + beads + 1 + contacts, withAt = chainAt + beads;
uint xyzAt = terms + dihedrals + contacts, sizeAt = xyzAt + 3 * beads;

// The beads of the replica, and tails: in a step, the forces of terms on the three beads behind the
// first of the term; at the end, the contribution of each bead to the energy and to the contacts.
shared double xs[BEADS], ys[BEADS], zs[BEADS], tails[9 * BEADS];
uint me = gl_LocalInvocationID.x;

dvec3 place(uint i) { return dvec3(xs[i], ys[i], zs[i]); }
dvec3 native(uint i) { return dvec3(reals[xyzAt + 3 * i], reals[xyzAt + 3 * i + 1], reals[xyzAt + 3 * i + 2]); }

// angleOf is the angle of a vector with y not below zero.
double angleOf(double y, double x) {
	double ax = abs(x);
	bool steep = y > ax;
	double num = steep ? ax : y, den = steep ? y : ax;
	bool upper = num > 0.41421356237309503LF * den;
	double z = (upper ? num - den : num) / (upper ? num + den : den), zz = z * z;
	double p = ((((-8.750608600031904122785e-1LF * zz + -1.615753718733365076637e1LF) * zz + -7.500855792314704667340e1LF) * zz + -1.228866684490136173410e2LF) * zz + -6.485021904942025371773e1LF) * zz;
	double q = ((((zz + 2.485846490142306297962e1LF) * zz + 1.650270098316988542046e2LF) * zz + 4.328810604912902668951e2LF) * zz + 4.853903996359136964868e2LF) * zz + 1.945506571482613964425e2LF;
	double a = z * (p / q) + z;
	a = upper ? a + Pi / 4 : a;
	a = steep ? Pi / 2 - a : a;
	return x < 0 ? Pi - a : a;
}

// logarithm is that of a number in (0, 1).
double logarithm(double u) {
	const uint least = 0x3fe6a09e; // the square root of one half, its upper word
	uvec2 w = unpackDouble2x32(u);
	uint moved = w.y + (0x3ff00000 - least);
	double e = double(int(moved >> 20) - 1023);
	double f = packDouble2x32(uvec2(w.x, (moved & 0xfffff) + least)) - 1, s = f / (f + 2), z = s * s, v = z * z;
	double even = v * (3.999999999940941908e-01LF + v * (2.222219843214978396e-01LF + v * 1.531383769920937332e-01LF));
	double odd = z * (6.666666666666735130e-01LF + v * (2.857142874366239149e-01LF + v * (1.818357216161805012e-01LF + v * 1.479819860511658591e-01LF)));
	double h = 0.5LF * f * f;
	return e * 6.93147180369123816490e-01LF - ((h - (s * (h + (even + odd)) + e * 1.90821492927058770002e-10LF)) - f);
}

// turnOf is the cosine and the sine of a number of turns in (0, 1).
dvec2 turnOf(double u) {
	double t = u * 4;
	uint quarter = uint(t + 0.5LF);
	double r = (t - double(quarter)) * (Pi / 2), z = r * r;
	double s = r + r * z * (-1.66666666666666324348e-01LF + z * (8.33333333332248946124e-03LF + z * (-1.98412698298579493134e-04LF + z * (2.75573137070700676789e-06LF + z * (-2.50507602534068634195e-08LF + z * 1.58969099521155010221e-10LF)))));
	double c = 1 - (0.5LF * z - z * z * (4.16666666666666019037e-02LF + z * (-1.38888888888741095749e-03LF + z * (2.48015872894767294178e-05LF + z * (-2.75573143513906633035e-07LF + z * (2.08757232129817482790e-09LF + z * -1.13596475577881948265e-11LF))))));
	bool odd = (quarter & 1) != 0;
	double cosine = odd ? s : c, sine = odd ? c : s;
	return dvec2((quarter + 1 & 2) != 0 ? -cosine : cosine, (quarter & 2) != 0 ? -sine : sine);
}

// unit maps a word to (0, 1).
double unit(uint w) { return (double(w) + 0.5LF) * (1 / 4294967296.0LF); }

// ROUND is one of the ten of Philox4x32-10. Loops are written out where they are short: lavapipe
// ends all loops of an invocation after 65,535 rounds together.
#define ROUND { \
	uint ph, pl, qh, ql; \
	umulExtended(0xD2511F53u, w.x, ph, pl); \
	umulExtended(0xCD9E8D57u, w.z, qh, ql); \
	w = uvec4(qh ^ w.y ^ k0, ql, ph ^ w.w ^ k1, pl); \
	k0 += 0x9E3779B9u; \
	k1 += 0xBB67AE85u; \
}

// normal are three numbers of the normal distribution.
dvec3 normal(uint replica, uvec2 at) {
	uvec4 w = uvec4(me, replica, at);
	uint k0 = seed, k1 = 1;
	ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND
	double r1 = sqrt(-2 * logarithm(unit(w.x))), r2 = sqrt(-2 * logarithm(unit(w.z)));
	return dvec3(r1 * turnOf(unit(w.y)), r2 * turnOf(unit(w.w)).x);
}

// find returns the index of a bead among n that are in order, or n if it is not there.
uint find(uint from, uint n, uint bead) {
	uint lo = 0, hi = n;
	while (lo < hi) {
		uint mid = (lo + hi) / 2;
		if (uint(ints[from + mid]) < bead)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && uint(ints[from + lo]) == bead ? lo : n;
}

// The terms that begin at the bead: which there are, by bits, and their native values.
uint has = 0;
double length0 = 0, angle0 = 0, cosine0 = 0, sine0 = 0;

void findTerms() {
	uint at = find(0, bonds, me);
	if (at < bonds) {
		has |= 1;
		length0 = reals[at];
	}
	at = find(bonds, angles, me);
	if (at < angles) {
		has |= 2;
		angle0 = reals[bonds + at];
	}
	at = find(bonds + angles, dihedrals, me);
	if (at < dihedrals) {
		has |= 4;
		cosine0 = reals[bonds + angles + at];
		sine0 = reals[bonds + angles + dihedrals + at];
	}
}

// pull computes the bead's terms, and their forces on it and the three behind it.
double pull(out dvec3 on[4]) {
	on[0] = on[1] = on[2] = on[3] = dvec3(0);
	if ((has & 1) == 0)
		return 0; // the end of a chain has no other terms either
	dvec3 x1 = place(me + 1), u = x1 - place(me);
	double uu = dot(u, u), size = sqrt(uu), off = size - length0, energy = 100 * off * off;
	dvec3 p = 200 * off / size * u;
	on[0] = p;
	on[1] = -p;
	if ((has & 2) == 0)
		return energy;
	dvec3 x2 = place(me + 2), v = x2 - x1, m = cross(u, v); // of the angle and of the dihedral
	double vv = dot(v, v), mm = dot(m, m) + 1e-12LF, sine = sqrt(mm);
	off = angleOf(sine, -dot(u, v)) - angle0;
	energy += 20 * off * off;
	double slope = 40 * off / sine;
	// The angle is between -u and v, so that their cross product is -m.
	p = slope / uu * cross(u, m);
	dvec3 q = slope / vv * cross(v, m);
	on[0] -= p;
	on[1] += p + q;
	on[2] = -q;
	if ((has & 4) == 0)
		return energy;
	dvec3 w = place(me + 3) - x2, n = cross(v, w);
	double nn = dot(n, n) + 1e-12LF, b = sqrt(vv), both = 1 / sqrt(mm * nn);
	double cosine = dot(m, n) * both;
	sine = b * dot(u, n) * both;
	double c = cosine * cosine0 + sine * sine0, s = sine * cosine0 - cosine * sine0;
	energy += (1 - c) + 0.5LF * (1 - c * (4 * c * c - 3));
	slope = (s + 1.5LF * (s * (3 - 4 * s * s))) * b;
	p = slope / mm * m;
	q = -slope / nn * n;
	dvec3 between = dot(w, v) / vv * q - dot(u, v) / vv * p;
	on[0] += p;
	on[1] += between - p;
	on[2] -= between + q;
	on[3] = q;
	return energy;
}

// contact is a sixtieth of the force of a contact.
dvec3 contact(dvec3 x, uint k) {
	dvec3 d = x - place(uint(ints[withAt + k]));
	double o = 1 / dot(d, d), q = reals[sizeAt + k] * o, q2 = q * q;
	return q2 * q2 * q * (q - 1) * o * d;
}

// repelled is d/r^14 of a bead, or zero if it does not repel.
dvec3 repelled(dvec3 x, uint j, bool on) {
	dvec3 d = x - place(min(j, beads - 1));
	double r2 = dot(d, d);
	on = on && r2 < 144;
	double o = 1 / (on ? r2 : 1), o3 = o * o * o;
	return (on ? o3 * o3 * o : 0) * d;
}

// apart says whether beads i and j, by the model, repel each other.
bool apart(uint i, uint j) {
	bool far = ints[chainAt + i] != ints[chainAt + j] || j + Span <= i || i + Span <= j;
	for (uint k = i; far && k < degree * beads; k += beads)
		far = uint(ints[withAt + k]) != j || !(reals[sizeAt + k] > 0);
	return far;
}

// force computes the forces on the bead, all invocations together.
dvec3 force(dvec3 x, bool own, uint repels[Words]) {
	dvec3 on[4], f = dvec3(0), g = dvec3(0);
	if (own) {
		pull(on);
		for (uint k = 0; k < 3; k++) {
			uint t = (3 * k) * BEADS + me;
			tails[t] = on[k + 1].x;
			tails[t + BEADS] = on[k + 1].y;
			tails[t + 2 * BEADS] = on[k + 1].z;
		}
		for (uint k = me; k < degree * beads; k += 2 * beads)
			f += contact(x, k) + contact(x, k + beads);
		for (uint j = 0; j < beads; j += 4) {
			uint bits = repels[j / 32] >> (j & 31);
			g += repelled(x, j, (bits & 1) != 0) + repelled(x, j + 1, (bits & 2) != 0) +
				repelled(x, j + 2, (bits & 4) != 0) + repelled(x, j + 3, (bits & 8) != 0);
		}
		f = on[0] + 60 * f + double(12 << 24) * g;
	}
	barrier();
	for (uint k = 0; k < 3; k++)
		if (own && me > k) {
			uint t = (3 * k) * BEADS + me - k - 1;
			f += dvec3(tails[t], tails[t + BEADS], tails[t + 2 * BEADS]);
		}
	return f;
}

// partOf returns the contribution of the bead to the energy, by terms that begin at it and pairs with
// beads behind it, and to the number of contacts that are formed.
dvec2 partOf(uint repels[Words]) {
	dvec3 on[4], x = place(me);
	dvec2 sum = dvec2(pull(on), 0);
	for (uint k = me; k < degree * beads; k += beads) {
		uint j = uint(ints[withAt + k]);
		double size2 = reals[sizeAt + k];
		if (j < me || !(size2 > 0))
			continue;
		dvec3 d = x - place(j);
		double r2 = dot(d, d), q = size2 / r2, q2 = q * q;
		sum += dvec2(q2 * q2 * q * (5 * q - 6), r2 < 1.2LF * 1.2LF * size2 ? 1 : 0);
	}
	for (uint j = me + 1; j < beads; j++) {
		dvec3 d = x - place(j);
		double r2 = dot(d, d), q = 16 / r2, q3 = q * q * q;
		if (r2 < 144 && (repels[j / 32] >> (j & 31) & 1) != 0)
			sum.x += q3 * q3;
	}
	return sum;
}

// ROTATE makes element p, q of a symmetric matrix zero and turns the vectors along.
#define ROTATE(p, q) if (a[p][q] != 0) { \
	double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]); \
	double t = 1 / (abs(theta) + sqrt(theta * theta + 1)); \
	t = theta < 0 ? -t : t; \
	double c = 1 / sqrt(t * t + 1), s = t * c; \
	dvec4 x = a[p], y = a[q]; \
	a[p] = c * x - s * y; \
	a[q] = s * x + c * y; \
	a = transpose(a); \
	x = a[p]; \
	y = a[q]; \
	a[p] = c * x - s * y; \
	a[q] = s * x + c * y; \
	x = turns[p]; \
	y = turns[q]; \
	turns[p] = c * x - s * y; \
	turns[q] = s * x + c * y; \
}

// observe writes what is seen of the replica: energy, Q, Rg and RMSD as package protein has them.
void observe(uint at) {
	dvec2 part = dvec2(0);
	dvec3 cx = dvec3(0), cy = dvec3(0), s0 = dvec3(0), s1 = dvec3(0), s2 = dvec3(0);
	double n = double(beads), gyration = 0, off = 0;
	for (uint i = 0; i < beads; i++) {
		part += dvec2(tails[i], tails[BEADS + i]);
		cx += place(i) / n;
		cy += native(i) / n;
	}
	for (uint i = 0; i < beads; i++) {
		dvec3 p = place(i) - cx, q = native(i) - cy;
		gyration += dot(p, p);
		s0 += p.x * q;
		s1 += p.y * q;
		s2 += p.z * q;
	}
	dmat4 a = dmat4(
		s0.x + s1.y + s2.z, s1.z - s2.y, s2.x - s0.z, s0.y - s1.x,
		s1.z - s2.y, s0.x - s1.y - s2.z, s0.y + s1.x, s2.x + s0.z,
		s2.x - s0.z, s0.y + s1.x, s1.y - s0.x - s2.z, s1.z + s2.y,
		s0.y - s1.x, s2.x + s0.z, s1.z + s2.y, s2.z - s0.x - s1.y);
	dmat4 turns = dmat4(1);
	for (uint sweep = 0; sweep < 12; sweep++) { // eight make all bits
		ROTATE(0, 1) ROTATE(0, 2) ROTATE(0, 3) ROTATE(1, 2) ROTATE(1, 3) ROTATE(2, 3)
	}
	double most = a[0][0];
	dvec4 by = turns[0];
	for (uint p = 1; p < 4; p++)
		if (a[p][p] > most) {
			most = a[p][p];
			by = turns[p];
		}
	for (uint i = 0; i < beads; i++) {
		dvec3 p = place(i) - cx, t = 2 * cross(by.yzw, p);
		dvec3 d = p + by.x * t + cross(by.yzw, t) - (native(i) - cy);
		off += dot(d, d);
	}
	seen[at] = part.x;
	seen[at + Lanes] = part.y / double(contacts);
	seen[at + 2 * Lanes] = sqrt(gyration / n);
	seen[at + 3 * Lanes] = sqrt(off / n);
}

void main() {
	uint group = gl_WorkGroupID.x, lane = gl_WorkGroupID.y, rung = Rungs * Lanes * group + lane;
	uint number = min((first + group) * Lanes + lane, replicas - 1);
	uint at = group * 6 * Lanes * beads + lane + 3 * Lanes * me, moving = at + 3 * Lanes * beads;
	double temperature = ladder[rung], scale = ladder[rung + Lanes], begin = ladder[rung + 2 * Lanes];
	double halfStep = dt / 2, noise = sqrt((1 - c1 * c1) * temperature), upper = floor(begin / 4294967296.0LF);
	uvec2 now = uvec2(uint(begin - upper * 4294967296.0LF), uint(upper));
	bool own = me < beads;
	dvec3 x = dvec3(0), v = dvec3(0);
	uint repels[Words];
	for (uint w = 0; w < Words; w++)
		repels[w] = 0;
	if (own) {
		x = dvec3(before[at], before[at + Lanes], before[at + 2 * Lanes]);
		v = scale * dvec3(before[moving], before[moving + Lanes], before[moving + 2 * Lanes]);
		findTerms();
		for (uint j = 0; j < beads; j++)
			repels[j / 32] |= uint(apart(me, j)) << (j & 31);
	}
	for (uint s = 0; s <= steps; s++) {
		if (own) {
			xs[me] = x.x;
			ys[me] = x.y;
			zs[me] = x.z;
		}
		barrier();
		dvec3 f = force(x, own, repels);
		if (s > 0)
			v += halfStep * f;
		if (s < steps) {
			v += halfStep * f;
			x += halfStep * v;
			v = c1 * v + noise * normal(number, now);
			x += halfStep * v;
		}
		now.y += uint(++now.x == 0);
	}
	barrier(); // all have read the tails
	if (own) {
		after[at] = x.x;
		after[at + Lanes] = x.y;
		after[at + 2 * Lanes] = x.z;
		after[moving] = v.x;
		after[moving + Lanes] = v.y;
		after[moving + 2 * Lanes] = v.z;
		dvec2 part = partOf(repels);
		tails[me] = part.x;
		tails[BEADS + me] = part.y;
	}
	barrier();
	if (me == 0)
		observe(Quantities * Lanes * group + lane);
}
