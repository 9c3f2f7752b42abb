// Fp, the field of coordinates of BN254. Made by go run ./workload/zk/field: do not edit.
//
// Elements are in Montgomery form and below the prime. This is CUDA C, and C++ for the host
// where the compiler is none for CUDA.
#pragma once
#ifdef __CUDA__
#include "../../device.cuh"
#elif !defined(INLINE)
#define INLINE static inline
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

struct alignas(16) Fp {
	u32 v[8];

	INLINE Fp zero() { return { {0, 0, 0, 0, 0, 0, 0, 0} }; }
	INLINE Fp one() { return { {0xc58f0d9du, 0xd35d438du, 0xf5c70b3du, 0x0a78eb28u, 0x7879462cu, 0x666ea36fu, 0x9a07df2fu, 0x0e0a77c1u} }; }
	// radix_squared brings a number below the prime into Montgomery form, by a product.
	INLINE Fp radix_squared() { return { {0x538afa89u, 0xf32cfc5bu, 0xd44501fbu, 0xb5e71911u, 0x0a417ff6u, 0x47ab1effu, 0xcab8351fu, 0x06d89f71u} }; }
};

#ifdef __CUDA__
#define fp_asm(text, out, a, b) asm(text \
	: "=&r"(out.v[0]), "=&r"(out.v[1]), "=&r"(out.v[2]), "=&r"(out.v[3]), "=&r"(out.v[4]), "=&r"(out.v[5]), "=&r"(out.v[6]), "=&r"(out.v[7]) \
	: "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(a.v[4]), "r"(a.v[5]), "r"(a.v[6]), "r"(a.v[7]), \
	"r"(b.v[0]), "r"(b.v[1]), "r"(b.v[2]), "r"(b.v[3]), "r"(b.v[4]), "r"(b.v[5]), "r"(b.v[6]), "r"(b.v[7]))

// add is the sum.
INLINE Fp add(Fp a, Fp b) {
	Fp out;
	fp_asm(
		"{\n\t.reg .u32 e<8>, o<8>, m;\n\t.reg .pred below;\n\t"
		"add.cc.u32 e0, %8, %16;\n\t"
		"addc.cc.u32 e1, %9, %17;\n\t"
		"addc.cc.u32 e2, %10, %18;\n\t"
		"addc.cc.u32 e3, %11, %19;\n\t"
		"addc.cc.u32 e4, %12, %20;\n\t"
		"addc.cc.u32 e5, %13, %21;\n\t"
		"addc.cc.u32 e6, %14, %22;\n\t"
		"addc.u32 e7, %15, %23;\n\t"
		"sub.cc.u32 %0, e0, 0xd87cfd47;\n\t"
		"subc.cc.u32 %1, e1, 0x3c208c16;\n\t"
		"subc.cc.u32 %2, e2, 0x6871ca8d;\n\t"
		"subc.cc.u32 %3, e3, 0x97816a91;\n\t"
		"subc.cc.u32 %4, e4, 0x8181585d;\n\t"
		"subc.cc.u32 %5, e5, 0xb85045b6;\n\t"
		"subc.cc.u32 %6, e6, 0xe131a029;\n\t"
		"subc.cc.u32 %7, e7, 0x30644e72;\n\t"
		"subc.u32 m, 0, 0;\n\t"
		"setp.ne.u32 below, m, 0;\n\t"
		"selp.b32 %0, e0, %0, below;\n\t"
		"selp.b32 %1, e1, %1, below;\n\t"
		"selp.b32 %2, e2, %2, below;\n\t"
		"selp.b32 %3, e3, %3, below;\n\t"
		"selp.b32 %4, e4, %4, below;\n\t"
		"selp.b32 %5, e5, %5, below;\n\t"
		"selp.b32 %6, e6, %6, below;\n\t"
		"selp.b32 %7, e7, %7, below;\n\t"
		"}",
		out, a, b);
	return out;
}

