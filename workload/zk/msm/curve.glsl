// Points of BN254 with coordinates in a field F, which the includer defines: Fp for G1, Fp2 for
// G2. It has the same functions as curve.cuh.
#include "../field/fp.glsl"

// Fp2 is a + b u with u² = −1.
struct Fp2 {
	Fp a, b;
};

const Fp2 Fp2_zero = Fp2(Fp_zero, Fp_zero);
const Fp2 Fp2_one = Fp2(Fp_one, Fp_zero);

Fp2 add(Fp2 x, Fp2 y) { return Fp2(add(x.a, y.a), add(x.b, y.b)); }
Fp2 sub(Fp2 x, Fp2 y) { return Fp2(sub(x.a, y.a), sub(x.b, y.b)); }
Fp2 doubled(Fp2 x) { return add(x, x); }
Fp2 neg(Fp2 x) { return Fp2(neg(x.a), neg(x.b)); }
bool is_zero(Fp2 x) { return is_zero(x.a) && is_zero(x.b); }

// Products are one in the code: compilers put each where it is called.
Fp2 mul(Fp2 x, Fp2 y) {
	Fp aa = Fp_zero, bb = aa, t = aa, l = x.a, r = y.a;
	for (uint i = 0; i < 3; i++) {
		bb = t;
		t = mul(l, r);
		if (i == 0) {
			aa = t;
			l = x.b;
			r = y.b;
		} else {
			l = add(x.a, x.b);
			r = add(y.a, y.b);
		}
	}
	return Fp2(sub(aa, bb), sub(sub(t, aa), bb));
}

Fp2 inverse(Fp2 x) {
	Fp norm = inverse(add(mul(x.a, x.a), mul(x.b, x.b)));
	return Fp2(mul(x.a, norm), neg(mul(x.b, norm)));
}

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)
const uint Fp_sum_words = 32, Fp2_sum_words = 64;
#define ZERO NAME(F, _zero)
#define ONE NAME(F, _one)
#define SUM_WORDS NAME(F, _sum_words)

// Affine is a point in affine coordinates, both zero for infinity.
struct Affine {
	F x, y;
};

// Sum is a point with x = X ÷ ZZ, y = Y ÷ ZZZ and ZZ³ = ZZZ²; ZZ is zero for infinity.
struct Sum {
	F x, y, zz, zzz;
};

Sum infinity() { return Sum(ZERO, ZERO, ZERO, ZERO); }
bool is_infinity(Affine p) { return is_zero(p.x) && is_zero(p.y); }
bool is_infinity(Sum p) { return is_zero(p.zz); }

// twice is 2 p. No point is its own opposite.
Sum twice(Sum p) {
	F u = doubled(p.y), v = mul(u, u), w = mul(u, v), s = mul(p.x, v), xx = mul(p.x, p.x);
	F m = add(doubled(xx), xx), x = sub(mul(m, m), doubled(s));
	return Sum(x, sub(mul(m, sub(s, x)), mul(w, p.y)), mul(v, p.zz), mul(w, p.zzz));
}

// accumulate adds a point that is not at infinity to a sum: ten products. A point is added to
// itself by its tangent, and to its opposite with zz = 0.
void accumulate(inout Sum sum, Affine q) {
	if (is_infinity(sum)) {
		sum = Sum(q.x, q.y, ONE, ONE);
		return;
	}
	F p = sub(mul(q.x, sum.zz), sum.x), r = sub(mul(q.y, sum.zzz), sum.y);
	bool same = is_zero(p) && is_zero(r);
	if (same) {
		F xx = mul(sum.x, sum.x);
		p = doubled(sum.y);
		r = add(doubled(xx), xx);
	}
	F pp = mul(p, p), ppp = mul(p, pp), v = mul(sum.x, pp), x = sub(mul(r, r), doubled(v));
	if (!same)
		x = sub(x, ppp);
	sum = Sum(x, sub(mul(r, sub(v, x)), mul(sum.y, ppp)), mul(sum.zz, pp), mul(sum.zzz, ppp));
}

// accumulate adds a sum to a sum.
void accumulate(inout Sum sum, Sum q) {
	if (is_infinity(q))
		return;
	if (is_infinity(sum)) {
		sum = q;
		return;
	}
	F u = mul(sum.x, q.zz), s = mul(sum.y, q.zzz);
	F p = sub(mul(q.x, sum.zz), u), r = sub(mul(q.y, sum.zzz), s);
	bool same = is_zero(p) && is_zero(r);
	if (same) {
		F xx = mul(sum.x, sum.x);
		p = doubled(sum.y);
		r = add(doubled(xx), xx);
		u = sum.x;
		s = sum.y;
		q.zz = ONE;
		q.zzz = ONE;
	}
	F pp = mul(p, p), ppp = mul(p, pp), v = mul(u, pp), x = sub(mul(r, r), doubled(v));
	if (!same)
		x = sub(x, ppp);
	sum = Sum(x, sub(mul(r, sub(v, x)), mul(s, ppp)), mul(mul(sum.zz, q.zz), pp), mul(mul(sum.zzz, q.zzz), ppp));
}

// affine returns a sum in affine coordinates.
Affine affine(Sum sum) {
	F zzz = inverse(sum.zzz), z = mul(zzz, sum.zz); // 1 ÷ Z³ and 1 ÷ Z, zero for infinity
	return Affine(mul(sum.x, mul(z, z)), mul(sum.y, zzz));
}
