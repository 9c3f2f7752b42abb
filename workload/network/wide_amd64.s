#include "textflag.h"

// func addAVX2(to, row *float32, n int, by float32)
TEXT ·addAVX2(SB), NOSPLIT, $0-28
	MOVQ         to+0(FP), DI
	MOVQ         row+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS by+24(FP), Y0
	CMPQ         CX, $32
	JLT          eight

four:
	VMULPS  (SI), Y0, Y1
	VMULPS  32(SI), Y0, Y2
	VMULPS  64(SI), Y0, Y3
	VMULPS  96(SI), Y0, Y4
	VADDPS  (DI), Y1, Y1
	VADDPS  32(DI), Y2, Y2
	VADDPS  64(DI), Y3, Y3
	VADDPS  96(DI), Y4, Y4
	VMOVUPS Y1, (DI)
	VMOVUPS Y2, 32(DI)
	VMOVUPS Y3, 64(DI)
	VMOVUPS Y4, 96(DI)
	ADDQ    $128, SI
	ADDQ    $128, DI
	SUBQ    $32, CX
	CMPQ    CX, $32
	JGE     four

eight:
	TESTQ CX, CX
	JZ    done

more:
	VMULPS  (SI), Y0, Y1
	VADDPS  (DI), Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     more

done:
	VZEROUPPER
	RET

// one is the number 1.
DATA one<>+0(SB)/8, $1.0
GLOBL one<>(SB), RODATA, $8

// func gatherAVX512(to, shares *float64, starts, columns *uint32, x *float64, rows, n int, damping float64, base uint32) bool
TEXT ·gatherAVX512(SB), NOSPLIT, $0-73
	MOVQ         to+0(FP), DI
	MOVQ         shares+8(FP), R15
	MOVQ         starts+16(FP), SI
	MOVQ         columns+24(FP), DX
	MOVQ         x+32(FP), R8
	MOVQ         rows+40(FP), R9
	MOVQ         n+48(FP), CX
	VPBROADCASTD n+48(FP), Y15
	MOVL         base+64(FP), R10
	VMOVSD       damping+56(FP), X14
	VMOVSD       one<>(SB), X13
	KXNORB       K4, K4, K4

row:
	MOVL   (SI), R11
	MOVL   4(SI), R12
	SUBQ   R11, R12             // entries of the row
	SUBQ   R10, R11
	LEAQ   (DX)(R11*4), R13
	CMPQ   R12, $4
	JLE    few
	VPXORQ Z0, Z0, Z0
	CMPQ   R12, $8
	JLT    rest

gather:
	VMOVDQU32  (R13), Y1
	VPCMPUD    $5, Y15, Y1, K1  // not below n
	KORTESTB   K1, K1
	JNZ        outside
	KMOVB      K4, K2
	VPXORQ     Z2, Z2, Z2
	VGATHERDPD (R8)(Y1*8), K2, Z2
	VADDPD     Z2, Z0, Z0
	ADDQ       $32, R13
	SUBQ       $8, R12
	CMPQ       R12, $8
	JGE        gather

rest:
	TESTQ       R12, R12
	JZ          reduce
	MOVL        $0xff, BX
	BZHIL       R12, BX, BX
	KMOVB       BX, K2
	VMOVDQU32.Z (R13), K2, Y1
	VPCMPUD     $5, Y15, Y1, K2, K1
	KORTESTB    K1, K1
	JNZ         outside
	VPXORQ      Z2, Z2, Z2
	VGATHERDPD  (R8)(Y1*8), K2, Z2
	VADDPD      Z2, Z0, Z0

reduce:
	VEXTRACTF64X4 $1, Z0, Y1
	VADDPD        Y1, Y0, Y0    // lanes 0+4 1+5 2+6 3+7
	VEXTRACTF128  $1, Y0, X1
	VADDPD        X1, X0, X0    // (0+4)+(2+6), (1+5)+(3+7)
	VPERMILPD     $1, X0, X1
	VADDSD        X1, X0, X0

store: // (1 + damping sum) share
	VMULSD X14, X0, X0
	VADDSD X13, X0, X0
	VMULSD (R15), X0, X0
	VMOVSD X0, (DI)
	ADDQ   $8, DI
	ADDQ   $8, R15
	ADDQ   $4, SI
	DECQ   R9
	JNZ    row
	VZEROUPPER
	MOVB   $1, ret+72(FP)
	RET

few: // entries: (0+2)+(1+3)
	VXORPD X0, X0, X0
	TESTQ  R12, R12
	JZ     store
	MOVL   (R13), AX
	CMPL   AX, CX
	JAE    outside
	VMOVSD (R8)(AX*8), X0
	CMPQ   R12, $2
	JLT    store
	MOVL   4(R13), AX
	CMPL   AX, CX
	JAE    outside
	VMOVSD (R8)(AX*8), X1
	CMPQ   R12, $3
	JLT    pair
	MOVL   8(R13), AX
	CMPL   AX, CX
	JAE    outside
	VADDSD (R8)(AX*8), X0, X0
	CMPQ   R12, $4
	JLT    pair
	MOVL   12(R13), AX
	CMPL   AX, CX
	JAE    outside
	VADDSD (R8)(AX*8), X1, X1

pair:
	VADDSD X1, X0, X0
	JMP    store

outside:
	VZEROUPPER
	MOVB $0, ret+72(FP)
	RET
