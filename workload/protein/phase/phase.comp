// Phase states in float64. In WAVES a group has a row; in PRODUCT it has 8 rows and 8
// columns. GLSL has no functions of float64 but the root, so those that are needed are here.
//: phase_waves -DWAVES
//: phase_product -DPRODUCT
#version 450
layout(local_size_x = 64) in;
#ifdef WAVES
layout(std430, binding = 0) readonly buffer Beads { double beads[]; };
layout(std430, binding = 1) readonly buffer Kinds { uint kinds[]; };
layout(std430, binding = 2) buffer Waves { double waves[]; };
layout(std430, binding = 3) writeonly buffer States { double states[]; };
layout(std430, binding = 4) writeonly buffer Squares { double squares[]; };
#else
layout(std430, binding = 0) readonly buffer Waves { double waves[]; };
layout(std430, binding = 1) readonly buffer Squares { double squares[]; };
layout(std430, binding = 2) buffer States { double states[]; };
#endif
//params: params
layout(push_constant) uniform Params {
	uint residues;
	uint first; // row of the task
	uint rows;
	uint stride; // numbers of the real parts of a row of ψ, and of the imaginary ones behind them
	double time;
};
const uint Threads = 64;
uint me = gl_LocalInvocationID.x;

#ifdef WAVES
const double Pi = 3.14159265358979323846LF;
const double Farthest = 690.0LF * 3.8LF; // where waves end, as in the Go code

// power is 2 to the n, for n from -1022 to 1023.
double power(int n) { return packDouble2x32(uvec2(0, uint(n + 1023) << 20)); }

// exponential is e to the x for x up to 0, and 0 where that is below the normal numbers.
double exponential(double x) {
	if (!(x > -708.0LF))
		return 0.0LF;
	precise double n = floor(x * 1.44269504088896340736LF + 0.5LF);
	precise double r = x - n * 0.693147180369123816490LF;
	r = r - n * 1.90821492927058770002e-10LF;
	precise double p = 1.0LF / 6227020800.0LF;
	p = p * r + 1.0LF / 479001600.0LF;
	p = p * r + 1.0LF / 39916800.0LF;
	p = p * r + 1.0LF / 3628800.0LF;
	p = p * r + 1.0LF / 362880.0LF;
	p = p * r + 1.0LF / 40320.0LF;
	p = p * r + 1.0LF / 5040.0LF;
	p = p * r + 1.0LF / 720.0LF;
	p = p * r + 1.0LF / 120.0LF;
	p = p * r + 1.0LF / 24.0LF;
	p = p * r + 1.0LF / 6.0LF;
	p = p * r + 0.5LF;
	p = p * r + 1.0LF;
	p = p * r + 1.0LF;
	return p * power(int(n));
}

// logarithm is the natural one of x of at least 1.
double logarithm(double x) {
	uvec2 u = unpackDouble2x32(x);
	int n = int(u.y >> 20) - 1023;
	double m = packDouble2x32(uvec2(u.x, (u.y & 0xfffffu) | 0x3ff00000u));
	if (m > 1.41421356237309504880LF) {
		m = m * 0.5LF;
		n++;
	}
	precise double f = (m - 1.0LF) / (m + 1.0LF), s = f * f;
	precise double p = 1.0LF / 23.0LF;
	p = p * s + 1.0LF / 21.0LF;
	p = p * s + 1.0LF / 19.0LF;
	p = p * s + 1.0LF / 17.0LF;
	p = p * s + 1.0LF / 15.0LF;
	p = p * s + 1.0LF / 13.0LF;
	p = p * s + 1.0LF / 11.0LF;
	p = p * s + 1.0LF / 9.0LF;
	p = p * s + 1.0LF / 7.0LF;
	p = p * s + 1.0LF / 5.0LF;
	p = p * s + 1.0LF / 3.0LF;
	p = p * s + 1.0LF;
	precise double high = double(n) * 0.693147180369123816490LF, low = double(n) * 1.90821492927058770002e-10LF;
	precise double l = 2.0LF * f * p + low;
	return high + l;
}

