// Fr, the field of scalars of BN254. Made by go run ./workload/zk/field: do not edit.
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

struct Fr {
	uint v[8];
};

const Fr Fr_zero = Fr(uint[8](0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u));
const Fr Fr_one = Fr(uint[8](0x4ffffffbu, 0xac96341cu, 0x9f60cd29u, 0x36fc7695u, 0x7879462eu, 0x666ea36fu, 0x9a07df2fu, 0x0e0a77c1u));
// Fr_radix_squared brings a number below the prime into Montgomery form, by a product.
const Fr Fr_radix_squared = Fr(uint[8](0xae216da7u, 0x1bb8e645u, 0xe35c59e3u, 0x53fe3ab1u, 0x53bb8085u, 0x8c49833du, 0x7f4e44a5u, 0x0216d0b1u));

// fr_reduce is a number below twice the prime, less the prime where that can be.
Fr fr_reduce(Fr t) {
	Fr d;
	uint borrow = 0;
	d.v[0] = bn254_sub(t.v[0], 0xf0000001u, borrow);
	d.v[1] = bn254_sub(t.v[1], 0x43e1f593u, borrow);
	d.v[2] = bn254_sub(t.v[2], 0x79b97091u, borrow);
	d.v[3] = bn254_sub(t.v[3], 0x2833e848u, borrow);
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
Fr add(Fr a, Fr b) {
	uint carry = 0;
	a.v[0] = bn254_add(a.v[0], b.v[0], carry);
	a.v[1] = bn254_add(a.v[1], b.v[1], carry);
	a.v[2] = bn254_add(a.v[2], b.v[2], carry);
	a.v[3] = bn254_add(a.v[3], b.v[3], carry);
	a.v[4] = bn254_add(a.v[4], b.v[4], carry);
	a.v[5] = bn254_add(a.v[5], b.v[5], carry);
	a.v[6] = bn254_add(a.v[6], b.v[6], carry);
	a.v[7] = bn254_add(a.v[7], b.v[7], carry);
	return fr_reduce(a);
}

// sub is the difference.
Fr sub(Fr a, Fr b) {
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
	a.v[0] = bn254_add(a.v[0], 0xf0000001u & mask, carry);
	a.v[1] = bn254_add(a.v[1], 0x43e1f593u & mask, carry);
	a.v[2] = bn254_add(a.v[2], 0x79b97091u & mask, carry);
	a.v[3] = bn254_add(a.v[3], 0x2833e848u & mask, carry);
	a.v[4] = bn254_add(a.v[4], 0x8181585du & mask, carry);
	a.v[5] = bn254_add(a.v[5], 0xb85045b6u & mask, carry);
	a.v[6] = bn254_add(a.v[6], 0xe131a029u & mask, carry);
	a.v[7] = bn254_add(a.v[7], 0x30644e72u & mask, carry);
	return a;
}

// mul is the product, in Montgomery form.
Fr mul(Fr a, Fr b) {
	Fr t = Fr_zero;
	for (uint i = 0; i < 8; i++) {
		uint x = 0, y = 0, s = bn254_mad(t.v[0], a.v[0], b.v[0], x), m = s * 0xefffffffu;
		bn254_mad(s, m, 0xf0000001u, y);
		s = bn254_mad(t.v[1], a.v[1], b.v[0], x);
		t.v[1 - 1] = bn254_mad(s, m, 0x43e1f593u, y);
		s = bn254_mad(t.v[2], a.v[2], b.v[0], x);
		t.v[2 - 1] = bn254_mad(s, m, 0x79b97091u, y);
		s = bn254_mad(t.v[3], a.v[3], b.v[0], x);
		t.v[3 - 1] = bn254_mad(s, m, 0x2833e848u, y);
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
	return fr_reduce(t);
}

Fr doubled(Fr a) { return add(a, a); }
Fr square(Fr a) { return mul(a, a); }
Fr neg(Fr a) { return sub(Fr_zero, a); }

bool is_zero(Fr a) {
	return (a.v[0] | a.v[1] | a.v[2] | a.v[3] | a.v[4] | a.v[5] | a.v[6] | a.v[7]) == 0;
}

bool equal(Fr a, Fr b) {
	return ((a.v[0] ^ b.v[0]) | (a.v[1] ^ b.v[1]) | (a.v[2] ^ b.v[2]) | (a.v[3] ^ b.v[3]) | (a.v[4] ^ b.v[4]) | (a.v[5] ^ b.v[5]) | (a.v[6] ^ b.v[6]) | (a.v[7] ^ b.v[7])) == 0;
}

// from_number brings a number below the prime into Montgomery form, and to_number an element
// out of it.
Fr from_number(Fr a) { return mul(a, Fr_radix_squared); }
Fr to_number(Fr a) { return mul(a, Fr(uint[8](1u, 0u, 0u, 0u, 0u, 0u, 0u, 0u))); }

// power is a to the power of a number of 32 bits.
Fr power(Fr a, uint e) {
	Fr to = Fr_one;
	for (; e > 0; e >>= 1) {
		if ((e & 1) != 0)
			to = mul(to, a);
		a = mul(a, a);
	}
	return to;
}

// fr_powers multiplies to by a to the power of a word, and squares a 32 times.
void fr_powers(inout Fr to, inout Fr a, uint e) {
	for (uint i = 0; i < 32; i++) {
		if ((e >> i & 1) != 0)
			to = mul(to, a);
		a = mul(a, a);
	}
}

// inverse is 1 ÷ a, by Fermat: 0 for 0.
Fr inverse(Fr a) {
	const uint e[8] = uint[8](0xefffffffu, 0x43e1f593u, 0x79b97091u, 0x2833e848u, 0x8181585du, 0xb85045b6u, 0xe131a029u, 0x30644e72u);
	Fr to = Fr_one;
	for (uint i = 0; i < 8; i++)
		fr_powers(to, a, e[i]);
	return to;
}
