// Operations of programs and functions of float64, for CUDA C and GLSL alike. Before it there
// are, for the language:
//
//	FN, CALL     what a function begins with, CALL a large one
//	NUM          a float64 in arithmetic that is rounded as it is written
//	N(high, low) the number of two words, which constants are written as
//	HIGH(x), LOW(x)
//	NONE(x)      whether x is not a number
//	ROOT(x)      its root
//	MUL(a, b)    the upper word of a product, and a * b the lower
//	TABLE        what a constant table is declared with
//
// Functions follow fdlibm (Sun Microsystems, 1993): within 1 ulp are exp, log and atan, within 2
// sin and cos, within 4 those that are made of others. GPUs have them inline, so that those with
// much in common are one.

#define OP_NUMBER 0u
#define OP_VARIABLE 1u
#define OP_ADD 2u
#define OP_SUB 3u
#define OP_MUL 4u
#define OP_DIV 5u
#define OP_NEG 6u
#define OP_ABS 7u
#define OP_SIGN 8u
#define OP_SQRT 9u
#define OP_EXP 10u
#define OP_LOG 11u
#define OP_SIN 12u
#define OP_COS 13u
#define OP_TAN 14u
#define OP_ASIN 15u
#define OP_ACOS 16u
#define OP_ATAN 17u
#define OP_SINH 18u
#define OP_COSH 19u
#define OP_TANH 20u
#define OP_ADD_NUMBER 21u
#define OP_SUB_NUMBER 22u
#define OP_MUL_NUMBER 23u
#define OP_DIV_NUMBER 24u
#define OP_MUL_ADD 25u
#define OP_MUL_ADD_NUMBER 26u
#define OP_VALUE 27u
#define OP_DERIVATIVE 28u

#define ZERO N(0u, 0u)
#define HALF N(0x3fe00000u, 0x00000000u)
#define ONE N(0x3ff00000u, 0x00000000u)
#define TWO N(0x40000000u, 0x00000000u)
#define INFINITE N(0x7ff00000u, 0x00000000u)
#define NOTHING N(0x7ff80000u, 0x00000000u)

FN double ad_abs(double x) { return N(HIGH(x) & 0x7fffffffu, LOW(x)); }

FN double ad_sign(double x) { return x > ZERO ? ONE : x < ZERO ? -ONE : x; }

// ad_two is 2 to the power of k, from -1022 to 1023.
FN double ad_two(int k) { return N(uint(1023 + k) << 20, 0u); }

CALL double ad_exp(double x) {
	if (NONE(x))
		return x;
	if (x > N(0x40862e42u, 0xfefa39efu))
		return INFINITE;
	if (x < N(0xc0874910u, 0xd52d3051u))
		return ZERO;
	NUM n = x * N(0x3ff71547u, 0x652b82feu); // 1 / log 2
	int k = int(x < ZERO ? n - HALF : n + HALF);
	NUM hi = x - double(k) * N(0x3fe62e42u, 0xfee00000u), lo = double(k) * N(0x3dea39efu, 0x35793c76u);
	NUM r = hi - lo, t = r * r;
	NUM c = r - t * (N(0x3fc55555u, 0x5555553eu) + t * (N(0xbf66c16cu, 0x16bebd93u) + t * (N(0x3f11566au, 0xaf25de2cu) + t * (N(0xbebbbd41u, 0xc5d26bf1u) + t * N(0x3e663769u, 0x72bea4d0u)))));
	NUM y = ONE - (lo - r * c / (TWO - c) - hi);
	if (k > 1023)
		y *= TWO, k--;
	if (k >= -1021)
		return y * ad_two(k);
	return y * ad_two(k + 1000) * ad_two(-1000);
}

