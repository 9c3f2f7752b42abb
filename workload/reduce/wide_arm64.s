#include "textflag.h"

// The assembler has no names for these on vectors: of four float32, then of two
// float64.
#define FADD4(m, n, d) WORD $(0x4E20D400 | m<<16 | n<<5 | d)
#define FMAX4(m, n, d) WORD $(0x4E20F400 | m<<16 | n<<5 | d)
#define FMIN4(m, n, d) WORD $(0x4EA0F400 | m<<16 | n<<5 | d)
#define FADD2(m, n, d) WORD $(0x4E60D400 | m<<16 | n<<5 | d)
#define FMAX2(m, n, d) WORD $(0x4E60F400 | m<<16 | n<<5 | d)
#define FMIN2(m, n, d) WORD $(0x4EE0F400 | m<<16 | n<<5 | d)

// func sum32(sum, src *float32, rows int)
TEXT ·sum32(SB), NOSPLIT, $0-24
	MOVD sum+0(FP), R0
	MOVD src+8(FP), R1
	MOVD rows+16(FP), R2
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16

next:
	VLD1.P 64(R1), [V16.S4, V17.S4, V18.S4, V19.S4]
	VLD1.P 64(R1), [V20.S4, V21.S4, V22.S4, V23.S4]
	FADD4(16, 0, 0)
	FADD4(17, 1, 1)
	FADD4(18, 2, 2)
	FADD4(19, 3, 3)
	FADD4(20, 4, 4)
	FADD4(21, 5, 5)
	FADD4(22, 6, 6)
	FADD4(23, 7, 7)
	SUBS   $1, R2, R2
	BNE    next
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)
	RET

// func sum64(sum, src *float64, rows int)
TEXT ·sum64(SB), NOSPLIT, $0-24
	MOVD sum+0(FP), R0
	MOVD src+8(FP), R1
	MOVD rows+16(FP), R2
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16
	VEOR V8.B16, V8.B16, V8.B16
	VEOR V9.B16, V9.B16, V9.B16
	VEOR V10.B16, V10.B16, V10.B16
	VEOR V11.B16, V11.B16, V11.B16
	VEOR V12.B16, V12.B16, V12.B16
	VEOR V13.B16, V13.B16, V13.B16
	VEOR V14.B16, V14.B16, V14.B16
	VEOR V15.B16, V15.B16, V15.B16

next:
	VLD1.P 64(R1), [V16.D2, V17.D2, V18.D2, V19.D2]
	VLD1.P 64(R1), [V20.D2, V21.D2, V22.D2, V23.D2]
	VLD1.P 64(R1), [V24.D2, V25.D2, V26.D2, V27.D2]
	VLD1.P 64(R1), [V28.D2, V29.D2, V30.D2, V31.D2]
	FADD2(16, 0, 0)
	FADD2(17, 1, 1)
	FADD2(18, 2, 2)
	FADD2(19, 3, 3)
	FADD2(20, 4, 4)
	FADD2(21, 5, 5)
	FADD2(22, 6, 6)
	FADD2(23, 7, 7)
	FADD2(24, 8, 8)
	FADD2(25, 9, 9)
	FADD2(26, 10, 10)
	FADD2(27, 11, 11)
	FADD2(28, 12, 12)
	FADD2(29, 13, 13)
	FADD2(30, 14, 14)
	FADD2(31, 15, 15)
	SUBS   $1, R2, R2
	BNE    next
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0)
	VST1.P [V4.D2, V5.D2, V6.D2, V7.D2], 64(R0)
	VST1.P [V8.D2, V9.D2, V10.D2, V11.D2], 64(R0)
	VST1.P [V12.D2, V13.D2, V14.D2, V15.D2], 64(R0)
	RET

// func extrema32(most, least, src *float32, rows int) (nan bool)
TEXT ·extrema32(SB), NOSPLIT, $0-33
	MOVD most+0(FP), R0
	MOVD least+8(FP), R1
	MOVD src+16(FP), R2
	MOVD rows+24(FP), R3
	VLD1 (R2), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1 (R2), [V4.S4, V5.S4, V6.S4, V7.S4]

next:
	VLD1.P 64(R2), [V16.S4, V17.S4, V18.S4, V19.S4]
	FMAX4(16, 0, 0)
	FMIN4(16, 4, 4)
	FMAX4(17, 1, 1)
	FMIN4(17, 5, 5)
	FMAX4(18, 2, 2)
	FMIN4(18, 6, 6)
	FMAX4(19, 3, 3)
	FMIN4(19, 7, 7)
	SUBS   $1, R3, R3
	BNE    next
	VST1 [V0.S4, V1.S4, V2.S4, V3.S4], (R0)
	VST1 [V4.S4, V5.S4, V6.S4, V7.S4], (R1)
	MOVB ZR, nan+32(FP) // FMAX and FMIN keep a NaN
	RET

// func extrema64(most, least, src *float64, rows int) (nan bool)
TEXT ·extrema64(SB), NOSPLIT, $0-33
	MOVD most+0(FP), R0
	MOVD least+8(FP), R1
	MOVD src+16(FP), R2
	MOVD rows+24(FP), R3
	VLD1 (R2), [V0.D2, V1.D2, V2.D2, V3.D2]
	VLD1 (R2), [V4.D2, V5.D2, V6.D2, V7.D2]

next:
	VLD1.P 64(R2), [V16.D2, V17.D2, V18.D2, V19.D2]
	FMAX2(16, 0, 0)
	FMIN2(16, 4, 4)
	FMAX2(17, 1, 1)
	FMIN2(17, 5, 5)
	FMAX2(18, 2, 2)
	FMIN2(18, 6, 6)
	FMAX2(19, 3, 3)
	FMIN2(19, 7, 7)
	SUBS   $1, R3, R3
	BNE    next
	VST1 [V0.D2, V1.D2, V2.D2, V3.D2], (R0)
	VST1 [V4.D2, V5.D2, V6.D2, V7.D2], (R1)
	MOVB ZR, nan+32(FP) // FMAX and FMIN keep a NaN
	RET
