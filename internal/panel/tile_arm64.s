#include "textflag.h"

// Tiles of eight columns: the sums of a row are two registers of four, and a
// step of the loop takes one number of every row of a against eight of b.

// ROWSUM adds the product of the next number of a row of a and eight numbers of
// b to a row of c, rounding once.
#define ROWSUM(row, x, lo, hi) \
	VLD1R.P 4(row), [x.S4]         \
	VFMLA   V16.S4, x.S4, lo.S4    \
	VFMLA   V17.S4, x.S4, hi.S4

// The assembler has no names for FADD and FCMGT on vectors.
#define FADD4(m, n, d) WORD $(0x4E20D400 | m<<16 | n<<5 | d)
#define FCMGT4(m, n, d) WORD $(0x6EA0E400 | m<<16 | n<<5 | d)

// ROWMAX replaces what a row of c holds where the sum of the next number of a
// row of a and eight numbers of b is greater. It compares and selects: FMAX
// would make a sum that is no number the result.
// lo and hi are the numbers of the registers l and h.
#define ROWMAX(row, lo, l, hi, h) \
	VLD1R.P 4(row), [V18.S4]       \
	FADD4(16, 18, 19)              \
	FADD4(17, 18, 20)              \
	FCMGT4(lo, 19, 21)             \
	FCMGT4(hi, 20, 22)             \
	VBIT    V21.B16, V19.B16, l.B16 \
	VBIT    V22.B16, V20.B16, h.B16

// func sumProduct8x8(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·sumProduct8x8(SB), NOSPLIT, $0-128
	MOVD c_base+0(FP), R0
	MOVD ldc+24(FP), R1
	LSL  $2, R1, R1
	MOVD a_base+32(FP), R8
	MOVD lda+56(FP), R3
	LSL  $2, R3, R3
	MOVD b_base+64(FP), R4
	MOVD off_base+88(FP), R5
	MOVD off_len+96(FP), R6
	ADD  R3, R8, R9
	ADD  R3, R9, R10
	ADD  R3, R10, R11
	ADD  R3, R11, R12
	ADD  R3, R12, R13
	ADD  R3, R13, R14
	ADD  R3, R14, R15
	MOVD R0, R7
	VLD1 (R7), [V0.S4, V1.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V2.S4, V3.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V4.S4, V5.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V6.S4, V7.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V8.S4, V9.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V10.S4, V11.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V12.S4, V13.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V14.S4, V15.S4]
	ADD  R1, R7, R7

next:
	MOVW.P 4(R5), R7
	ADD    R7<<2, R4, R7
	VLD1   (R7), [V16.S4, V17.S4]
	ROWSUM(R8, V18, V0, V1)
	ROWSUM(R9, V19, V2, V3)
	ROWSUM(R10, V20, V4, V5)
	ROWSUM(R11, V21, V6, V7)
	ROWSUM(R12, V18, V8, V9)
	ROWSUM(R13, V19, V10, V11)
	ROWSUM(R14, V20, V12, V13)
	ROWSUM(R15, V21, V14, V15)
	SUBS   $1, R6, R6
	BNE    next

	VST1 [V0.S4, V1.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V2.S4, V3.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V4.S4, V5.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V6.S4, V7.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V8.S4, V9.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V10.S4, V11.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V12.S4, V13.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V14.S4, V15.S4], (R0)
	ADD  R1, R0, R0
	RET

// func sumProduct4x8(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·sumProduct4x8(SB), NOSPLIT, $0-128
	MOVD c_base+0(FP), R0
	MOVD ldc+24(FP), R1
	LSL  $2, R1, R1
	MOVD a_base+32(FP), R8
	MOVD lda+56(FP), R3
	LSL  $2, R3, R3
	MOVD b_base+64(FP), R4
	MOVD off_base+88(FP), R5
	MOVD off_len+96(FP), R6
	ADD  R3, R8, R9
	ADD  R3, R9, R10
	ADD  R3, R10, R11
	MOVD R0, R7
	VLD1 (R7), [V0.S4, V1.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V2.S4, V3.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V4.S4, V5.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V6.S4, V7.S4]
	ADD  R1, R7, R7

