// Folds and copies of arrays, element by element, as package fold does them.
#include "../workload/device.cuh"

typedef unsigned short u16;
typedef long long i64;

enum : u32 { Threads = 256, PerThread = 4 };

//params: params
struct Params {
	unsigned n; // elements
	unsigned ins; // arrays to read
	unsigned divisor; // of the result
	unsigned stream; // 1 to write past the caches, which is for CPUs
};

// A type is how elements are kept and what they are computed as.
template <class T> struct Plain {
	typedef T kept;
	typedef T number;
	INLINE T load(T x) { return x; }
	INLINE T store(T x) { return x; }
};
struct F16 {
	typedef u16 kept;
	typedef float number;
	INLINE float load(u16 x) {
		float out;
		asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x));
		return out;
	}
	INLINE u16 store(float x) {
		u16 out;
		asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(x));
		return out;
	}
};
struct BF16 {
	typedef u16 kept;
	typedef float number;
	INLINE float load(u16 x) { return number_of((u32)x << 16); }
	INLINE u16 store(float x) {
		u32 b = bits(x);
		if (x != x)
			return (u16)(b >> 16 | 0x40);
		return (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
	}
	INLINE float number_of(u32 b) { return ::number(b); }
};

// A NaN comes out once it has gone in, which the instructions for floats do not
// see to.
INLINE float most(float a, float b) { return a != a ? a : b != b ? b : larger(a, b); }
INLINE float least(float a, float b) { return a != a ? a : b != b ? b : smaller(a, b); }
INLINE double most(double a, double b) { return a != a ? a : b != b ? b : __nvvm_fmax_d(a, b); }
INLINE double least(double a, double b) { return a != a ? a : b != b ? b : __nvvm_fmin_d(a, b); }
INLINE int most(int a, int b) { return a > b ? a : b; }
INLINE int least(int a, int b) { return a < b ? a : b; }
INLINE i64 most(i64 a, i64 b) { return a > b ? a : b; }
INLINE i64 least(i64 a, i64 b) { return a < b ? a : b; }
INLINE float times(float a, float b) { return a * b; }
INLINE double times(double a, double b) { return a * b; }
INLINE float plus(float a, float b) { return a + b; }
INLINE double plus(double a, double b) { return a + b; }
// Integers wrap around, as those without a sign do.
INLINE int plus(int a, int b) { return (int)((u32)a + (u32)b); }
INLINE i64 plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
INLINE int times(int a, int b) { return (int)((u32)a * (u32)b); }
INLINE i64 times(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
INLINE float over(float a, u32 by) {
	float out;
	asm("div.rn.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"((float)by));
	return out;
}
INLINE double over(double a, u32 by) { return a / (double)by; }
INLINE int over(int a, u32 by) { return a / (int)by; }
INLINE i64 over(i64 a, u32 by) { return a / (i64)by; }

enum Op { Sum, Max, Min, Product };

template <class T, Op op> INLINE void fold(const typename T::kept *a, const typename T::kept *b, typename T::kept *out, Params p) {
	for (u32 k = 0; k < PerThread; k++) {
		u64 i = ((u64)BLOCK_X * PerThread + k) * Threads + THREAD;
		if (i >= p.n)
			return;
		typename T::number x = T::load(a[i]), y = T::load(b[i]);
		switch (op) {
		case Sum: x = plus(x, y); break;
		case Max: x = most(x, y); break;
		case Min: x = least(x, y); break;
		case Product: x = times(x, y); break;
		}
		// What the sum rounds to is what is divided.
		typename T::kept kept = T::store(x);
		out[i] = p.divisor > 1 ? T::store(over(T::load(kept), p.divisor)) : kept;
	}
}

#define FOLD(name, T, op)                                                                                  \
	KERNEL(256, 1) name(const typename T::kept *a, const typename T::kept *b, typename T::kept *out, Params p) { fold<T, op>(a, b, out, p); }
#define FOLDS(suffix, T)                  \
	FOLD(fold_sum_##suffix, T, Sum)       \
	FOLD(fold_average_##suffix, T, Sum)   \
	FOLD(fold_max_##suffix, T, Max)       \
	FOLD(fold_min_##suffix, T, Min)       \
	FOLD(fold_product_##suffix, T, Product)

typedef Plain<float> F32;
typedef Plain<double> F64;
typedef Plain<int> I32;
typedef Plain<i64> I64;

FOLDS(f32, F32)
FOLDS(f64, F64)
FOLDS(f16, F16)
FOLDS(bf16, BF16)
FOLDS(i32, I32)
FOLDS(i64, I64)

template <class T> INLINE void copy(const T *from, T *to, u32 n) {
	for (u32 k = 0; k < PerThread; k++) {
		u64 i = ((u64)BLOCK_X * PerThread + k) * Threads + THREAD;
		if (i < n)
			to[i] = from[i];
	}
}

KERNEL(256, 1) copy_2(const u16 *from, u16 *to, Params p) { copy(from, to, p.n); }
KERNEL(256, 1) copy_4(const u32 *from, u32 *to, Params p) { copy(from, to, p.n); }
KERNEL(256, 1) copy_8(const u64 *from, u64 *to, Params p) { copy(from, to, p.n); }

KERNEL(256, 1) token(u32 *out, Params p) {
	if (THREAD < p.n)
		out[THREAD] = 0;
}
