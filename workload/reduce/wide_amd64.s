#include "textflag.h"

// A row is one element for each lane.

// func sum32(sum, src *float32, rows int)
TEXT ·sum32(SB), NOSPLIT, $0-24
	MOVQ sum+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ rows+16(FP), CX
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1

row:
	VADDPS 0(SI), Z0, Z0
	VADDPS 64(SI), Z1, Z1
	ADDQ   $128, SI
	DECQ   CX
	JNZ    row
	VMOVUPS Z0, 0(DI)
	VMOVUPS Z1, 64(DI)
	VZEROUPPER
	RET

// func sum64(sum, src *float64, rows int)
TEXT ·sum64(SB), NOSPLIT, $0-24
	MOVQ sum+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ rows+16(FP), CX
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3

row:
	VADDPD 0(SI), Z0, Z0
	VADDPD 64(SI), Z1, Z1
	VADDPD 128(SI), Z2, Z2
	VADDPD 192(SI), Z3, Z3
	ADDQ   $256, SI
	DECQ   CX
	JNZ    row
	VMOVUPD Z0, 0(DI)
	VMOVUPD Z1, 64(DI)
	VMOVUPD Z2, 128(DI)
	VMOVUPD Z3, 192(DI)
	VZEROUPPER
	RET

// The extrema are taken of rows of 64 bytes. The immediate of VRANGE is 4 for the
// minimum and 5 for the maximum, both with -0 below +0; it passes over NaNs,
// which are noted in K1 instead: comparing a vector with itself is unordered (3)
// where it has one.

// func extrema32(most, least, src *float32, rows int) (nan bool)
TEXT ·extrema32(SB), NOSPLIT, $0-33
	MOVQ most+0(FP), DI
	MOVQ least+8(FP), DX
	MOVQ src+16(FP), SI
	MOVQ rows+24(FP), CX
	VMOVUPS (SI), Z0
	VMOVUPS (SI), Z1
	KXORW   K1, K1, K1

row:
	VMOVUPS  (SI), Z2
	VCMPPS   $3, Z2, Z2, K2
	VRANGEPS $5, Z2, Z0, Z0
	VRANGEPS $4, Z2, Z1, Z1
	KORW     K2, K1, K1
	ADDQ     $64, SI
	DECQ     CX
	JNZ      row
	VMOVUPS  Z0, (DI)
	VMOVUPS  Z1, (DX)
	KORTESTW K1, K1
	SETNE    nan+32(FP)
	VZEROUPPER
	RET

// func extrema64(most, least, src *float64, rows int) (nan bool)
TEXT ·extrema64(SB), NOSPLIT, $0-33
	MOVQ most+0(FP), DI
	MOVQ least+8(FP), DX
	MOVQ src+16(FP), SI
	MOVQ rows+24(FP), CX
	VMOVUPD (SI), Z0
	VMOVUPD (SI), Z1
	KXORW   K1, K1, K1

row:
	VMOVUPD  (SI), Z2
	VCMPPD   $3, Z2, Z2, K2
	VRANGEPD $5, Z2, Z0, Z0
	VRANGEPD $4, Z2, Z1, Z1
	KORW     K2, K1, K1
	ADDQ     $64, SI
	DECQ     CX
	JNZ      row
	VMOVUPD  Z0, (DI)
	VMOVUPD  Z1, (DX)
	KORTESTW K1, K1
	SETNE    nan+32(FP)
	VZEROUPPER
	RET