CALL double ad_log(double x) {
	if (NONE(x) || x == INFINITE)
		return x;
	if (x < ZERO)
		return NOTHING;
	if (x == ZERO)
		return -INFINITE;
	int k = 0;
	if (HIGH(x) < 0x00100000u) {
		x *= ad_two(54);
		k = -54;
	}
	uint h = HIGH(x), low = LOW(x);
	k += int(h >> 20) - 1023;
	h &= 0x000fffffu;
	uint i = (h + 0x95f64u) & 0x100000u;
	NUM f = N(h | (i ^ 0x3ff00000u), low) - ONE;
	k += int(i >> 20);
	NUM s = f / (TWO + f), z = s * s, w = z * z;
	NUM t1 = w * (N(0x3fd99999u, 0x9997fa04u) + w * (N(0x3fcc71c5u, 0x1d8e78afu) + w * N(0x3fc39a09u, 0xd078c69fu)));
	NUM t2 = z * (N(0x3fe55555u, 0x55555593u) + w * (N(0x3fd24924u, 0x94229359u) + w * (N(0x3fc74664u, 0x96cb03deu) + w * N(0x3fc2f112u, 0xdf3e5244u))));
	NUM half2 = HALF * f * f, n = double(k);
	NUM result = s * (half2 + (t2 + t1)) + n * N(0x3dea39efu, 0x35793c76u) - half2 + f + n * N(0x3fe62e42u, 0xfee00000u);
	return result;
}

// ad_circle is 2/π, 32 bits after the other.
TABLE uint ad_circle[44] = TABLE_OF(uint)(
	0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
	0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u,
	0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu,
	0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu,
	0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u, 0x9af4361du,
	0xa9e39161u, 0x5ee61b08u, 0x6599855fu, 0x14a06840u);

struct Angle {
	double y, rest;
	int quarter;
};

// ad_far takes quarters of a turn from x, which is not negative and 2^20 or more, with as many digits of
// 2/π as that needs (Payne and Hanek).
CALL Angle ad_far(double x) {
	int e = int(HIGH(x) >> 20) - 1075;
	uint m1 = (HIGH(x) & 0x000fffffu) | 0x00100000u, m0 = LOW(x);
	int first = e >= 2 ? (e - 2) >> 5 : 0;
	uint p[9]; // the lowest word first
	for (int i = 0; i < 9; i++)
		p[i] = 0u;
	for (int i = 0; i < 7; i++) {
		uint t = ad_circle[first + 6 - i];
		uint low = t * m0, sum = p[i] + low, carry = MUL(t, m0) + (sum < low ? 1u : 0u);
		p[i] = sum;
		low = t * m1;
		uint high = MUL(t, m1);
		sum = p[i + 1] + carry;
		high += sum < carry ? 1u : 0u;
		p[i + 1] = sum + low;
		high += p[i + 1] < low ? 1u : 0u;
		p[i + 2] += high;
	}
	int point = 32 * (first + 7) - e; // bits behind the point
	int w = point >> 5, b = point & 31;
	uint whole = w < 9 ? p[w] >> b : 0u;
	if (b == 31 && w + 1 < 9)
		whole |= p[w + 1] << 1;
	// What is behind the point is more than a half where its highest bit is set.
	uint top = b > 0 ? (p[w] >> (b - 1)) & 1u : p[w - 1] >> 31;
	NUM s = ZERO, c = ZERO;
	bool negative = top == 1u;
	if (w < 9)
		p[w] &= (1u << b) - 1u;
	uint carry = negative ? 1u : 0u;
	if (negative)
		for (int i = 0; i <= w && i < 9; i++) { // 1 less it
			p[i] = ~p[i] + carry;
			carry = carry == 1u && p[i] == 0u ? 1u : 0u;
			if (i == w)
				p[i] &= (1u << b) - 1u;
		}
	for (int i = min_int(w, 8); i >= 0; i--) {
		NUM t = double(p[i]) * ad_two(32 * i - point), sum = s + t;
		c += t - (sum - s);
		s = sum;
	}
	Angle a;
	NUM y = s * N(0x3ff921fbu, 0x54442d18u), rest = c * N(0x3ff921fbu, 0x54442d18u) + s * N(0x3c91a626u, 0x33145c07u);
	a.y = negative ? -y : y;
	a.rest = negative ? -rest : rest;
	a.quarter = int(whole & 3u) + (negative ? 1 : 0);
	return a;
}