next:
	MOVW.P 4(R5), R7
	ADD    R7<<2, R4, R7
	VLD1   (R7), [V16.S4, V17.S4]
	ROWSUM(R8, V18, V0, V1)
	ROWSUM(R9, V19, V2, V3)
	ROWSUM(R10, V20, V4, V5)
	ROWSUM(R11, V21, V6, V7)
	SUBS   $1, R6, R6
	BNE    next

	VST1 [V0.S4, V1.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V2.S4, V3.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V4.S4, V5.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V6.S4, V7.S4], (R0)
	ADD  R1, R0, R0
	RET

// func maxPlus8x8(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·maxPlus8x8(SB), NOSPLIT, $0-128
	MOVD c_base+0(FP), R0
	MOVD ldc+24(FP), R1
	LSL  $2, R1, R1
	MOVD a_base+32(FP), R8
	MOVD lda+56(FP), R3
	LSL  $2, R3, R3
	MOVD b_base+64(FP), R4
	MOVD off_base+88(FP), R5
	MOVD off_len+96(FP), R6
	ADD  R3, R8, R9
	ADD  R3, R9, R10
	ADD  R3, R10, R11
	ADD  R3, R11, R12
	ADD  R3, R12, R13
	ADD  R3, R13, R14
	ADD  R3, R14, R15
	MOVD R0, R7
	VLD1 (R7), [V0.S4, V1.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V2.S4, V3.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V4.S4, V5.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V6.S4, V7.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V8.S4, V9.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V10.S4, V11.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V12.S4, V13.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V14.S4, V15.S4]
	ADD  R1, R7, R7

next:
	MOVW.P 4(R5), R7
	ADD    R7<<2, R4, R7
	VLD1   (R7), [V16.S4, V17.S4]
	ROWMAX(R8, 0, V0, 1, V1)
	ROWMAX(R9, 2, V2, 3, V3)
	ROWMAX(R10, 4, V4, 5, V5)
	ROWMAX(R11, 6, V6, 7, V7)
	ROWMAX(R12, 8, V8, 9, V9)
	ROWMAX(R13, 10, V10, 11, V11)
	ROWMAX(R14, 12, V12, 13, V13)
	ROWMAX(R15, 14, V14, 15, V15)
	SUBS   $1, R6, R6
	BNE    next

	VST1 [V0.S4, V1.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V2.S4, V3.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V4.S4, V5.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V6.S4, V7.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V8.S4, V9.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V10.S4, V11.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V12.S4, V13.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V14.S4, V15.S4], (R0)
	ADD  R1, R0, R0
	RET

// func maxPlus4x8(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
TEXT ·maxPlus4x8(SB), NOSPLIT, $0-128
	MOVD c_base+0(FP), R0
	MOVD ldc+24(FP), R1
	LSL  $2, R1, R1
	MOVD a_base+32(FP), R8
	MOVD lda+56(FP), R3
	LSL  $2, R3, R3
	MOVD b_base+64(FP), R4
	MOVD off_base+88(FP), R5
	MOVD off_len+96(FP), R6
	ADD  R3, R8, R9
	ADD  R3, R9, R10
	ADD  R3, R10, R11
	MOVD R0, R7
	VLD1 (R7), [V0.S4, V1.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V2.S4, V3.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V4.S4, V5.S4]
	ADD  R1, R7, R7
	VLD1 (R7), [V6.S4, V7.S4]
	ADD  R1, R7, R7

next:
	MOVW.P 4(R5), R7
	ADD    R7<<2, R4, R7
	VLD1   (R7), [V16.S4, V17.S4]
	ROWMAX(R8, 0, V0, 1, V1)
	ROWMAX(R9, 2, V2, 3, V3)
	ROWMAX(R10, 4, V4, 5, V5)
	ROWMAX(R11, 6, V6, 7, V7)
	SUBS   $1, R6, R6
	BNE    next

	VST1 [V0.S4, V1.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V2.S4, V3.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V4.S4, V5.S4], (R0)
	ADD  R1, R0, R0
	VST1 [V6.S4, V7.S4], (R0)
	ADD  R1, R0, R0
	RET
