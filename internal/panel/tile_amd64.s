#include "textflag.h"

// Register tiles. The accumulators hold a block of c from beginning to end; for
// every offset one row of b is loaded, and each row of a adds one number,
// broadcast to all lanes.
//
// General registers, for all tiles:
//	DI, SI	c, and the bytes between its rows
//	AX, DX	a, and the bytes between its rows; R9 three times that
//	R10, R11	further rows of a
//	BX	b
//	R8, CX	next offset, offsets left
//	R12	the offset, in floats
//	R13	c while it is loaded; then, and R14, what comes next of b, and the bytes
//		to go on by: fetched into L2 while this is computed

#define ARGS \
	MOVQ c_base+0(FP), DI    \
	MOVQ ldc+24(FP), SI      \
	MOVQ a_base+32(FP), AX   \
	MOVQ lda+56(FP), DX      \
	MOVQ b_base+64(FP), BX   \
	MOVQ off_base+88(FP), R8 \
	MOVQ off_len+96(FP), CX  \
	SHLQ $2, SI              \
	SHLQ $2, DX              \
	LEAQ (DX)(DX*2), R9

#define NEXT \
	MOVQ next+112(FP), R13 \
	MOVQ step+120(FP), R14

// AVX-512: four rows of 32 columns are eight accumulators; B is Z0, Z1.

#define LOAD4(c0, c1, c2, c3, c4, c5, c6, c7) \
	VMOVUPS (R13), c0   \
	VMOVUPS 64(R13), c1 \
	ADDQ    SI, R13     \
	VMOVUPS (R13), c2   \
	VMOVUPS 64(R13), c3 \
	ADDQ    SI, R13     \
	VMOVUPS (R13), c4   \
	VMOVUPS 64(R13), c5 \
	ADDQ    SI, R13     \
	VMOVUPS (R13), c6   \
	VMOVUPS 64(R13), c7 \
	ADDQ    SI, R13

#define STORE4(c0, c1, c2, c3, c4, c5, c6, c7) \
	VMOVUPS c0, (DI)   \
	VMOVUPS c1, 64(DI) \
	ADDQ    SI, DI     \
	VMOVUPS c2, (DI)   \
	VMOVUPS c3, 64(DI) \
	ADDQ    SI, DI     \
	VMOVUPS c4, (DI)   \
	VMOVUPS c5, 64(DI) \
	ADDQ    SI, DI     \
	VMOVUPS c6, (DI)   \
	VMOVUPS c7, 64(DI) \
	ADDQ    SI, DI

#define ROWB32 \
	MOVLQSX (R8), R12           \
	VMOVUPS (BX)(R12*4), Z0     \
	VMOVUPS 64(BX)(R12*4), Z1   \
	ADDQ    $4, R8              \
	PREFETCHT1 (R13)            \
	ADDQ    R14, R13

// FMA4 adds the products of four rows of a, from row on, to eight accumulators.
#define FMA4(row, c0, c1, c2, c3, c4, c5, c6, c7) \
	VBROADCASTSS (row), Z2         \
	VBROADCASTSS (row)(DX*1), Z3   \
	VFMADD231PS  Z0, Z2, c0        \
	VFMADD231PS  Z1, Z2, c1        \
	VBROADCASTSS (row)(DX*2), Z4   \
	VFMADD231PS  Z0, Z3, c2        \
	VFMADD231PS  Z1, Z3, c3        \
	VBROADCASTSS (row)(R9*1), Z5   \
	VFMADD231PS  Z0, Z4, c4        \
	VFMADD231PS  Z1, Z4, c5        \
	VFMADD231PS  Z0, Z5, c6        \
	VFMADD231PS  Z1, Z5, c7        \
	ADDQ         $4, row

// MAX4 raises eight accumulators to the sums with four rows of a. VMAXPS gives
// its last operand (here, as Go writes it, the first: the accumulator) unless
// the other is greater, also when that is no number.
#define MAX1(at, c0, c1) \
	VBROADCASTSS at, Z2     \
	VADDPS       Z0, Z2, Z3 \
	VADDPS       Z1, Z2, Z4 \
	VMAXPS       c0, Z3, c0 \
	VMAXPS       c1, Z4, c1

#define MAX4(row, c0, c1, c2, c3, c4, c5, c6, c7) \
	MAX1((row), c0, c1)       \
	MAX1((row)(DX*1), c2, c3) \
	MAX1((row)(DX*2), c4, c5) \
	MAX1((row)(R9*1), c6, c7) \
	ADDQ $4, row

// FETCH4 fetches four rows of the tile below.
#define FETCH4 \
	PREFETCHT0 (R13)   \
	PREFETCHT0 64(R13) \
	ADDQ    SI, R13    \
	PREFETCHT0 (R13)   \
	PREFETCHT0 64(R13) \
	ADDQ    SI, R13    \
	PREFETCHT0 (R13)   \
	PREFETCHT0 64(R13) \
	ADDQ    SI, R13    \
	PREFETCHT0 (R13)   \
	PREFETCHT0 64(R13) \
	ADDQ    SI, R13

