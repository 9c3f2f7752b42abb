// Folds and copies of arrays, element by element, as package fold does them.
//: fold_sum_f32 -DFOLD -DSUM -DF32
//: fold_max_f32 -DFOLD -DMAX -DF32
//: fold_min_f32 -DFOLD -DMIN -DF32
//: fold_product_f32 -DFOLD -DPRODUCT -DF32
//: fold_sum_f64 -DFOLD -DSUM -DF64
//: fold_max_f64 -DFOLD -DMAX -DF64
//: fold_min_f64 -DFOLD -DMIN -DF64
//: fold_product_f64 -DFOLD -DPRODUCT -DF64
//: fold_sum_f16 -DFOLD -DSUM -DF16
//: fold_max_f16 -DFOLD -DMAX -DF16
//: fold_min_f16 -DFOLD -DMIN -DF16
//: fold_product_f16 -DFOLD -DPRODUCT -DF16
//: fold_sum_bf16 -DFOLD -DSUM -DBF16
//: fold_max_bf16 -DFOLD -DMAX -DBF16
//: fold_min_bf16 -DFOLD -DMIN -DBF16
//: fold_product_bf16 -DFOLD -DPRODUCT -DBF16
//: fold_sum_i32 -DFOLD -DSUM -DI32
//: fold_max_i32 -DFOLD -DMAX -DI32
//: fold_min_i32 -DFOLD -DMIN -DI32
//: fold_product_i32 -DFOLD -DPRODUCT -DI32
//: fold_sum_i64 -DFOLD -DSUM -DI64
//: fold_max_i64 -DFOLD -DMAX -DI64
//: fold_min_i64 -DFOLD -DMIN -DI64
//: fold_product_i64 -DFOLD -DPRODUCT -DI64
//: copy_2 -DCOPY=2
//: copy_4 -DCOPY=4
//: copy_8 -DCOPY=8
//: token -DTOKEN
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable
#extension GL_EXT_shader_16bit_storage : enable
layout(local_size_x = 64) in;
//params: collective.params
layout(push_constant) uniform Params {
	uint n; // elements
	uint ins; // arrays to read
	uint divisor; // of the result
	uint stream; // 1 to write past the caches, which is for CPUs
};

// KEPT is how an element lies in memory, VALUE what is read and written of it,
// NUMBER what is computed with.
#if defined(F32)
#define KEPT float
#define VALUE float
#define NUMBER precise float
#elif defined(F64)
#define KEPT double
#define VALUE double
#define NUMBER precise double
#elif defined(F16) || defined(BF16)
#define KEPT uint16_t
#define VALUE uint
#define NUMBER precise float
#elif defined(I32)
#define KEPT int
#define VALUE int
#define NUMBER int
#elif defined(I64)
#define KEPT int64_t
#define VALUE int64_t
#define NUMBER int64_t
#elif defined(TOKEN) || COPY == 4
#define KEPT uint
#elif COPY == 8
#define KEPT uvec2
#else
#define KEPT uint16_t
#endif

#ifdef FOLD
layout(std430, binding = 0) readonly buffer A { KEPT a[]; };
layout(std430, binding = 1) readonly buffer B { KEPT b[]; };
layout(std430, binding = 2) writeonly buffer Out { KEPT to[]; };