// sub is the difference.
INLINE Fp sub(Fp a, Fp b) {
	Fp out;
	fp_asm(
		"{\n\t.reg .u32 e<8>, o<8>, m;\n\t.reg .pred below;\n\t"
		"sub.cc.u32 e0, %8, %16;\n\t"
		"subc.cc.u32 e1, %9, %17;\n\t"
		"subc.cc.u32 e2, %10, %18;\n\t"
		"subc.cc.u32 e3, %11, %19;\n\t"
		"subc.cc.u32 e4, %12, %20;\n\t"
		"subc.cc.u32 e5, %13, %21;\n\t"
		"subc.cc.u32 e6, %14, %22;\n\t"
		"subc.cc.u32 e7, %15, %23;\n\t"
		"subc.u32 m, 0, 0;\n\t"
		"and.b32 o0, m, 0xd87cfd47;\n\t"
		"and.b32 o1, m, 0x3c208c16;\n\t"
		"and.b32 o2, m, 0x6871ca8d;\n\t"
		"and.b32 o3, m, 0x97816a91;\n\t"
		"and.b32 o4, m, 0x8181585d;\n\t"
		"and.b32 o5, m, 0xb85045b6;\n\t"
		"and.b32 o6, m, 0xe131a029;\n\t"
		"and.b32 o7, m, 0x30644e72;\n\t"
		"add.cc.u32 %0, e0, o0;\n\t"
		"addc.cc.u32 %1, e1, o1;\n\t"
		"addc.cc.u32 %2, e2, o2;\n\t"
		"addc.cc.u32 %3, e3, o3;\n\t"
		"addc.cc.u32 %4, e4, o4;\n\t"
		"addc.cc.u32 %5, e5, o5;\n\t"
		"addc.cc.u32 %6, e6, o6;\n\t"
		"addc.u32 %7, e7, o7;\n\t"
		"}",
		out, a, b);
	return out;
}