// ad_angle takes quarters of a turn from x, so that at most half of one is left.
FN Angle ad_angle(double x) {
	double size = ad_abs(x);
	Angle a;
	if (size >= N(0x41300000u, 0x00000000u)) {
		a = ad_far(size);
		if (x < ZERO) {
			a.y = -a.y;
			a.rest = -a.rest;
			a.quarter = -a.quarter;
		}
		return a;
	}
	NUM q = x * N(0x3fe45f30u, 0x6dc9c883u);
	int n = int(q < ZERO ? q - HALF : q + HALF);
	double f = double(n);
	NUM r = x - f * N(0x3ff921fbu, 0x54400000u), w = f * N(0x3dd0b461u, 0x1a626331u), y = r - w;
	int e = int(HIGH(x) >> 20 & 0x7ffu);
	if (e - int(HIGH(y) >> 20 & 0x7ffu) > 16) {
		NUM t = r, v = f * N(0x3dd0b461u, 0x1a600000u);
		r = t - v;
		w = f * N(0x3ba3198au, 0x2e037073u) - (t - r - v);
		y = r - w;
		if (e - int(HIGH(y) >> 20 & 0x7ffu) > 49) {
			t = r;
			v = f * N(0x3ba3198au, 0x2e000000u);
			r = t - v;
			w = f * N(0x397b839au, 0x252049c1u) - (t - r - v);
			y = r - w;
		}
	}
	NUM rest = r - y - w;
	a.y = y;
	a.rest = rest;
	a.quarter = n;
	return a;
}

// ad_circular is sin, cos or tan.
CALL double ad_circular(uint op, double x) {
	if (NONE(x) || ad_abs(x) == INFINITE)
		return NOTHING;
	Angle a = ad_angle(x);
	NUM y = a.y, z = y * y, w = z * z;
	NUM r = N(0x3f811111u, 0x1110f8a6u) + z * (N(0xbf2a01a0u, 0x19c161d5u) + z * N(0x3ec71de3u, 0x57b1fe7du)) + z * w * (N(0xbe5ae5e6u, 0x8a2b9cebu) + z * N(0x3de5d93au, 0x5acfd57cu));
	NUM v = z * y, sine = y - (z * (HALF * a.rest - v * r) - a.rest - v * N(0xbfc55555u, 0x55555549u));
	if (y == ZERO)
		sine = y;
	r = z * (N(0x3fa55555u, 0x5555554cu) + z * (N(0xbf56c16cu, 0x16c15177u) + z * N(0x3efa01a0u, 0x19cb1590u))) + w * w * (N(0xbe927e4fu, 0x809c52adu) + z * (N(0x3e21ee9eu, 0xbdb4b1c4u) + z * N(0xbda8fae9u, 0xbe8838d4u)));
	NUM half2 = HALF * z;
	v = ONE - half2;
	NUM cosine = v + (ONE - v - half2 + (z * r - y * a.rest));
	if ((a.quarter & 1) != 0) {
		NUM was = sine;
		sine = cosine;
		cosine = -was;
	}
	if ((a.quarter & 2) != 0) {
		sine = -sine;
		cosine = -cosine;
	}
	NUM ratio = sine / cosine;
	return op == OP_SIN ? sine : op == OP_COS ? cosine : ratio;
}