#if defined(F16)
float read(uint h) {
	uint sign = (h & 0x8000) << 16, rest = h & 0x7fff;
	if (rest >= 0x7c00) // infinity, or not a number
		return uintBitsToFloat(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	if (rest >= 0x400)
		return uintBitsToFloat(sign | (rest << 13) + (112 << 23));
	return uintBitsToFloat(sign | floatBitsToUint(float(rest) * 5.9604644775390625e-8));
}
uint write(float x) {
	uint bits = floatBitsToUint(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
	if (rest > 0x7f800000)
		return sign | 0x7e00;
	if (rest >= 0x477ff000) // 65520 and above round to infinity
		return sign | 0x7c00;
	if (rest < 0x38800000) { // in steps of 2^-24, to which adding 1/2 rounds
		precise float half_more = uintBitsToFloat(rest) + 0.5;
		return sign | floatBitsToUint(half_more) - 0x3f000000;
	}
	return sign | rest - (112 << 23) + 0xfff + (rest >> 13 & 1) >> 13;
}
#elif defined(BF16)
float read(uint h) { return uintBitsToFloat(h << 16); }
uint write(float x) {
	uint bits = floatBitsToUint(x);
	if ((bits & 0x7fffffff) > 0x7f800000)
		return bits >> 16 | 0x40;
	return bits + 0x7fff + (bits >> 16 & 1) >> 16;
}
#else
VALUE read(VALUE x) { return x; }
VALUE write(VALUE x) { return x; }
#endif

// What is not a number comes out once it has gone in; +0 is larger than -0.
bool none(float x) { return (floatBitsToUint(x) & 0x7fffffff) > 0x7f800000; }
float most(float x, float y) {
	return none(x) ? x : none(y) || y > x ? y : x > y ? x : uintBitsToFloat(floatBitsToUint(x) & floatBitsToUint(y));
}
float least(float x, float y) {
	return none(x) ? x : none(y) || y < x ? y : x < y ? x : uintBitsToFloat(floatBitsToUint(x) | floatBitsToUint(y));
}
#ifdef F64
bool none(double x) {
	uvec2 bits = unpackDouble2x32(x);
	uint top = bits.y & 0x7fffffff;
	return top > 0x7ff00000 || top == 0x7ff00000 && bits.x > 0;
}
double most(double x, double y) {
	return none(x) ? x : none(y) || y > x ? y : x > y ? x : packDouble2x32(unpackDouble2x32(x) & unpackDouble2x32(y));
}
double least(double x, double y) {
	return none(x) ? x : none(y) || y < x ? y : x < y ? x : packDouble2x32(unpackDouble2x32(x) | unpackDouble2x32(y));
}
double over(double x, uint by) { return x / double(by); }
#endif
int most(int x, int y) { return max(x, y); }
int least(int x, int y) { return min(x, y); }
int over(int x, uint by) { return x / int(by); }
#ifdef I64
int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }
int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
int64_t over(int64_t x, uint by) { return x / int64_t(by); }
#endif
// A device's own quotient may be off by a few of the last place; what it leaves
// over mends it. The products are exact: a divisor has 11 bits at most.
float over(float x, uint by) {
	precise float d = float(by), q = x / d;
	if ((floatBitsToUint(q) & 0x7f800000) == 0x7f800000)
		return q;
	precise float high = uintBitsToFloat(floatBitsToUint(q) & 0xfffff000), low = q - high;
	precise float rest = (x - high * d) - low * d, mended = q + rest / d;
	return rest == 0 ? q : mended;
}

VALUE element(VALUE p, VALUE q) {
	NUMBER x = read(p), y = read(q);
#if defined(SUM)
	x = x + y;
#elif defined(MAX)
	x = most(x, y);
#elif defined(MIN)
	x = least(x, y);
#else
	x = x * y;
#endif
	// What the sum rounds to is what is divided.
	VALUE kept = write(x);
	return divisor > 1 ? write(over(read(kept), divisor)) : kept;
}
#define DO(i) to[i] = KEPT(element(VALUE(a[i]), VALUE(b[i])))
#elif defined(TOKEN)
layout(std430, binding = 0) writeonly buffer Out { KEPT to[]; };
#define DO(i) to[i] = 0
#else
layout(std430, binding = 0) readonly buffer A { KEPT a[]; };
layout(std430, binding = 1) writeonly buffer Out { KEPT to[]; };
#define DO(i) to[i] = a[i]
#endif

// A group covers 1024 elements.
void main() {
	for (uint k = 0; k < 16; k++) {
		uint i = (gl_WorkGroupID.x * 16 + k) * 64 + gl_LocalInvocationID.x;
		if (i < n)
			DO(i);
	}
}