// mul is the product, in Montgomery form.
INLINE Fp mul(Fp a, Fp b) {
	Fp out;
	fp_asm(
		"{\n\t.reg .u32 e<8>, o<8>, m;\n\t.reg .pred below;\n\t"
		"mul.lo.u32 e0, %8, %16;\n\t"
		"mul.hi.u32 e1, %8, %16;\n\t"
		"mul.lo.u32 o0, %9, %16;\n\t"
		"mul.hi.u32 o1, %9, %16;\n\t"
		"mul.lo.u32 e2, %10, %16;\n\t"
		"mul.hi.u32 e3, %10, %16;\n\t"
		"mul.lo.u32 o2, %11, %16;\n\t"
		"mul.hi.u32 o3, %11, %16;\n\t"
		"mul.lo.u32 e4, %12, %16;\n\t"
		"mul.hi.u32 e5, %12, %16;\n\t"
		"mul.lo.u32 o4, %13, %16;\n\t"
		"mul.hi.u32 o5, %13, %16;\n\t"
		"mul.lo.u32 e6, %14, %16;\n\t"
		"mul.hi.u32 e7, %14, %16;\n\t"
		"mul.lo.u32 o6, %15, %16;\n\t"
		"mul.hi.u32 o7, %15, %16;\n\t"
		"mul.lo.u32 m, e0, 0xe4866389;\n\t"
		"mad.lo.cc.u32 o0, 0x3c208c16, m, o0;\n\t"
		"madc.hi.cc.u32 o1, 0x3c208c16, m, o1;\n\t"
		"madc.lo.cc.u32 o2, 0x97816a91, m, o2;\n\t"
		"madc.hi.cc.u32 o3, 0x97816a91, m, o3;\n\t"
		"madc.lo.cc.u32 o4, 0xb85045b6, m, o4;\n\t"
		"madc.hi.cc.u32 o5, 0xb85045b6, m, o5;\n\t"
		"madc.lo.cc.u32 o6, 0x30644e72, m, o6;\n\t"
		"madc.hi.cc.u32 o7, 0x30644e72, m, o7;\n\t"
		"mad.lo.cc.u32 e0, 0xd87cfd47, m, e0;\n\t"
		"madc.hi.cc.u32 e1, 0xd87cfd47, m, e1;\n\t"
		"madc.lo.cc.u32 e2, 0x6871ca8d, m, e2;\n\t"
		"madc.hi.cc.u32 e3, 0x6871ca8d, m, e3;\n\t"
		"madc.lo.cc.u32 e4, 0x8181585d, m, e4;\n\t"
		"madc.hi.cc.u32 e5, 0x8181585d, m, e5;\n\t"
		"madc.lo.cc.u32 e6, 0xe131a029, m, e6;\n\t"
		"madc.hi.cc.u32 e7, 0xe131a029, m, e7;\n\t"
		"addc.u32 o7, o7, 0;\n\t"
		"add.cc.u32 o0, o0, e1;\n\t"
		"madc.lo.cc.u32 e0, %9, %17, e2;\n\t"
		"madc.hi.cc.u32 e1, %9, %17, e3;\n\t"
		"madc.lo.cc.u32 e2, %11, %17, e4;\n\t"
		"madc.hi.cc.u32 e3, %11, %17, e5;\n\t"
		"madc.lo.cc.u32 e4, %13, %17, e6;\n\t"
		"madc.hi.cc.u32 e5, %13, %17, e7;\n\t"
		"madc.lo.cc.u32 e6, %15, %17, 0;\n\t"
		"madc.hi.u32 e7, %15, %17, 0;\n\t"
		"mad.lo.cc.u32 o0, %8, %17, o0;\n\t"
		"madc.hi.cc.u32 o1, %8, %17, o1;\n\t"
		"madc.lo.cc.u32 o2, %10, %17, o2;\n\t"
		"madc.hi.cc.u32 o3, %10, %17, o3;\n\t"
		"madc.lo.cc.u32 o4, %12, %17, o4;\n\t"
		"madc.hi.cc.u32 o5, %12, %17, o5;\n\t"
		"madc.lo.cc.u32 o6, %14, %17, o6;\n\t"
		"madc.hi.cc.u32 o7, %14, %17, o7;\n\t"
		"addc.u32 e7, e7, 0;\n\t"
		"mul.lo.u32 m, o0, 0xe4866389;\n\t"
		"mad.lo.cc.u32 e0, 0x3c208c16, m, e0;\n\t"
		"madc.hi.cc.u32 e1, 0x3c208c16, m, e1;\n\t"
		"madc.lo.cc.u32 e2, 0x97816a91, m, e2;\n\t"
		"madc.hi.cc.u32 e3, 0x97816a91, m, e3;\n\t"
		"madc.lo.cc.u32 e4, 0xb85045b6, m, e4;\n\t"
		"madc.hi.cc.u32 e5, 0xb85045b6, m, e5;\n\t"
		"madc.lo.cc.u32 e6, 0x30644e72, m, e6;\n\t"
		"madc.hi.cc.u32 e7, 0x30644e72, m, e7;\n\t"
		"mad.lo.cc.u32 o0, 0xd87cfd47, m, o0;\n\t"
		"madc.hi.cc.u32 o1, 0xd87cfd47, m, o1;\n\t"
		"madc.lo.cc.u32 o2, 0x6871ca8d, m, o2;\n\t"
		"madc.hi.cc.u32 o3, 0x6871ca8d, m, o3;\n\t"
		"madc.lo.cc.u32 o4, 0x8181585d, m, o4;\n\t"
		"madc.hi.cc.u32 o5, 0x8181585d, m, o5;\n\t"
		"madc.lo.cc.u32 o6, 0xe131a029, m, o6;\n\t"
		"madc.hi.cc.u32 o7, 0xe131a029, m, o7;\n\t"
		"addc.u32 e7, e7, 0;\n\t"
		"add.cc.u32 e0, e0, o1;\n\t"
		"madc.lo.cc.u32 o0, %9, %18, o2;\n\t"
		"madc.hi.cc.u32 o1, %9, %18, o3;\n\t"
		"madc.lo.cc.u32 o2, %11, %18, o4;\n\t"
		"madc.hi.cc.u32 o3, %11, %18, o5;\n\t"
		"madc.lo.cc.u32 o4, %13, %18, o6;\n\t"
		"madc.hi.cc.u32 o5, %13, %18, o7;\n\t"
		"madc.lo.cc.u32 o6, %15, %18, 0;\n\t"
		"madc.hi.u32 o7, %15, %18, 0;\n\t"
		"mad.lo.cc.u32 e0, %8, %18, e0;\n\t"
		"madc.hi.cc.u32 e1, %8, %18, e1;\n\t"
		"madc.lo.cc.u32 e2, %10, %18, e2;\n\t"
		"madc.hi.cc.u32 e3, %10, %18, e3;\n\t"
		"madc.lo.cc.u32 e4, %12, %18, e4;\n\t"
		"madc.hi.cc.u32 e5, %12, %18, e5;\n\t"
		"madc.lo.cc.u32 e6, %14, %18, e6;\n\t"
		"madc.hi.cc.u32 e7, %14, %18, e7;\n\t"
		"addc.u32 o7, o7, 0;\n\t"
		"mul.lo.u32 m, e0, 0xe4866389;\n\t"
		"mad.lo.cc.u32 o0, 0x3c208c16, m, o0;\n\t"
		"madc.hi.cc.u32 o1, 0x3c208c16, m, o1;\n\t"
		"madc.lo.cc.u32 o2, 0x97816a91, m, o2;\n\t"
		"madc.hi.cc.u32 o3, 0x97816a91, m, o3;\n\t"
		"madc.lo.cc.u32 o4, 0xb85045b6, m, o4;\n\t"
		"madc.hi.cc.u32 o5, 0xb85045b6, m, o5;\n\t"
		"madc.lo.cc.u32 o6, 0x30644e72, m, o6;\n\t"
		"madc.hi.cc.u32 o7, 0x30644e72, m, o7;\n\t"
		"mad.lo.cc.u32 e0, 0xd87cfd47, m, e0;\n\t"
		"madc.hi.cc.u32 e1, 0xd87cfd47, m, e1;\n\t"
		"madc.lo.cc.u32 e2, 0x6871ca8d, m, e2;\n\t"
		"madc.hi.cc.u32 e3, 0x6871ca8d, m, e3;\n\t"
		"madc.lo.cc.u32 e4, 0x8181585d, m, e4;\n\t"
		"madc.hi.cc.u32 e5, 0x8181585d, m, e5;\n\t"
		"madc.lo.cc.u32 e6, 0xe131a029, m, e6;\n\t"
		"madc.hi.cc.u32 e7, 0xe131a029, m, e7;\n\t"
		"addc.u32 o7, o7, 0;\n\t"
		"add.cc.u32 o0, o0, e1;\n\t"
		"madc.lo.cc.u32 e0, %9, %19, e2;\n\t"
		"madc.hi.cc.u32 e1, %9, %19, e3;\n\t"
		"madc.lo.cc.u32 e2, %11, %19, e4;\n\t"
		"madc.hi.cc.u32 e3, %11, %19, e5;\n\t"
		"madc.lo.cc.u32 e4, %13, %19, e6;\n\t"
		"madc.hi.cc.u32 e5, %13, %19, e7;\n\t"
		"madc.lo.cc.u32 e6, %15, %19, 0;\n\t"
		"madc.hi.u32 e7, %15, %19, 0;\n\t"
		"mad.lo.cc.u32 o0, %8, %19, o0;\n\t"
		"madc.hi.cc.u32 o1, %8, %19, o1;\n\t"
		"madc.lo.cc.u32 o2, %10, %19, o2;\n\t"
		"madc.hi.cc.u32 o3, %10, %19, o3;\n\t"
		"madc.lo.cc.u32 o4, %12, %19, o4;\n\t"
		"madc.hi.cc.u32 o5, %12, %19, o5;\n\t"
		"madc.lo.cc.u32 o6, %14, %19, o6;\n\t"
		"madc.hi.cc.u32 o7, %14, %19, o7;\n\t"
		"addc.u32 e7, e7, 0;\n\t"
		"mul.lo.u32 m, o0, 0xe4866389;\n\t"
		"mad.lo.cc.u32 e0, 0x3c208c16, m, e0;\n\t"
		"madc.hi.cc.u32 e1, 0x3c208c16, m, e1;\n\t"
		"madc.lo.cc.u32 e2, 0x97816a91, m, e2;\n\t"
		"madc.hi.cc.u32 e3, 0x97816a91, m, e3;\n\t"
		"madc.lo.cc.u32 e4, 0xb85045b6, m, e4;\n\t"
		"madc.hi.cc.u32 e5, 0xb85045b6, m, e5;\n\t"
		"madc.lo.cc.u32 e6, 0x30644e72, m, e6;\n\t"
		"madc.hi.cc.u32 e7, 0x30644e72, m, e7;\n\t"
		"mad.lo.cc.u32 o0, 0xd87cfd47, m, o0;\n\t"
		"madc.hi.cc.u32 o1, 0xd87cfd47, m, o1;\n\t"
		"madc.lo.cc.u32 o2, 0x6871ca8d, m, o2;\n\t"
		"madc.hi.cc.u32 o3, 0x6871ca8d, m, o3;\n\t"
		"madc.lo.cc.u32 o4, 0x8181585d, m, o4;\n\t"
		"madc.hi.cc.u32 o5, 0x8181585d, m, o5;\n\t"
		"madc.lo.cc.u32 o6, 0xe131a029, m, o6;\n\t"
		"madc.hi.cc.u32 o7, 0xe131a029, m, o7;\n\t"
		"addc.u32 e7, e7, 0;\n\t"
		"add.cc.u32 e0, e0, o1;\n\t"
		"madc.lo.cc.u32 o0, %9, %20, o2;\n\t"
		"madc.hi.cc.u32 o1, %9, %20, o3;\n\t"
		"madc.lo.cc.u32 o2, %11, %20, o4;\n\t"
		"madc.hi.cc.u32 o3, %11, %20, o5;\n\t"
		"madc.lo.cc.u32 o4, %13, %20, o6;\n\t"
		"madc.hi.cc.u32 o5, %13, %20, o7;\n\t"
		"madc.lo.cc.u32 o6, %15, %20, 0;\n\t"
		"madc.hi.u32 o7, %15, %20, 0;\n\t"
		"mad.lo.cc.u32 e0, %8, %20, e0;\n\t"
		"madc.hi.cc.u32 e1, %8, %20, e1;\n\t"
		"madc.lo.cc.u32 e2, %10, %20, e2;\n\t"
		"madc.hi.cc.u32 e3, %10, %20, e3;\n\t"
		"madc.lo.cc.u32 e4, %12, %20, e4;\n\t"
		"madc.hi.cc.u32 e5, %12, %20, e5;\n\t"
		"madc.lo.cc.u32 e6, %14, %20, e6;\n\t"
		"madc.hi.cc.u32 e7, %14, %20, e7;\n\t"
		"addc.u32 o7, o7, 0;\n\t"
		"mul.lo.u32 m, e0, 0xe4866389;\n\t"
		"mad.lo.cc.u32 o0, 0x3c208c16, m, o0;\n\t"
		"madc.hi.cc.u32 o1, 0x3c208c16, m, o1;\n\t"
		"madc.lo.cc.u32 o2, 0x97816a91, m, o2;\n\t"
		"madc.hi.cc.u32 o3, 0x97816a91, m, o3;\n\t"
		"madc.lo.cc.u32 o4, 0xb85045b6, m, o4;\n\t"
		"madc.hi.cc.u32 o5, 0xb85045b6, m, o5;\n\t"
		"madc.lo.cc.u32 o6, 0x30644e72, m, o6;\n\t"
		"madc.hi.cc.u32 o7, 0x30644e72, m, o7;\n\t"
		"mad.lo.cc.u32 e0, 0xd87cfd47, m, e0;\n\t"
		"madc.hi.cc.u32 e1, 0xd87cfd47, m, e1;\n\t"
		"madc.lo.cc.u32 e2, 0x6871ca8d, m, e2;\n\t"
		"madc.hi.cc.u32 e3, 0x6871ca8d, m, e3;\n\t"
		"madc.lo.cc.u32 e4, 0x8181585d, m, e4;\n\t"
		"madc.hi.cc.u32 e5, 0x8181585d, m, e5;\n\t"
		"madc.lo.cc.u32 e6, 0xe131a029, m, e6;\n\t"
		"madc.hi.cc.u32 e7, 0xe131a029, m, e7;\n\t"
		"addc.u32 o7, o7, 0;\n\t"
		"add.cc.u32 o0, o0, e1;\n\t"
		"madc.lo.cc.u32 e0, %9, %21, e2;\n\t"
		"madc.hi.cc.u32 e1, %9, %21, e3;\n\t"
		"madc.lo.cc.u32 e2, %11, %21, e4;\n\t"
		"madc.hi.cc.u32 e3, %11, %21, e5;\n\t"
		"madc.lo.cc.u32 e4, %13, %21, e6;\n\t"
		"madc.hi.cc.u32 e5, %13, %21, e7;\n\t"
		"madc.lo.cc.u32 e6, %15, %21, 0;\n\t"
		"madc.hi.u32 e7, %15, %21, 0;\n\t"
		"mad.lo.cc.u32 o0, %8, %21, o0;\n\t"
		"madc.hi.cc.u32 o1, %8, %21, o1;\n\t"
		"madc.lo.cc.u32 o2, %10, %21, o2;\n\t"
		"madc.hi.cc.u32 o3, %10, %21, o3;\n\t"
		"madc.lo.cc.u32 o4, %12, %21, o4;\n\t"
		"madc.hi.cc.u32 o5, %12, %21, o5;\n\t"
		"madc.lo.cc.u32 o6, %14, %21, o6;\n\t"
		"madc.hi.cc.u32 o7, %14, %21, o7;\n\t"
		"addc.u32 e7, e7, 0;\n\t"
		"mul.lo.u32 m, o0, 0xe4866389;\n\t"
		"mad.lo.cc.u32 e0, 0x3c208c16, m, e0;\n\t"
		"madc.hi.cc.u32 e1, 0x3c208c16, m, e1;\n\t"
		"madc.lo.cc.u32 e2, 0x97816a91, m, e2;\n\t"
		"madc.hi.cc.u32 e3, 0x97816a91, m, e3;\n\t"
		"madc.lo.cc.u32 e4, 0xb85045b6, m, e4;\n\t"
		"madc.hi.cc.u32 e5, 0xb85045b6, m, e5;\n\t"
		"madc.lo.cc.u32 e6, 0x30644e72, m, e6;\n\t"
		"madc.hi.cc.u32 e7, 0x30644e72, m, e7;\n\t"
		"mad.lo.cc.u32 o0, 0xd87cfd47, m, o0;\n\t"
		"madc.hi.cc.u32 o1, 0xd87cfd47, m, o1;\n\t"
		"madc.lo.cc.u32 o2, 0x6871ca8d, m, o2;\n\t"
		"madc.hi.cc.u32 o3, 0x6871ca8d, m, o3;\n\t"
		"madc.lo.cc.u32 o4, 0x8181585d, m, o4;\n\t"
		"madc.hi.cc.u32 o5, 0x8181585d, m, o5;\n\t"
		"madc.lo.cc.u32 o6, 0xe131a029, m, o6;\n\t"
		"madc.hi.cc.u32 o7, 0xe131a029, m, o7;\n\t"
		"addc.u32 e7, e7, 0;\n\t"
		"add.cc.u32 e0, e0, o1;\n\t"
		"madc.lo.cc.u32 o0, %9, %22, o2;\n\t"
		"madc.hi.cc.u32 o1, %9, %22, o3;\n\t"
		"madc.lo.cc.u32 o2, %11, %22, o4;\n\t"
		"madc.hi.cc.u32 o3, %11, %22, o5;\n\t"
		"madc.lo.cc.u32 o4, %13, %22, o6;\n\t"
		"madc.hi.cc.u32 o5, %13, %22, o7;\n\t"
		"madc.lo.cc.u32 o6, %15, %22, 0;\n\t"
		"madc.hi.u32 o7, %15, %22, 0;\n\t"
		"mad.lo.cc.u32 e0, %8, %22, e0;\n\t"
		"madc.hi.cc.u32 e1, %8, %22, e1;\n\t"
		"madc.lo.cc.u32 e2, %10, %22, e2;\n\t"
		"madc.hi.cc.u32 e3, %10, %22, e3;\n\t"
		"madc.lo.cc.u32 e4, %12, %22, e4;\n\t"
		"madc.hi.cc.u32 e5, %12, %22, e5;\n\t"
		"madc.lo.cc.u32 e6, %14, %22, e6;\n\t"
		"madc.hi.cc.u32 e7, %14, %22, e7;\n\t"
		"addc.u32 o7, o7, 0;\n\t"
		"mul.lo.u32 m, e0, 0xe4866389;\n\t"
		"mad.lo.cc.u32 o0, 0x3c208c16, m, o0;\n\t"
		"madc.hi.cc.u32 o1, 0x3c208c16, m, o1;\n\t"
		"madc.lo.cc.u32 o2, 0x97816a91, m, o2;\n\t"
		"madc.hi.cc.u32 o3, 0x97816a91, m, o3;\n\t"
		"madc.lo.cc.u32 o4, 0xb85045b6, m, o4;\n\t"
		"madc.hi.cc.u32 o5, 0xb85045b6, m, o5;\n\t"
		"madc.lo.cc.u32 o6, 0x30644e72, m, o6;\n\t"
		"madc.hi.cc.u32 o7, 0x30644e72, m, o7;\n\t"
		"mad.lo.cc.u32 e0, 0xd87cfd47, m, e0;\n\t"
		"madc.hi.cc.u32 e1, 0xd87cfd47, m, e1;\n\t"
		"madc.lo.cc.u32 e2, 0x6871ca8d, m, e2;\n\t"
		"madc.hi.cc.u32 e3, 0x6871ca8d, m, e3;\n\t"
		"madc.lo.cc.u32 e4, 0x8181585d, m, e4;\n\t"
		"madc.hi.cc.u32 e5, 0x8181585d, m, e5;\n\t"
		"madc.lo.cc.u32 e6, 0xe131a029, m, e6;\n\t"
		"madc.hi.cc.u32 e7, 0xe131a029, m, e7;\n\t"
		"addc.u32 o7, o7, 0;\n\t"
		"add.cc.u32 o0, o0, e1;\n\t"
		"madc.lo.cc.u32 e0, %9, %23, e2;\n\t"
		"madc.hi.cc.u32 e1, %9, %23, e3;\n\t"
		"madc.lo.cc.u32 e2, %11, %23, e4;\n\t"
		"madc.hi.cc.u32 e3, %11, %23, e5;\n\t"
		"madc.lo.cc.u32 e4, %13, %23, e6;\n\t"
		"madc.hi.cc.u32 e5, %13, %23, e7;\n\t"
		"madc.lo.cc.u32 e6, %15, %23, 0;\n\t"
		"madc.hi.u32 e7, %15, %23, 0;\n\t"
		"mad.lo.cc.u32 o0, %8, %23, o0;\n\t"
		"madc.hi.cc.u32 o1, %8, %23, o1;\n\t"
		"madc.lo.cc.u32 o2, %10, %23, o2;\n\t"
		"madc.hi.cc.u32 o3, %10, %23, o3;\n\t"
		"madc.lo.cc.u32 o4, %12, %23, o4;\n\t"
		"madc.hi.cc.u32 o5, %12, %23, o5;\n\t"
		"madc.lo.cc.u32 o6, %14, %23, o6;\n\t"
		"madc.hi.cc.u32 o7, %14, %23, o7;\n\t"
		"addc.u32 e7, e7, 0;\n\t"
		"mul.lo.u32 m, o0, 0xe4866389;\n\t"
		"mad.lo.cc.u32 e0, 0x3c208c16, m, e0;\n\t"
		"madc.hi.cc.u32 e1, 0x3c208c16, m, e1;\n\t"
		"madc.lo.cc.u32 e2, 0x97816a91, m, e2;\n\t"
		"madc.hi.cc.u32 e3, 0x97816a91, m, e3;\n\t"
		"madc.lo.cc.u32 e4, 0xb85045b6, m, e4;\n\t"
		"madc.hi.cc.u32 e5, 0xb85045b6, m, e5;\n\t"
		"madc.lo.cc.u32 e6, 0x30644e72, m, e6;\n\t"
		"madc.hi.cc.u32 e7, 0x30644e72, m, e7;\n\t"
		"mad.lo.cc.u32 o0, 0xd87cfd47, m, o0;\n\t"
		"madc.hi.cc.u32 o1, 0xd87cfd47, m, o1;\n\t"
		"madc.lo.cc.u32 o2, 0x6871ca8d, m, o2;\n\t"
		"madc.hi.cc.u32 o3, 0x6871ca8d, m, o3;\n\t"
		"madc.lo.cc.u32 o4, 0x8181585d, m, o4;\n\t"
		"madc.hi.cc.u32 o5, 0x8181585d, m, o5;\n\t"
		"madc.lo.cc.u32 o6, 0xe131a029, m, o6;\n\t"
		"madc.hi.cc.u32 o7, 0xe131a029, m, o7;\n\t"
		"addc.u32 e7, e7, 0;\n\t"
		"add.cc.u32 e0, e0, o1;\n\t"
		"addc.cc.u32 e1, e1, o2;\n\t"
		"addc.cc.u32 e2, e2, o3;\n\t"
		"addc.cc.u32 e3, e3, o4;\n\t"
		"addc.cc.u32 e4, e4, o5;\n\t"
		"addc.cc.u32 e5, e5, o6;\n\t"
		"addc.cc.u32 e6, e6, o7;\n\t"
		"addc.u32 e7, e7, 0;\n\t"
		"sub.cc.u32 %0, e0, 0xd87cfd47;\n\t"
		"subc.cc.u32 %1, e1, 0x3c208c16;\n\t"
		"subc.cc.u32 %2, e2, 0x6871ca8d;\n\t"
		"subc.cc.u32 %3, e3, 0x97816a91;\n\t"
		"subc.cc.u32 %4, e4, 0x8181585d;\n\t"
		"subc.cc.u32 %5, e5, 0xb85045b6;\n\t"
		"subc.cc.u32 %6, e6, 0xe131a029;\n\t"
		"subc.cc.u32 %7, e7, 0x30644e72;\n\t"
		"subc.u32 m, 0, 0;\n\t"
		"setp.ne.u32 below, m, 0;\n\t"
		"selp.b32 %0, e0, %0, below;\n\t"
		"selp.b32 %1, e1, %1, below;\n\t"
		"selp.b32 %2, e2, %2, below;\n\t"
		"selp.b32 %3, e3, %3, below;\n\t"
		"selp.b32 %4, e4, %4, below;\n\t"
		"selp.b32 %5, e5, %5, below;\n\t"
		"selp.b32 %6, e6, %6, below;\n\t"
		"selp.b32 %7, e7, %7, below;\n\t"
		"}",
		out, a, b);
	return out;
}
#else
INLINE Fp fp_modulus() { return { {0xd87cfd47u, 0x3c208c16u, 0x6871ca8du, 0x97816a91u, 0x8181585du, 0xb85045b6u, 0xe131a029u, 0x30644e72u} }; }

