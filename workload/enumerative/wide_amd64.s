#include "textflag.h"

// Offsets of the fields of lanes.
#define ONE 64
#define SUM 96
#define X 128
#define PRODUCT 640
#define TOTAL 1184

// FIELDS loads the primes and −1/p of lanes at DI, those of odd lanes also where even lanes are.
#define FIELDS \
	VMOVDQU 0(DI), Y0       \ // p
	VMOVDQU 32(DI), Y1      \ // −1/p
	VPSRLQ  $32, Y0, Y2     \
	VPSRLQ  $32, Y1, Y3

// MUL multiplies in Montgomery form, even lanes and odd lanes apart.
#define MUL(a, b, to) \
	VPMULUDQ b, a, Y10        \
	VPSRLQ   $32, a, Y11      \
	VPSRLQ   $32, b, Y12      \
	VPMULUDQ Y12, Y11, Y11    \
	VPMULUDQ Y1, Y10, Y12     \
	VPMULUDQ Y3, Y11, Y13     \
	VPMULUDQ Y0, Y12, Y12     \
	VPMULUDQ Y2, Y13, Y13     \
	VPADDQ   Y12, Y10, Y10    \
	VPADDQ   Y13, Y11, Y11    \
	VPSRLQ   $32, Y10, Y10    \
	VPBLENDD $0xAA, Y11, Y10, Y10 \
	VPSUBD   Y0, Y10, Y11     \
	VPMINUD  Y11, Y10, to

// func levelAVX2(l *lanes, m, k int, weight *[width]uint32)
TEXT ·levelAVX2(SB), NOSPLIT, $0-32
	MOVQ l+0(FP), DI
	MOVQ m+8(FP), AX
	MOVQ k+16(FP), CX
	MOVQ weight+24(FP), DX
	FIELDS
	SUBQ AX, CX
	SHLQ $5, AX
	ADDQ DI, AX // where the coordinate m of a row is, less the row
	VMOVDQU X(AX), Y4
	VMOVDQU ONE(DI), Y5 // products of differences, two of them that do not wait for one another
	VMOVDQU Y5, Y7
	LEAQ X(AX), BX

pair:
	SUBQ    $2, CX
	JLE     last
	VPSUBD  32(BX), Y4, Y6
	VPADDD  Y0, Y6, Y8
	VPMINUD Y8, Y6, Y6
	MUL(Y5, Y6, Y5)
	VPSUBD  64(BX), Y4, Y6
	VPADDD  Y0, Y6, Y8
	VPMINUD Y8, Y6, Y6
	MUL(Y7, Y6, Y7)
	ADDQ    $64, BX
	JMP     pair

last:
	JNE     done
	VPSUBD  32(BX), Y4, Y6
	VPADDD  Y0, Y6, Y8
	VPMINUD Y8, Y6, Y6
	MUL(Y5, Y6, Y5)

done:
	MUL(Y5, Y7, Y5)
	MUL(Y5, Y5, Y5)
	VMOVDQU (DX), Y6
	MUL(Y5, Y6, Y5)
	VMOVDQU PRODUCT+32(AX), Y6
	MUL(Y5, Y6, Y5)
	VMOVDQU Y5, PRODUCT(AX)
	VPADDD  TOTAL+32(AX), Y4, Y4
	VPSUBD  Y0, Y4, Y5
	VPMINUD Y5, Y4, Y4
	VMOVDQU Y4, TOTAL(AX)
	VZEROUPPER
	RET

// func degreeAVX2(l *lanes, exponent int)
TEXT ·degreeAVX2(SB), NOSPLIT, $0-16
	MOVQ l+0(FP), DI
	MOVQ exponent+8(FP), CX
	FIELDS
	VMOVDQU TOTAL(DI), Y4
	VMOVDQU PRODUCT(DI), Y5

bit:
	TESTQ $1, CX
	JEQ   squared
	MUL(Y5, Y4, Y5)

squared:
	SHRQ $1, CX
	JEQ  added
	MUL(Y4, Y4, Y4)
	JMP  bit

added:
	VPADDD  SUM(DI), Y5, Y5
	VPSUBD  Y0, Y5, Y6
	VPMINUD Y6, Y5, Y5
	VMOVDQU Y5, SUM(DI)
	VZEROUPPER
	RET
