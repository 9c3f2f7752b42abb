#include "textflag.h"

// func addAVX512(row, cos, sin *float64, vectors int, p *pair)
TEXT ·addAVX512(SB), NOSPLIT, $0-40
	MOVQ row+0(FP), DI
	MOVQ cos+8(FP), SI
	MOVQ sin+16(FP), DX
	MOVQ vectors+24(FP), CX
	MOVQ p+32(FP), AX
	VBROADCASTSD 0(AX), Z0  // constant
	VBROADCASTSD 8(AX), Z1  // cosine
	VBROADCASTSD 16(AX), Z2 // sine
	VBROADCASTSD 24(AX), Z3 // size2
	VBROADCASTSD 32(AX), Z4 // six
	VBROADCASTSD 40(AX), Z5 // five
	VBROADCASTSD 48(AX), Z6 // cutoff2

vector:
	VMULPD  (SI), Z1, Z8
	VMULPD  (DX), Z2, Z9
	VSUBPD  Z8, Z0, Z8
	VSUBPD  Z9, Z8, Z8       // d2
	VCMPPD  $1, Z6, Z8, K1   // d2 < cutoff2
	VDIVPD  Z8, Z3, Z9       // q
	VMULPD  Z9, Z9, Z10
	VMULPD  Z10, Z10, Z10
	VMULPD  Z9, Z10, Z10     // q to the fifth
	VMULPD  Z9, Z4, Z11
	VSUBPD  Z5, Z11, Z11
	VMULPD  Z11, Z10, Z10
	VMOVUPD (DI), Z12
	VADDPD  Z10, Z12, K1, Z12
	VMOVUPD Z12, (DI)
	ADDQ    $64, SI
	ADDQ    $64, DX
	ADDQ    $64, DI
	DECQ    CX
	JNZ     vector
	VZEROUPPER
	RET

// func addAVX2(row, cos, sin *float64, vectors int, p *pair)
TEXT ·addAVX2(SB), NOSPLIT, $0-40
	MOVQ row+0(FP), DI
	MOVQ cos+8(FP), SI
	MOVQ sin+16(FP), DX
	MOVQ vectors+24(FP), CX
	MOVQ p+32(FP), AX
	VBROADCASTSD 0(AX), Y0
	VBROADCASTSD 8(AX), Y1
	VBROADCASTSD 16(AX), Y2
	VBROADCASTSD 24(AX), Y3
	VBROADCASTSD 32(AX), Y4
	VBROADCASTSD 40(AX), Y5
	VBROADCASTSD 48(AX), Y6

vector:
	VMULPD  (SI), Y1, Y8
	VMULPD  (DX), Y2, Y9
	VSUBPD  Y8, Y0, Y8
	VSUBPD  Y9, Y8, Y8
	VCMPPD  $1, Y6, Y8, Y13
	VDIVPD  Y8, Y3, Y9
	VMULPD  Y9, Y9, Y10
	VMULPD  Y10, Y10, Y10
	VMULPD  Y9, Y10, Y10
	VMULPD  Y9, Y4, Y11
	VSUBPD  Y5, Y11, Y11
	VMULPD  Y11, Y10, Y10
	VANDPD  Y13, Y10, Y10    // zero beyond the cutoff
	VADDPD  (DI), Y10, Y10
	VMOVUPD Y10, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	DECQ    CX
	JNZ     vector
	VZEROUPPER
	RET