// fp_reduce is a number below twice the prime, less the prime where that can be.
INLINE Fp fp_reduce(Fp t) {
	Fp p = fp_modulus(), out;
	u64 borrow = 0;
	for (int i = 0; i < 8; i++) {
		u64 d = (u64)t.v[i] - p.v[i] - borrow;
		out.v[i] = (u32)d;
		borrow = d >> 63;
	}
	return borrow ? t : out;
}

// add is the sum.
INLINE Fp add(Fp a, Fp b) {
	u64 carry = 0;
	for (int i = 0; i < 8; i++) {
		carry += (u64)a.v[i] + b.v[i];
		a.v[i] = (u32)carry;
		carry >>= 32;
	}
	return fp_reduce(a);
}

// sub is the difference.
INLINE Fp sub(Fp a, Fp b) {
	Fp p = fp_modulus();
	u64 borrow = 0, carry = 0;
	for (int i = 0; i < 8; i++) {
		u64 d = (u64)a.v[i] - b.v[i] - borrow;
		a.v[i] = (u32)d;
		borrow = d >> 63;
	}
	for (int i = 0; i < 8; i++) {
		carry += (u64)a.v[i] + (borrow ? p.v[i] : 0);
		a.v[i] = (u32)carry;
		carry >>= 32;
	}
	return a;
}