// ad_arc is asin, acos or atan.
CALL double ad_arc(uint op, double x) {
	if (op != OP_ATAN) {
		NUM ratio = op == OP_ASIN ? x / ROOT((ONE - x) * (ONE + x)) : ROOT((ONE - x) / (ONE + x));
		x = ratio;
	}
	double size = ad_abs(x);
	if (NONE(x))
		return x;
	double right = N(0x3ff921fbu, 0x54442d18u);
	if (size >= ad_two(66))
		return op == OP_ACOS ? TWO * right : x < ZERO ? -right : right;
	NUM high = ZERO, low = ZERO, t = size;
	if (size >= N(0x40038000u, 0x00000000u)) {
		high = right, low = N(0x3c91a626u, 0x33145c07u);
		t = -ONE / size;
	} else if (size >= N(0x3ff30000u, 0x00000000u)) {
		high = N(0x3fef730bu, 0xd281f69bu), low = N(0x3c700788u, 0x7af0cbbdu);
		t = (size - N(0x3ff80000u, 0x00000000u)) / (ONE + N(0x3ff80000u, 0x00000000u) * size);
	} else if (size >= N(0x3fe60000u, 0x00000000u)) {
		high = N(0x3fe921fbu, 0x54442d18u), low = N(0x3c81a626u, 0x33145c07u);
		t = (size - ONE) / (size + ONE);
	} else if (size >= N(0x3fdc0000u, 0x00000000u)) {
		high = N(0x3fddac67u, 0x0561bb4fu), low = N(0x3c7a2b7fu, 0x222f65e2u);
		t = (TWO * size - ONE) / (TWO + size);
	}
	NUM z = t * t, w = z * z;
	NUM s1 = z * (N(0x3fd55555u, 0x5555550du) + w * (N(0x3fc24924u, 0x920083ffu) + w * (N(0x3fb745cdu, 0xc54c206eu) + w * (N(0x3fb10d66u, 0xa0d03d51u) + w * (N(0x3fa97b4bu, 0x24760debu) + w * N(0x3f90ad3au, 0xe322da11u))))));
	NUM s2 = w * (N(0xbfc99999u, 0x9998ebc4u) + w * (N(0xbfbc71c6u, 0xfe231671u) + w * (N(0xbfb3b0f2u, 0xaf749a6du) + w * (N(0xbfadde2du, 0x52defd9au) + w * N(0xbfa2b444u, 0x2c6a6c2fu)))));
	NUM result = high - (t * (s1 + s2) - low - t);
	if (high == ZERO)
		result = t - t * (s1 + s2);
	if (op == OP_ACOS)
		result = TWO * result;
	return x < ZERO ? -result : size == ZERO ? x : result;
}

// ad_hyperbolic is sinh, cosh or tanh.
CALL double ad_hyperbolic(uint op, double x) {
	double size = ad_abs(x);
	bool large = size > N(0x4085e000u, 0x00000000u);
	if (op == OP_TANH && size > N(0x40360000u, 0x00000000u))
		return x < ZERO ? -ONE : ONE;
	NUM e = ad_exp(large ? HALF * size : size);
	NUM cosine = large ? HALF * e * e : HALF * (e + ONE / e), sine = cosine;
	if (size < ONE) {
		NUM z = size * size;
		sine = size + size * z * (N(0x3fc55555u, 0x55555555u) + z * (N(0x3f811111u, 0x11111111u) + z * (N(0x3f2a01a0u, 0x1a01a01au) + z * (N(0x3ec71de3u, 0xa556c734u) + z * (N(0x3e5ae645u, 0x67f544e4u) + z * (N(0x3de61246u, 0x13a86d09u) + z * (N(0x3d6ae7f3u, 0xe733b81fu) + z * (N(0x3ce952c7u, 0x7030ad4au) + z * (N(0x3c62f49bu, 0x46814157u) + z * (N(0x3bd71b8eu, 0xf6dcf572u)))))))))));
	} else if (!large) {
		sine = HALF * (e - ONE / e);
	}
	if (x < ZERO)
		sine = -sine;
	NUM ratio = sine / cosine;
	return op == OP_SINH ? sine : op == OP_COSH ? cosine : ratio;
}
