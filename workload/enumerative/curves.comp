// Numbers of rational plane curves modulo primes, as package enumerative has them: a prime to
// an invocation.
//: enumerative_curves
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Fields { uint fields[]; };
layout(std430, binding = 1) buffer Numbers { uint numbers[]; };
//params: curveParams
layout(push_constant) uniform Params {
	uint primes, degree;
	uint from, to; // degrees from one to before another
};

uint p, neg, one, square;

uint mul(uint a, uint b) {
	uint high, low, more, zero;
	umulExtended(a, b, high, low);
	umulExtended(low * neg, p, more, zero);
	uint u = high + more + (low != 0 ? 1 : 0); // the lower words add up to 0 or 2^32
	return u >= p ? u - p : u;
}
uint add(uint a, uint b) { return a + b >= p ? a + b - p : a + b; }
uint sub(uint a, uint b) { return a < b ? a + p - b : a - b; }
uint small(uint i) { return mul(i, square); }
uint inverse_of(uint a) {
	uint power = one;
	for (uint e = p - 2; e > 0; e >>= 1) {
		if ((e & 1) != 0)
			power = mul(power, a);
		a = mul(a, a);
	}
	return power;
}

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= primes)
		return;
	p = fields[4 * i];
	neg = fields[4 * i + 1];
	one = fields[4 * i + 2];
	square = fields[4 * i + 3];
	uint n = degree + 1, number = 5 * n * i, cubes = number + n, ones = cubes + n, squares = ones + n, twos = squares + n;
	for (uint d = from; d < to; d++) {
		uint at;
		if (d > 1) {
			uint twice = 0, once = 0;
			for (uint a = 1; a < d; a++) {
				twice = add(twice, mul(numbers[cubes + a], numbers[ones + d - a]));
				once = add(once, mul(numbers[squares + a], numbers[twos + d - a]));
			}
			uint below = mul(mul(small(3 * d - 1), small(3 * d - 2)), small(3 * d - 3));
			at = mul(sub(add(twice, twice), once), inverse_of(below));
		} else {
			at = inverse_of(small(2));
			for (uint row = 0; row < 5; row++)
				numbers[number + row * n] = 0;
		}
		uint by = small(d), product = mul(at, by), both = mul(product, small(3 * d - 1));
		numbers[number + d] = at;
		numbers[squares + d] = mul(product, by);
		numbers[cubes + d] = mul(mul(product, by), by);
		numbers[ones + d] = both;
		numbers[twos + d] = mul(both, by);
	}
}