#define TILE12x32(op) \
	ARGS \
	LEAQ (AX)(DX*4), R10 \
	LEAQ (AX)(DX*8), R11 \
	MOVQ DI, R13 \
	LOAD4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15) \
	LOAD4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23) \
	LOAD4(Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31) \
	FETCH4 \
	FETCH4 \
	FETCH4 \
	NEXT \
loop: \
	ROWB32 \
	op(AX, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15) \
	op(R10, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23) \
	op(R11, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31) \
	DECQ CX \
	JNZ loop \
	STORE4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15) \
	STORE4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23) \
	STORE4(Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31) \
	VZEROUPPER \
	RET

#define TILE8x32(op) \
	ARGS \
	LEAQ (AX)(DX*4), R10 \
	MOVQ DI, R13 \
	LOAD4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15) \
	LOAD4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23) \
	NEXT \
loop: \
	ROWB32 \
	op(AX, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15) \
	op(R10, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23) \
	DECQ CX \
	JNZ loop \
	STORE4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15) \
	STORE4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23) \
	VZEROUPPER \
	RET

#define TILE4x32(op) \
	ARGS \
	MOVQ DI, R13 \
	LOAD4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15) \
	NEXT \
loop: \
	ROWB32 \
	op(AX, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15) \
	DECQ CX \
	JNZ loop \
	STORE4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15) \
	VZEROUPPER \
	RET

// AVX2: two rows of 16 columns are four accumulators; B is Y0, Y1.

#define LOAD2(c0, c1, c2, c3) \
	VMOVUPS (R13), c0   \
	VMOVUPS 32(R13), c1 \
	ADDQ    SI, R13     \
	VMOVUPS (R13), c2   \
	VMOVUPS 32(R13), c3 \
	ADDQ    SI, R13

#define STORE2(c0, c1, c2, c3) \
	VMOVUPS c0, (DI)   \
	VMOVUPS c1, 32(DI) \
	ADDQ    SI, DI     \
	VMOVUPS c2, (DI)   \
	VMOVUPS c3, 32(DI) \
	ADDQ    SI, DI

#define ROWB16 \
	MOVLQSX (R8), R12         \
	VMOVUPS (BX)(R12*4), Y0   \
	VMOVUPS 32(BX)(R12*4), Y1 \
	ADDQ    $4, R8            \
	PREFETCHT1 (R13)          \
	ADDQ    R14, R13

#define FMA2(row, c0, c1, c2, c3) \
	VBROADCASTSS (row), Y2       \
	VBROADCASTSS (row)(DX*1), Y3 \
	VFMADD231PS  Y0, Y2, c0      \
	VFMADD231PS  Y1, Y2, c1      \
	VFMADD231PS  Y0, Y3, c2      \
	VFMADD231PS  Y1, Y3, c3      \
	ADDQ         $4, row

#define MAX2(row, c0, c1, c2, c3) \
	VBROADCASTSS (row), Y2       \
	VADDPS       Y0, Y2, Y3      \
	VMAXPS       c0, Y3, c0      \
	VADDPS       Y1, Y2, Y3      \
	VMAXPS       c1, Y3, c1      \
	VBROADCASTSS (row)(DX*1), Y2 \
	VADDPS       Y0, Y2, Y3      \
	VMAXPS       c2, Y3, c2      \
	VADDPS       Y1, Y2, Y3      \
	VMAXPS       c3, Y3, c3      \
	ADDQ         $4, row

#define TILE6x16(op) \
	ARGS \
	LEAQ (AX)(DX*2), R10 \
	LEAQ (AX)(DX*4), R11 \
	MOVQ DI, R13 \
	LOAD2(Y4, Y5, Y6, Y7) \
	LOAD2(Y8, Y9, Y10, Y11) \
	LOAD2(Y12, Y13, Y14, Y15) \
	NEXT \
loop: \
	ROWB16 \
	op(AX, Y4, Y5, Y6, Y7) \
	op(R10, Y8, Y9, Y10, Y11) \
	op(R11, Y12, Y13, Y14, Y15) \
	DECQ CX \
	JNZ loop \
	STORE2(Y4, Y5, Y6, Y7) \
	STORE2(Y8, Y9, Y10, Y11) \
	STORE2(Y12, Y13, Y14, Y15) \
	VZEROUPPER \
	RET

// func sumProduct12x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·sumProduct12x32(SB), NOSPLIT, $0-128
	TILE12x32(FMA4)

// func sumProduct8x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·sumProduct8x32(SB), NOSPLIT, $0-128
	TILE8x32(FMA4)

// func sumProduct4x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·sumProduct4x32(SB), NOSPLIT, $0-128
	TILE4x32(FMA4)

// func sumProduct6x16(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·sumProduct6x16(SB), NOSPLIT, $0-128
	TILE6x16(FMA2)

// func maxPlus12x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·maxPlus12x32(SB), NOSPLIT, $0-128
	TILE12x32(MAX4)

// func maxPlus8x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·maxPlus8x32(SB), NOSPLIT, $0-128
	TILE8x32(MAX4)

// func maxPlus4x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·maxPlus4x32(SB), NOSPLIT, $0-128
	TILE4x32(MAX4)

// func maxPlus6x16(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·maxPlus6x16(SB), NOSPLIT, $0-128
	TILE6x16(MAX2)
