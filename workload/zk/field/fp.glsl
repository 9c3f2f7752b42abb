// Fp, the field of coordinates of BN254. Made by go run ./workload/zk/field: do not edit.
//
// Elements are in Montgomery form and below the prime. No index here depends on data, so that
// elements stay in registers.
#ifndef BN254_WORDS
#define BN254_WORDS

// {sum, carry} of three words and a carry, and of a word and a product and a word.
uint bn254_add(uint a, uint b, inout uint carry) {
	uint c1, c2, s = uaddCarry(uaddCarry(a, b, c1), carry, c2);
	carry = c1 + c2;
	return s;
}
uint bn254_sub(uint a, uint b, inout uint borrow) {
	uint b1, b2, d = usubBorrow(usubBorrow(a, b, b1), borrow, b2);
	borrow = b1 + b2;
	return d;
}
uint bn254_mad(uint t, uint x, uint y, inout uint carry) {
	uint hi, lo, c1, c2;
	umulExtended(x, y, hi, lo);
	lo = uaddCarry(uaddCarry(lo, t, c1), carry, c2);
	carry = hi + c1 + c2;
	return lo;
}
#endif

struct Fp {
	uint v[8];
};

const Fp Fp_zero = Fp(uint[8](0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u));
const Fp Fp_one = Fp(uint[8](0xc58f0d9du, 0xd35d438du, 0xf5c70b3du, 0x0a78eb28u, 0x7879462cu, 0x666ea36fu, 0x9a07df2fu, 0x0e0a77c1u));
// Fp_radix_squared brings a number below the prime into Montgomery form, by a product.
const Fp Fp_radix_squared = Fp(uint[8](0x538afa89u, 0xf32cfc5bu, 0xd44501fbu, 0xb5e71911u, 0x0a417ff6u, 0x47ab1effu, 0xcab8351fu, 0x06d89f71u));

// fp_reduce is a number below twice the prime, less the prime where that can be.
Fp fp_reduce(Fp t) {
	Fp d;
	uint borrow = 0;
	d.v[0] = bn254_sub(t.v[0], 0xd87cfd47u, borrow);
	d.v[1] = bn254_sub(t.v[1], 0x3c208c16u, borrow);
	d.v[2] = bn254_sub(t.v[2], 0x6871ca8du, borrow);
	d.v[3] = bn254_sub(t.v[3], 0x97816a91u, borrow);
	d.v[4] = bn254_sub(t.v[4], 0x8181585du, borrow);
	d.v[5] = bn254_sub(t.v[5], 0xb85045b6u, borrow);
	d.v[6] = bn254_sub(t.v[6], 0xe131a029u, borrow);
	d.v[7] = bn254_sub(t.v[7], 0x30644e72u, borrow);
	bool less = borrow != 0;
	d.v[0] = less ? t.v[0] : d.v[0];
	d.v[1] = less ? t.v[1] : d.v[1];
	d.v[2] = less ? t.v[2] : d.v[2];
	d.v[3] = less ? t.v[3] : d.v[3];
	d.v[4] = less ? t.v[4] : d.v[4];
	d.v[5] = less ? t.v[5] : d.v[5];
	d.v[6] = less ? t.v[6] : d.v[6];
	d.v[7] = less ? t.v[7] : d.v[7];
	return d;
}

// add is the sum.
Fp add(Fp a, Fp b) {
	uint carry = 0;
	a.v[0] = bn254_add(a.v[0], b.v[0], carry);
	a.v[1] = bn254_add(a.v[1], b.v[1], carry);
	a.v[2] = bn254_add(a.v[2], b.v[2], carry);
	a.v[3] = bn254_add(a.v[3], b.v[3], carry);
	a.v[4] = bn254_add(a.v[4], b.v[4], carry);
	a.v[5] = bn254_add(a.v[5], b.v[5], carry);
	a.v[6] = bn254_add(a.v[6], b.v[6], carry);
	a.v[7] = bn254_add(a.v[7], b.v[7], carry);
	return fp_reduce(a);
}

// sub is the difference.
Fp sub(Fp a, Fp b) {
	uint borrow = 0, carry = 0;
	a.v[0] = bn254_sub(a.v[0], b.v[0], borrow);
	a.v[1] = bn254_sub(a.v[1], b.v[1], borrow);
	a.v[2] = bn254_sub(a.v[2], b.v[2], borrow);
	a.v[3] = bn254_sub(a.v[3], b.v[3], borrow);
	a.v[4] = bn254_sub(a.v[4], b.v[4], borrow);
	a.v[5] = bn254_sub(a.v[5], b.v[5], borrow);
	a.v[6] = bn254_sub(a.v[6], b.v[6], borrow);
	a.v[7] = bn254_sub(a.v[7], b.v[7], borrow);
	uint mask = 0u - borrow;
	a.v[0] = bn254_add(a.v[0], 0xd87cfd47u & mask, carry);
	a.v[1] = bn254_add(a.v[1], 0x3c208c16u & mask, carry);
	a.v[2] = bn254_add(a.v[2], 0x6871ca8du & mask, carry);
	a.v[3] = bn254_add(a.v[3], 0x97816a91u & mask, carry);
	a.v[4] = bn254_add(a.v[4], 0x8181585du & mask, carry);
	a.v[5] = bn254_add(a.v[5], 0xb85045b6u & mask, carry);
	a.v[6] = bn254_add(a.v[6], 0xe131a029u & mask, carry);
	a.v[7] = bn254_add(a.v[7], 0x30644e72u & mask, carry);
	return a;
}

