// What functions.h is written in: GLSL, CUDA C for clang, or CUDA C for NVRTC, where numbers are
// of a type of their own (RTC, see generate.go).
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
#define FN static inline __device__
#define CALL static __device__ __attribute__((noinline))
typedef unsigned int uint;
#ifdef RTC
#define double num
#else
typedef double real;
#endif
#define NUM double
union ad_words {
	unsigned long long bits;
	real number;
};
FN double ad_join(uint high, uint low) {
	ad_words u;
	u.bits = (unsigned long long)high << 32 | low;
	return u.number;
}
FN uint ad_word(double x, int shift) {
	ad_words u;
#ifdef RTC
	u.number = x.v;
#else
	u.number = x;
#endif
	return (uint)(u.bits >> shift);
}
#define N(high, low) ad_join(high, low)
#define HIGH(x) ad_word(x, 32)
#define LOW(x) ad_word(x, 0)
#define NONE(x) ((x) != (x))
#define TABLE static __constant__ const
#define TABLE_OF(type) TABLE_LIST
#define TABLE_LIST(...) {__VA_ARGS__}
#define min_int(a, b) ((a) < (b) ? (a) : (b))
#define MUL(a, b) ((uint)((unsigned long long)(a) * (b) >> 32))
#endif
