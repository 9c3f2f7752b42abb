#include "textflag.h"

// Blocks of float64 in vectors of four, two at a time: DI is the result, SI, BX and DX are
// operands, Y7 is a number, CX counts. n is a multiple of eight, and not zero.

#define STORE(name) \
	VMOVUPD Y0, (DI) \
	VMOVUPD Y1, 32(DI) \
	ADDQ    $64, DI \
	ADDQ    $64, SI \
	SUBQ    $8, CX \
	JNZ     name \
	VZEROUPPER \
	RET

#define BINARY(OP, name) \
	MOVQ    out+0(FP), DI \
	MOVQ    a+8(FP), SI \
	MOVQ    b+16(FP), BX \
	MOVQ    n+24(FP), CX \
name: \
	VMOVUPD (SI), Y0 \
	VMOVUPD 32(SI), Y1 \
	OP      (BX), Y0, Y0 \
	OP      32(BX), Y1, Y1 \
	ADDQ    $64, BX \
	STORE(name)

#define NUMBER \
	MOVQ         out+0(FP), DI \
	MOVQ         a+8(FP), SI \
	VBROADCASTSD b+16(FP), Y7

TEXT ·addAVX2(SB), NOSPLIT, $0-32
	BINARY(VADDPD, addLoop)

TEXT ·subAVX2(SB), NOSPLIT, $0-32
	BINARY(VSUBPD, subLoop)

TEXT ·mulAVX2(SB), NOSPLIT, $0-32
	BINARY(VMULPD, mulLoop)

TEXT ·divAVX2(SB), NOSPLIT, $0-32
	BINARY(VDIVPD, divLoop)

TEXT ·addNumberAVX2(SB), NOSPLIT, $0-32
	NUMBER
	MOVQ n+24(FP), CX

addNumberLoop:
	VADDPD (SI), Y7, Y0
	VADDPD 32(SI), Y7, Y1
	STORE(addNumberLoop)

TEXT ·subNumberAVX2(SB), NOSPLIT, $0-32
	NUMBER
	MOVQ n+24(FP), CX

subNumberLoop:
	VSUBPD (SI), Y7, Y0
	VSUBPD 32(SI), Y7, Y1
	STORE(subNumberLoop)

TEXT ·mulNumberAVX2(SB), NOSPLIT, $0-32
	NUMBER
	MOVQ n+24(FP), CX

mulNumberLoop:
	VMULPD (SI), Y7, Y0
	VMULPD 32(SI), Y7, Y1
	STORE(mulNumberLoop)

TEXT ·divNumberAVX2(SB), NOSPLIT, $0-32
	NUMBER
	MOVQ n+24(FP), CX

divNumberLoop:
	VDIVPD (SI), Y7, Y0
	VDIVPD 32(SI), Y7, Y1
	STORE(divNumberLoop)

TEXT ·mulAddAVX2(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), BX
	MOVQ c+24(FP), DX
	MOVQ n+32(FP), CX

mulAddLoop:
	VMOVUPD (SI), Y0
	VMOVUPD 32(SI), Y1
	VMULPD  (BX), Y0, Y0
	VMULPD  32(BX), Y1, Y1
	VADDPD  (DX), Y0, Y0
	VADDPD  32(DX), Y1, Y1
	ADDQ    $64, BX
	ADDQ    $64, DX
	STORE(mulAddLoop)

TEXT ·mulAddNumberAVX2(SB), NOSPLIT, $0-40
	NUMBER
	MOVQ c+24(FP), DX
	MOVQ n+32(FP), CX

mulAddNumberLoop:
	VMULPD (SI), Y7, Y0
	VMULPD 32(SI), Y7, Y1
	VADDPD (DX), Y0, Y0
	VADDPD 32(DX), Y1, Y1
	ADDQ   $64, DX
	STORE(mulAddNumberLoop)

TEXT ·sqrtAVX2(SB), NOSPLIT, $0-24
	MOVQ out+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ n+16(FP), CX

sqrtLoop:
	VSQRTPD (SI), Y0
	VSQRTPD 32(SI), Y1
	STORE(sqrtLoop)
