// Points of BN254 with coordinates in a field F: Fp for G1, Fp2 for G2. CUDA C, and C++ for the
// host where the compiler is none for CUDA.
#pragma once
#include "../field/fp.cuh"

#ifdef __CUDA__
#define OUTLINE static __device__ __attribute__((noinline))
#else
#define OUTLINE static
#endif

// times is a product by a call, for what is not worth the length of the code.
OUTLINE Fp times(Fp a, Fp b) { return mul(a, b); }

// Fp2 is a + b u with u² = −1.
struct Fp2 {
	Fp a, b;

	INLINE Fp2 zero() { return {Fp::zero(), Fp::zero()}; }
	INLINE Fp2 one() { return {Fp::one(), Fp::zero()}; }
};

INLINE Fp2 add(Fp2 x, Fp2 y) { return {add(x.a, y.a), add(x.b, y.b)}; }
INLINE Fp2 sub(Fp2 x, Fp2 y) { return {sub(x.a, y.a), sub(x.b, y.b)}; }
INLINE Fp2 doubled(Fp2 x) { return add(x, x); }
INLINE Fp2 neg(Fp2 x) { return {neg(x.a), neg(x.b)}; }
INLINE bool is_zero(Fp2 x) { return is_zero(x.a) && is_zero(x.b); }

OUTLINE Fp2 times(Fp2 x, Fp2 y) {
	Fp aa = mul(x.a, y.a), bb = mul(x.b, y.b);
	return {sub(aa, bb), sub(sub(mul(add(x.a, x.b), add(y.a, y.b)), aa), bb)};
}
INLINE Fp2 mul(Fp2 x, Fp2 y) { return times(x, y); }
OUTLINE Fp2 square(Fp2 x) { return {mul(add(x.a, x.b), sub(x.a, x.b)), doubled(mul(x.a, x.b))}; }

OUTLINE Fp inverted(Fp x) { return inverse(x); }
OUTLINE Fp2 inverted(Fp2 x) {
	Fp norm = inverted(add(times(x.a, x.a), times(x.b, x.b)));
	return {times(x.a, norm), neg(times(x.b, norm))};
}

// Affine is a point in affine coordinates, both zero for infinity.
template <class F> struct Affine {
	F x, y;
};

// Sum is a point with x = X ÷ ZZ, y = Y ÷ ZZZ and ZZ³ = ZZZ²; ZZ is zero for infinity.
template <class F> struct Sum {
	F x, y, zz, zzz;

	INLINE Sum infinity() { return {F::zero(), F::zero(), F::zero(), F::zero()}; }
};

template <class F> INLINE bool is_infinity(Affine<F> p) { return is_zero(p.x) && is_zero(p.y); }
template <class F> INLINE bool is_infinity(const Sum<F> &p) { return is_zero(p.zz); }

// twice is 2 p. No point is its own opposite.
template <class F> OUTLINE Sum<F> twice(const Sum<F> &p) {
	F u = doubled(p.y), v = times(u, u), w = times(u, v), s = times(p.x, v), xx = times(p.x, p.x);
	F m = add(doubled(xx), xx), x = sub(times(m, m), doubled(s));
	return {x, sub(times(m, sub(s, x)), times(w, p.y)), times(v, p.zz), times(w, p.zzz)};
}

// accumulate adds a point that is not at infinity to a sum: ten products. A point is added to
// itself by its tangent, and to its opposite with zz = 0.
template <class F> INLINE void accumulate(Sum<F> &sum, Affine<F> q) {
	if (is_infinity(sum)) {
		sum = {q.x, q.y, F::one(), F::one()};
		return;
	}
	F p = sub(mul(q.x, sum.zz), sum.x), r = sub(mul(q.y, sum.zzz), sum.y);
	bool same = is_zero(p) && is_zero(r);
	if (same) {
		F xx = times(sum.x, sum.x);
		p = doubled(sum.y);
		r = add(doubled(xx), xx);
	}
	F pp = square(p), ppp = mul(p, pp), v = mul(sum.x, pp), x = sub(square(r), doubled(v));
	if (!same)
		x = sub(x, ppp);
	sum = {x, sub(mul(r, sub(v, x)), mul(sum.y, ppp)), mul(sum.zz, pp), mul(sum.zzz, ppp)};
}

// accumulate adds a sum to a sum.
template <class F> OUTLINE void accumulate(Sum<F> &sum, const Sum<F> &q) {
	if (is_infinity(q))
		return;
	if (is_infinity(sum)) {
		sum = q;
		return;
	}
	F u = times(sum.x, q.zz), s = times(sum.y, q.zzz);
	F p = sub(times(q.x, sum.zz), u), r = sub(times(q.y, sum.zzz), s);
	if (is_zero(p) && is_zero(r)) {
		sum = twice(q);
		return;
	}
	F pp = times(p, p), ppp = times(p, pp), v = times(u, pp);
	F x = sub(sub(times(r, r), ppp), doubled(v));
	sum = {x, sub(times(r, sub(v, x)), times(s, ppp)), times(times(sum.zz, q.zz), pp), times(times(sum.zzz, q.zzz), ppp)};
}

// affine returns a sum in affine coordinates.
template <class F> OUTLINE Affine<F> affine(const Sum<F> &sum) {
	F zzz = inverted(sum.zzz), z = times(zzz, sum.zz); // 1 ÷ Z³ and 1 ÷ Z, zero for infinity
	return {times(sum.x, times(z, z)), times(sum.y, zzz)};
}
