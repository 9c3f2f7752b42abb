// number is a constant with all its bits.
#define number(bits) uintBitsToFloat(bits)

// within keeps x within ±most, and what is not a number as it is, which min, max and
// clamp need not.
#define WITHIN(T, BOOL) T within(T x, T most) { \
	T low = mix(x, -most, BOOL(lessThan(x, -most))); \
	return mix(low, most, BOOL(greaterThan(low, most))); \
}
bool lessThan(float a, float b) { return a < b; }
bool greaterThan(float a, float b) { return a > b; }
WITHIN(float, bool)
WITHIN(vec4, bvec4)

// bent is tanh, as in Go: expm1(2x)/(expm1(2x)+2) by a polynomial. All there is for
// one number there is for four as well, with the same bits.
#define BENT(T) \
T bent(T x) { \
	const float shift = 12582912.0; /* 3 << 22 */ \
	precise T y = 2 * within(x, T(number(0x411051ec))); \
	precise T m = y * number(0x3fb8aa3b) + shift, n = m - shift; \
	precise T high = n * number(0x3f317000), low = n * number(0x3805fdf4); \
	precise T r = y - high - low; \
	precise T p = r * number(0x39500d01) + number(0x3ab60b61); \
	p = r * p + number(0x3c088889); \
	p = r * p + number(0x3d2aaaab); \
	p = r * p + number(0x3e2aaaab); \
	p = r * p + 0.5; \
	p = r * r * p + r; \
	precise T s = number((floatBitsToUint(m) << 23) + 0x3f800000); /* 2ⁿ */ \
	precise T e = s * p + (s - 1); \
	precise T t = e / (e + 2); \
	return t; \
}
BENT(float)
BENT(vec4)