// circle is the cosine and the sine of x from 0 on, by quarters of a turn.
dvec2 circle(double x) {
	precise double n = floor(x * 0.63661977236758134308LF + 0.5LF);
	precise double r = x - n * 1.57079632673412561417LF;
	r = r - n * 6.07710050630396597660e-11LF;
	r = r - n * 2.02226624879595063154e-21LF;
	precise double s = r * r;
	precise double b = 1.0LF / 355687428096000.0LF;
	b = 1.0LF / 1307674368000.0LF - b * s;
	b = 1.0LF / 6227020800.0LF - b * s;
	b = 1.0LF / 39916800.0LF - b * s;
	b = 1.0LF / 362880.0LF - b * s;
	b = 1.0LF / 5040.0LF - b * s;
	b = 1.0LF / 120.0LF - b * s;
	b = 1.0LF / 6.0LF - b * s;
	b = r - r * s * b;
	precise double a = 1.0LF / 20922789888000.0LF;
	a = 1.0LF / 87178291200.0LF - a * s;
	a = 1.0LF / 479001600.0LF - a * s;
	a = 1.0LF / 3628800.0LF - a * s;
	a = 1.0LF / 40320.0LF - a * s;
	a = 1.0LF / 720.0LF - a * s;
	a = 1.0LF / 24.0LF - a * s;
	a = 0.5LF - a * s;
	a = 1.0LF - a * s;
	switch (uint(n) & 3u) {
	case 0u: return dvec2(a, b);
	case 1u: return dvec2(-b, a);
	case 2u: return dvec2(-a, -b);
	}
	return dvec2(b, -a);
}

dvec3 bead(uint i) { return dvec3(beads[3 * i], beads[3 * i + 1], beads[3 * i + 2]); }
dvec3 across(dvec3 a, dvec3 b) {
	precise dvec3 c = dvec3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
	return c;
}
double along(dvec3 a, dvec3 b) {
	precise double d = a.x * b.x + a.y * b.y + a.z * b.z;
	return d;
}

// tau and chi are as in the Go code.
double tau(uint p, uint q) {
	uint i = min(p, q), j = max(p, q);
	if (j + 1 >= residues)
		return 1.0LF;
	dvec3 o = bead(i + 1), e = bead(j);
	dvec3 a = across(bead(i) - o, e - o), b = across(bead(j + 1) - e, o - e);
	double u = sqrt(along(a, a)), v = sqrt(along(b, b));
	if (u < 1e-10LF || v < 1e-10LF)
		return 1.2LF;
	precise double c = along(a, b) / (u * v);
	return c > 0.5LF ? 1.2LF : c < -0.5LF ? 0.8LF : 1.0LF;
}

double chi(uint p, uint q) {
	uint a = min(p, q), b = max(p, q);
	if (a == 1 || b == 1)
		return 1.2LF;
	if (a == 2 || b == 2)
		return 0.8LF;
	if (a == 3 && b == 3)
		return 1.1LF;
	if (a == b && a >= 4 && a <= 6)
		return 0.9LF;
	if (a == 7 && b == 8 || a == 9 && b == 10)
		return 1.3LF;
	return 1.0LF;
}

double energy(double d) {
	precise double q = 3.8LF / d, q6 = q * q * q;
	q6 *= q6;
	precise double e = 332.0636LF * exponential(-d / 10.0LF) / d + 2.0LF * (q6 * q6 - q6);
	if (d >= 2.5LF && d <= 3.5LF) {
		precise double q2 = 2.9LF / d;
		q2 *= q2;
		precise double q10 = q2 * q2 * q2 * q2 * q2;
		precise double more = 2.0LF * (5.0LF * q10 * q2 - 6.0LF * q10);
		e += more;
	}
	return abs(e);
}

shared double lengths[Threads], alphas[Threads];

