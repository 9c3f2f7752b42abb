#include "textflag.h"

// The names in comments are those of word and add3 in kernel.go.

// SUM3 adds the west, middle and east cell of every cell of a row. It uses Z0 to
// Z3. The three-operand logic is 0x96 exclusive or, 0xe8 majority.
#define SUM3(row, ones, twos, mid) \
	VMOVDQU64  (row), mid            \
	VPSRLQ     $63, -8(row), Z0      \
	VPSLLQ     $63, 8(row), Z1       \
	VPSLLQ     $1, mid, Z2           \
	VPSRLQ     $1, mid, Z3           \
	VPORQ      Z0, Z2, ones          \
	VPORQ      Z1, Z3, Z3            \
	VMOVDQA64  ones, twos            \
	VPTERNLOGQ $0x96, Z3, mid, ones  \
	VPTERNLOGQ $0xe8, Z3, mid, twos

// func rowAVX512(dst, up, mid, down *uint64, vectors int)
TEXT ·rowAVX512(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ up+8(FP), R8
	MOVQ mid+16(FP), R9
	MOVQ down+24(FP), R10
	MOVQ vectors+32(FP), CX

vector:
	SUM3(R8, Z5, Z6, Z11)
	SUM3(R10, Z9, Z10, Z11)
	SUM3(R9, Z7, Z8, Z11)         // Z11: the cells themselves
	VMOVDQA64  Z5, Z12
	VPTERNLOGQ $0x96, Z9, Z7, Z5  // ones
	VPTERNLOGQ $0xe8, Z9, Z7, Z12 // carry
	VMOVDQA64  Z6, Z13
	VPTERNLOGQ $0x96, Z10, Z8, Z6 // odd
	VPTERNLOGQ $0xe8, Z10, Z8, Z13 // pair
	VPXORQ     Z12, Z6, Z6        // single
	VPXORQ     Z13, Z12, Z12      // pair ^ carry
	VPTERNLOGQ $0x08, Z6, Z5, Z13 // three: not the first, but the others
	VPORQ      Z5, Z6, Z6
	VPANDQ     Z11, Z12, Z12
	VPANDNQ    Z12, Z6, Z6        // four, and alive
	VPORQ      Z13, Z6, Z6
	VMOVDQU64  Z6, (DI)
	ADDQ       $64, R8
	ADDQ       $64, R9
	ADDQ       $64, R10
	ADDQ       $64, DI
	DECQ       CX
	JNZ        vector
	VZEROUPPER
	RET

// ADD3 adds three bits: a becomes the ones, twos the twos. It uses Y0 and Y1.
#define ADD3(a, b, c, twos) \
	VPXOR a, b, Y0     \
	VPAND a, b, twos   \
	VPAND Y0, c, Y1    \
	VPXOR Y0, c, a     \
	VPOR  Y1, twos, twos

#define SHIFT3(row, west, mid, east) \
	VMOVDQU (row), mid        \
	VMOVDQU -8(row), west     \
	VMOVDQU 8(row), east      \
	VPSRLQ  $63, west, west   \
	VPSLLQ  $63, east, east   \
	VPSLLQ  $1, mid, Y0       \
	VPSRLQ  $1, mid, Y1       \
	VPOR    Y0, west, west    \
	VPOR    Y1, east, east

// func rowAVX2(dst, up, mid, down *uint64, vectors int)
TEXT ·rowAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ up+8(FP), R8
	MOVQ mid+16(FP), R9
	MOVQ down+24(FP), R10
	MOVQ vectors+32(FP), CX

vector:
	SHIFT3(R8, Y2, Y3, Y4)
	ADD3(Y2, Y3, Y4, Y5)      // one1, two1
	SHIFT3(R10, Y6, Y3, Y4)
	ADD3(Y6, Y3, Y4, Y7)      // one3, two3
	SHIFT3(R9, Y8, Y3, Y4)    // Y3: the cells themselves
	ADD3(Y8, Y3, Y4, Y9)      // one2, two2
	ADD3(Y2, Y6, Y8, Y10)     // ones, carry
	ADD3(Y5, Y7, Y9, Y11)     // odd, pair
	VPXOR  Y5, Y10, Y5        // single
	VPXOR  Y11, Y10, Y10      // pair ^ carry
	VPAND  Y2, Y5, Y12
	VPANDN Y12, Y11, Y12      // three
	VPOR   Y2, Y5, Y2
	VPAND  Y3, Y10, Y10
	VPANDN Y10, Y2, Y2        // four, and alive
	VPOR   Y12, Y2, Y2
	VMOVDQU Y2, (DI)
	ADDQ   $32, R8
	ADDQ   $32, R9
	ADDQ   $32, R10
	ADDQ   $32, DI
	DECQ   CX
	JNZ    vector
	VZEROUPPER
	RET