// mul is the product, in Montgomery form.
Fp mul(Fp a, Fp b) {
	Fp t = Fp_zero;
	for (uint i = 0; i < 8; i++) {
		uint x = 0, y = 0, s = bn254_mad(t.v[0], a.v[0], b.v[0], x), m = s * 0xe4866389u;
		bn254_mad(s, m, 0xd87cfd47u, y);
		s = bn254_mad(t.v[1], a.v[1], b.v[0], x);
		t.v[1 - 1] = bn254_mad(s, m, 0x3c208c16u, y);
		s = bn254_mad(t.v[2], a.v[2], b.v[0], x);
		t.v[2 - 1] = bn254_mad(s, m, 0x6871ca8du, y);
		s = bn254_mad(t.v[3], a.v[3], b.v[0], x);
		t.v[3 - 1] = bn254_mad(s, m, 0x97816a91u, y);
		s = bn254_mad(t.v[4], a.v[4], b.v[0], x);
		t.v[4 - 1] = bn254_mad(s, m, 0x8181585du, y);
		s = bn254_mad(t.v[5], a.v[5], b.v[0], x);
		t.v[5 - 1] = bn254_mad(s, m, 0xb85045b6u, y);
		s = bn254_mad(t.v[6], a.v[6], b.v[0], x);
		t.v[6 - 1] = bn254_mad(s, m, 0xe131a029u, y);
		s = bn254_mad(t.v[7], a.v[7], b.v[0], x);
		t.v[7 - 1] = bn254_mad(s, m, 0x30644e72u, y);
		t.v[7] = x + y;
		b.v[0] = b.v[0 + 1];
		b.v[1] = b.v[1 + 1];
		b.v[2] = b.v[2 + 1];
		b.v[3] = b.v[3 + 1];
		b.v[4] = b.v[4 + 1];
		b.v[5] = b.v[5 + 1];
		b.v[6] = b.v[6 + 1];
	}
	return fp_reduce(t);
}

Fp doubled(Fp a) { return add(a, a); }
Fp square(Fp a) { return mul(a, a); }
Fp neg(Fp a) { return sub(Fp_zero, a); }

bool is_zero(Fp a) {
	return (a.v[0] | a.v[1] | a.v[2] | a.v[3] | a.v[4] | a.v[5] | a.v[6] | a.v[7]) == 0;
}

bool equal(Fp a, Fp b) {
	return ((a.v[0] ^ b.v[0]) | (a.v[1] ^ b.v[1]) | (a.v[2] ^ b.v[2]) | (a.v[3] ^ b.v[3]) | (a.v[4] ^ b.v[4]) | (a.v[5] ^ b.v[5]) | (a.v[6] ^ b.v[6]) | (a.v[7] ^ b.v[7])) == 0;
}

// from_number brings a number below the prime into Montgomery form, and to_number an element
// out of it.
Fp from_number(Fp a) { return mul(a, Fp_radix_squared); }
Fp to_number(Fp a) { return mul(a, Fp(uint[8](1u, 0u, 0u, 0u, 0u, 0u, 0u, 0u))); }

// power is a to the power of a number of 32 bits.
Fp power(Fp a, uint e) {
	Fp to = Fp_one;
	for (; e > 0; e >>= 1) {
		if ((e & 1) != 0)
			to = mul(to, a);
		a = mul(a, a);
	}
	return to;
}

// fp_powers multiplies to by a to the power of a word, and squares a 32 times.
void fp_powers(inout Fp to, inout Fp a, uint e) {
	for (uint i = 0; i < 32; i++) {
		if ((e >> i & 1) != 0)
			to = mul(to, a);
		a = mul(a, a);
	}
}

// inverse is 1 ÷ a, by Fermat: 0 for 0.
Fp inverse(Fp a) {
	const uint e[8] = uint[8](0xd87cfd45u, 0x3c208c16u, 0x6871ca8du, 0x97816a91u, 0x8181585du, 0xb85045b6u, 0xe131a029u, 0x30644e72u);
	Fp to = Fp_one;
	for (uint i = 0; i < 8; i++)
		fp_powers(to, a, e[i]);
	return to;
}
