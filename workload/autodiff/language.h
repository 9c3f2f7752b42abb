// What functions.h is written in, for GLSL and for CUDA C.
#ifdef GLSL
#define FN
#define CALL
#define NUM precise double
#define N(high, low) packDouble2x32(uvec2(low, high))
#define HIGH(x) unpackDouble2x32(x).y
#define LOW(x) unpackDouble2x32(x).x
#define NONE(x) isnan(x)
#define ROOT(x) sqrt(x)
#define TABLE const
#define TABLE_OF(type) type[]
#define min_int(a, b) min(a, b)
uint ad_upper(uint a, uint b) {
	uint high, low;
	umulExtended(a, b, high, low);
	return high;
}
#define MUL(a, b) ad_upper(a, b)
#else
#define FN static inline __attribute__((device))
#define CALL static __attribute__((device, noinline))
#define NUM double
typedef unsigned int uint;
FN double ad_join(uint high, uint low) {
	union {
		unsigned long long bits;
		double number;
	} u;
	u.bits = (unsigned long long)high << 32 | low;
	return u.number;
}
FN uint ad_word(double x, int shift) {
	union {
		unsigned long long bits;
		double number;
	} u;
	u.number = x;
	return (uint)(u.bits >> shift);
}
#define N(high, low) ad_join(high, low)
#define HIGH(x) ad_word(x, 32)
#define LOW(x) ad_word(x, 0)
#define NONE(x) ((x) != (x))
#define TABLE static __attribute__((constant)) const
#define TABLE_OF(type) TABLE_LIST
#define TABLE_LIST(...) {__VA_ARGS__}
#define min_int(a, b) ((a) < (b) ? (a) : (b))
#define MUL(a, b) ((uint)((unsigned long long)(a) * (b) >> 32))
#endif
