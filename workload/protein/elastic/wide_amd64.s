#include "textflag.h"

// func dotsAVX512(out, v, w *float64, count, rows int)
TEXT ·dotsAVX512(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ v+8(FP), SI
	MOVQ w+16(FP), DX
	MOVQ count+24(FP), CX
	MOVQ rows+32(FP), R8
	SHLQ $3, R8                 // bytes of a vector

dots512:
	VPXORQ Z0, Z0, Z0
	XORQ   R9, R9

row512:
	VMOVUPD (SI)(R9*1), Z1
	VMULPD  (DX)(R9*1), Z1, Z1
	VADDPD  Z1, Z0, Z0
	ADDQ    $64, R9
	CMPQ    R9, R8
	JLT     row512
	VEXTRACTF64X4 $1, Z0, Y1
	VADDPD        Y1, Y0, Y0    // lanes 0+4 1+5 2+6 3+7
	VEXTRACTF128  $1, Y0, X1
	VADDPD        X1, X0, X0    // (0+4)+(2+6), (1+5)+(3+7)
	VPERMILPD     $1, X0, X1
	VADDSD        X1, X0, X0
	VMOVSD        X0, (DI)
	ADDQ          R8, SI
	ADDQ          $8, DI
	DECQ          CX
	JNZ           dots512
	VZEROUPPER
	RET

// func dotsAVX2(out, v, w *float64, count, rows int)
TEXT ·dotsAVX2(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ v+8(FP), SI
	MOVQ w+16(FP), DX
	MOVQ count+24(FP), CX
	MOVQ rows+32(FP), R8
	SHLQ $3, R8

dots256:
	VXORPD Y0, Y0, Y0           // lanes 0 to 3
	VXORPD Y1, Y1, Y1           // lanes 4 to 7
	XORQ   R9, R9

row256:
	VMOVUPD (SI)(R9*1), Y2
	VMOVUPD 32(SI)(R9*1), Y3
	VMULPD  (DX)(R9*1), Y2, Y2
	VMULPD  32(DX)(R9*1), Y3, Y3
	VADDPD  Y2, Y0, Y0
	VADDPD  Y3, Y1, Y1
	ADDQ    $64, R9
	CMPQ    R9, R8
	JLT     row256
	VADDPD       Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD       X1, X0, X0
	VPERMILPD    $1, X0, X1
	VADDSD       X1, X0, X0
	VMOVSD       X0, (DI)
	ADDQ         R8, SI
	ADDQ         $8, DI
	DECQ         CX
	JNZ          dots256
	VZEROUPPER
	RET

// func subtractAVX512(w, v, h *float64, count, rows int)
TEXT ·subtractAVX512(SB), NOSPLIT, $0-40
	MOVQ w+0(FP), DI
	MOVQ v+8(FP), SI
	MOVQ h+16(FP), DX
	MOVQ count+24(FP), R10
	MOVQ rows+32(FP), R8
	SHLQ $3, R8
	XORQ R9, R9

// Sixteen rows at a time, while there are so many.
pair512:
	LEAQ 128(R9), R11
	CMPQ R11, R8
	JGT  one512
	VMOVUPD (DI)(R9*1), Z0
	VMOVUPD 64(DI)(R9*1), Z1
	LEAQ    (SI)(R9*1), AX
	MOVQ    DX, BX
	MOVQ    R10, CX

pairLoop512:
	VBROADCASTSD (BX), Z2
	VMULPD       (AX), Z2, Z3
	VMULPD       64(AX), Z2, Z4
	VSUBPD       Z3, Z0, Z0
	VSUBPD       Z4, Z1, Z1
	ADDQ         R8, AX
	ADDQ         $8, BX
	DECQ         CX
	JNZ          pairLoop512
	VMOVUPD Z0, (DI)(R9*1)
	VMOVUPD Z1, 64(DI)(R9*1)
	MOVQ    R11, R9
	JMP     pair512

one512:
	CMPQ R9, R8
	JGE  done512
	VMOVUPD (DI)(R9*1), Z0
	LEAQ    (SI)(R9*1), AX
	MOVQ    DX, BX
	MOVQ    R10, CX

oneLoop512:
	VBROADCASTSD (BX), Z2
	VMULPD       (AX), Z2, Z3
	VSUBPD       Z3, Z0, Z0
	ADDQ         R8, AX
	ADDQ         $8, BX
	DECQ         CX
	JNZ          oneLoop512
	VMOVUPD Z0, (DI)(R9*1)

done512:
	VZEROUPPER
	RET

// func subtractAVX2(w, v, h *float64, count, rows int)
TEXT ·subtractAVX2(SB), NOSPLIT, $0-40
	MOVQ w+0(FP), DI
	MOVQ v+8(FP), SI
	MOVQ h+16(FP), DX
	MOVQ count+24(FP), R10
	MOVQ rows+32(FP), R8
	SHLQ $3, R8
	XORQ R9, R9

some256:
	VMOVUPD (DI)(R9*1), Y0
	VMOVUPD 32(DI)(R9*1), Y1
	LEAQ    (SI)(R9*1), AX
	MOVQ    DX, BX
	MOVQ    R10, CX

loop256:
	VBROADCASTSD (BX), Y2
	VMULPD       (AX), Y2, Y3
	VMULPD       32(AX), Y2, Y4
	VSUBPD       Y3, Y0, Y0
	VSUBPD       Y4, Y1, Y1
	ADDQ         R8, AX
	ADDQ         $8, BX
	DECQ         CX
	JNZ          loop256
	VMOVUPD Y0, (DI)(R9*1)
	VMOVUPD Y1, 32(DI)(R9*1)
	ADDQ    $64, R9
	CMPQ    R9, R8
	JLT     some256
	VZEROUPPER
	RET