void main() {
	uint row = gl_WorkGroupID.x, i = first + row;
	uint re = 2 * row * stride, im = re + stride, to = 2 * row * residues;
	precise double length2 = 0, alpha2 = 0;
	for (uint j = me; j < stride; j += Threads) {
		if (j >= residues) {
			waves[re + j] = 0;
			waves[im + j] = 0;
			continue;
		}
		if (i == j) {
			waves[re + j] = 1;
			waves[im + j] = 0;
			states[to + 2 * j] = 1;
			states[to + 2 * j + 1] = 0;
			length2 += 1.0LF;
			continue;
		}
		dvec3 v = bead(i) - bead(j);
		double d = sqrt(along(v, v)), s = double(i > j ? i - j : j - i);
		precise double r = d >= Farthest ? 0.0LF : exponential(-d / 3.8LF) / (1.0LF + s);
		precise double angle = 2.0LF * Pi * s / double(residues) + d / 38.0LF;
		precise double t = r * circle(angle).y;
		waves[re + j] = r;
		waves[im + j] = t;
		precise double square = r * r + t * t;
		length2 += square;
		precise double turned = 2.0LF * Pi * logarithm(1.0LF + d / 3.8LF) * time;
		double e = energy(d);
		precise double alpha = e * abs(circle(turned).x) * exponential(-d / 10.0LF) * exponential(-e / (0.001987LF * 300.0LF));
		square = alpha * alpha;
		alpha2 += square;
		precise double whole = turned + Pi * s / d;
		dvec2 at = circle(whole);
		alpha *= chi(kinds[i], kinds[j]) * tau(i, j);
		states[to + 2 * j] = alpha * at.x;
		states[to + 2 * j + 1] = alpha * at.y;
	}
	lengths[me] = length2;
	alphas[me] = alpha2;
	barrier();
	for (uint by = Threads / 2; by > 0; by /= 2) {
		if (me < by) {
			lengths[me] += lengths[me + by];
			alphas[me] += alphas[me + by];
		}
		barrier();
	}
	if (me == 0)
		squares[row] = alphas[0];
	double scale = power(480) / sqrt(lengths[0]); // raised, as in the Go code
	for (uint j = me; j < residues; j += Threads) {
		waves[re + j] *= scale;
		waves[im + j] *= scale;
	}
}
#else
// Parts of rows and columns, by their numbers.
const uint Side = 8, Deep = 16;
shared double ar[Side][Deep + 1], ai[Side][Deep + 1], br[Side][Deep + 1], bi[Side][Deep + 1];
shared double scale;

void main() {
	uint r = me / Side, c = me % Side, row = gl_WorkGroupID.x * Side + r, j = gl_WorkGroupID.y * Side + c;
	if (me == 0) {
		precise double sum = 0;
		for (uint k = 0; k < residues; k++)
			sum += squares[k];
		scale = sum > 0.0LF ? 1.0LF / sqrt(sum) : 0.0LF;
	}
	precise double x = 0, y = 0;
	for (uint from = 0; from < stride; from += Deep) {
		barrier();
		// Two of 16 for each of 8 rows and 8 columns.
		for (uint k = c; k < Deep; k += Side) {
			bool inside = from + k < stride;
			uint a = 2 * (first + row) * stride + from + k, b = 2 * (gl_WorkGroupID.y * Side + r) * stride + from + k;
			bool have = inside && row < rows, other = inside && gl_WorkGroupID.y * Side + r < residues;
			ar[r][k] = have ? waves[a] : 0.0LF;
			ai[r][k] = have ? waves[a + stride] : 0.0LF;
			br[r][k] = other ? waves[b] : 0.0LF;
			bi[r][k] = other ? waves[b + stride] : 0.0LF;
		}
		barrier();
		for (uint k = 0; k < Deep; k++) {
			precise double u = ar[r][k] * br[c][k] + ai[r][k] * bi[c][k];
			precise double v = ar[r][k] * bi[c][k] - ai[r][k] * br[c][k];
			x += u;
			y += v;
		}
	}
	if (row >= rows || j >= residues || first + row == j)
		return;
	uint at = 2 * (row * residues + j);
	precise double re = states[at] * scale, im = states[at + 1] * scale;
	double largest = max(abs(x), abs(y));
	if (largest != 0.0LF) {
		x /= largest;
		y /= largest;
		precise double length2 = x * x + y * y;
		double length = sqrt(length2);
		x /= length;
		y /= length;
		precise double turned = re * x - im * y;
		im = re * y + im * x;
		re = turned;
	}
	states[at] = re;
	states[at + 1] = im;
}
#endif