// mul is the product, in Montgomery form.
INLINE Fp mul(Fp a, Fp b) {
	Fp p = fp_modulus(), t = Fp::zero();
	for (int i = 0; i < 8; i++) {
		u64 x = t.v[0] + (u64)a.v[0] * b.v[i];
		u32 m = (u32)x * 0xe4866389u;
		u64 y = ((u32)x + (u64)m * p.v[0]) >> 32;
		for (int j = 1; j < 8; j++) {
			x = (x >> 32) + t.v[j] + (u64)a.v[j] * b.v[i];
			y += (u32)x + (u64)m * p.v[j];
			t.v[j - 1] = (u32)y;
			y >>= 32;
		}
		t.v[7] = (u32)((x >> 32) + y);
	}
	return fp_reduce(t);
}
#endif

INLINE Fp doubled(Fp a) { return add(a, a); }
INLINE Fp square(Fp a) { return mul(a, a); }
INLINE Fp neg(Fp a) { return sub(Fp::zero(), a); }

INLINE bool is_zero(Fp a) {
	return (a.v[0] | a.v[1] | a.v[2] | a.v[3] | a.v[4] | a.v[5] | a.v[6] | a.v[7]) == 0;
}

INLINE bool equal(Fp a, Fp b) {
	u32 differ = 0;
	for (int i = 0; i < 8; i++)
		differ |= a.v[i] ^ b.v[i];
	return differ == 0;
}

// from_number brings a number below the prime into Montgomery form, and to_number an element
// out of it.
INLINE Fp from_number(Fp a) { return mul(a, Fp::radix_squared()); }
INLINE Fp to_number(Fp a) { return mul(a, { {1, 0, 0, 0, 0, 0, 0, 0} }); }

// power is a to the power of a number of 32 bits.
INLINE Fp power(Fp a, u32 e) {
	Fp out = Fp::one();
	for (; e > 0; e >>= 1) {
		if (e & 1)
			out = mul(out, a);
		a = mul(a, a);
	}
	return out;
}

// inverse is 1 ÷ a, by Fermat: 0 for 0.
INLINE Fp inverse(Fp a) {
	const u32 e[8] = {0xd87cfd45u, 0x3c208c16u, 0x6871ca8du, 0x97816a91u, 0x8181585du, 0xb85045b6u, 0xe131a029u, 0x30644e72u};
	Fp out = Fp::one();
	for (int i = 0; i < 256; i++) {
		if (e[i / 32] >> (i % 32) & 1)
			out = mul(out, a);
		a = mul(a, a);
	}
	return out;
}
