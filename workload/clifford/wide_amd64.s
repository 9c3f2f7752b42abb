#include "textflag.h"

// func productsEight(out, x, y *float32, n, xStep, yStep int, tables *[16][8]uint32)
TEXT ·productsEight(SB), NOSPLIT, $0-56
	MOVQ out+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ xStep+32(FP), R8
	MOVQ yStep+40(FP), R9
	MOVQ tables+48(FP), AX
	VMOVDQU 0(AX), Y8 // where the right numbers of blade 0 are
	VMOVDQU 32(AX), Y9 // where the right numbers of blade 1 are
	VMOVDQU 64(AX), Y10 // where the right numbers of blade 2 are
	VMOVDQU 96(AX), Y11 // where the right numbers of blade 3 are
	VMOVDQU 128(AX), Y12 // where the right numbers of blade 4 are
	VMOVDQU 160(AX), Y13 // where the right numbers of blade 5 are
	VMOVDQU 192(AX), Y14 // where the right numbers of blade 6 are
	VMOVDQU 224(AX), Y15 // where the right numbers of blade 7 are

multivector:
	VMOVUPS (DX), Y0
	VXORPS  Y1, Y1, Y1 // the product
	VPERMPS Y0, Y8, Y2
	VXORPS  256(AX), Y2, Y2
	VBROADCASTSS 0(SI), Y3
	VMULPS  Y2, Y3, Y2
	VADDPS  Y2, Y1, Y1
	VPERMPS Y0, Y9, Y2
	VXORPS  288(AX), Y2, Y2
	VBROADCASTSS 4(SI), Y3
	VMULPS  Y2, Y3, Y2
	VADDPS  Y2, Y1, Y1
	VPERMPS Y0, Y10, Y2
	VXORPS  320(AX), Y2, Y2
	VBROADCASTSS 8(SI), Y3
	VMULPS  Y2, Y3, Y2
	VADDPS  Y2, Y1, Y1
	VPERMPS Y0, Y11, Y2
	VXORPS  352(AX), Y2, Y2
	VBROADCASTSS 12(SI), Y3
	VMULPS  Y2, Y3, Y2
	VADDPS  Y2, Y1, Y1
	VPERMPS Y0, Y12, Y2
	VXORPS  384(AX), Y2, Y2
	VBROADCASTSS 16(SI), Y3
	VMULPS  Y2, Y3, Y2
	VADDPS  Y2, Y1, Y1
	VPERMPS Y0, Y13, Y2
	VXORPS  416(AX), Y2, Y2
	VBROADCASTSS 20(SI), Y3
	VMULPS  Y2, Y3, Y2
	VADDPS  Y2, Y1, Y1
	VPERMPS Y0, Y14, Y2
	VXORPS  448(AX), Y2, Y2
	VBROADCASTSS 24(SI), Y3
	VMULPS  Y2, Y3, Y2
	VADDPS  Y2, Y1, Y1
	VPERMPS Y0, Y15, Y2
	VXORPS  480(AX), Y2, Y2
	VBROADCASTSS 28(SI), Y3
	VMULPS  Y2, Y3, Y2
	VADDPS  Y2, Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ    $32, DI
	ADDQ    R8, SI
	ADDQ    R9, DX
	DECQ    CX
	JNZ     multivector
	VZEROUPPER
	RET

// func productsMore(out, x, y *float32, n, xStep, yStep int, tables *blockTables, scratch *[maxSize * 9]float32)
TEXT ·productsMore(SB), NOSPLIT, $0-64
	MOVQ out+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ tables+48(FP), AX
	MOVQ scratch+56(FP), BX
	VMOVDQU 32(AX), Y8 // lanes exchanged by 0
	VMOVDQU 64(AX), Y9 // lanes exchanged by 1
	VMOVDQU 96(AX), Y10 // lanes exchanged by 2
	VMOVDQU 128(AX), Y11 // lanes exchanged by 3
	VMOVDQU 160(AX), Y12 // lanes exchanged by 4
	VMOVDQU 192(AX), Y13 // lanes exchanged by 5
	VMOVDQU 224(AX), Y14 // lanes exchanged by 6
	VMOVDQU 256(AX), Y15 // lanes exchanged by 7

multivector:
	// The right numbers by sets, each vector of them with lanes exchanged in all eight ways.
	MOVQ 8(AX), R10 // toSets
	MOVQ 0(AX), R11 // numbers left
	MOVQ BX, R12

exchange:
	VMOVDQU (R10), Y1
	ADDQ    $32, R10
	VXORPS  Y0, Y0, Y0
	MOVQ    DX, R13
	MOVQ    0(AX), R8

from:
	VPERMPS 0(R13), Y1, Y2
	VPERMPS 32(R13), Y1, Y3
	VANDPS  0(R10), Y2, Y2
	VANDPS  32(R10), Y3, Y3
	VORPS   Y2, Y3, Y2
	VORPS   Y2, Y0, Y0
	ADDQ    $64, R10
	ADDQ    $64, R13
	SUBQ    $16, R8
	JNZ     from
	VPERMPS Y0, Y8, Y1
	VMOVUPS Y1, 0(R12)
	VPERMPS Y0, Y9, Y1
	VMOVUPS Y1, 32(R12)
	VPERMPS Y0, Y10, Y1
	VMOVUPS Y1, 64(R12)
	VPERMPS Y0, Y11, Y1
	VMOVUPS Y1, 96(R12)
	VPERMPS Y0, Y12, Y1
	VMOVUPS Y1, 128(R12)
	VPERMPS Y0, Y13, Y1
	VMOVUPS Y1, 160(R12)
	VPERMPS Y0, Y14, Y1
	VMOVUPS Y1, 192(R12)
	VPERMPS Y0, Y15, Y1
	VMOVUPS Y1, 224(R12)
	ADDQ $256, R12
	SUBQ $8, R11
	JNZ  exchange

	// Four vectors of the product at a time, of two left numbers each, or two if there are no more, to
	// scratch memory behind those; R12 is there.
	MOVQ 16(AX), R10 // terms
	MOVQ 0(AX), R11
	MOVQ R12, R9
	CMPQ R11, $16
	JEQ  two

four:
	VXORPS  Y4, Y4, Y4
	VXORPS  Y5, Y5, Y5
	VXORPS  Y6, Y6, Y6
	VXORPS  Y7, Y7, Y7
	MOVQ    0(AX), R8
	MOVQ    SI, R13

fourLeft:
	VBROADCASTSS 0(R13), Y3
	MOVQ    128(R10), DX
	VMOVUPS (BX)(DX*1), Y0
	VXORPS  0(R10), Y0, Y0
	VMULPS  Y0, Y3, Y0
	VADDPS  Y0, Y4, Y4
	MOVQ    136(R10), DX
	VMOVUPS (BX)(DX*1), Y1
	VXORPS  32(R10), Y1, Y1
	VMULPS  Y1, Y3, Y1
	VADDPS  Y1, Y5, Y5
	MOVQ    144(R10), DX
	VMOVUPS (BX)(DX*1), Y0
	VXORPS  64(R10), Y0, Y0
	VMULPS  Y0, Y3, Y0
	VADDPS  Y0, Y6, Y6
	MOVQ    152(R10), DX
	VMOVUPS (BX)(DX*1), Y1
	VXORPS  96(R10), Y1, Y1
	VMULPS  Y1, Y3, Y1
	VADDPS  Y1, Y7, Y7
	VBROADCASTSS 4(R13), Y3
	MOVQ    288(R10), DX
	VMOVUPS (BX)(DX*1), Y0
	VXORPS  160(R10), Y0, Y0
	VMULPS  Y0, Y3, Y0
	VADDPS  Y0, Y4, Y4
	MOVQ    296(R10), DX
	VMOVUPS (BX)(DX*1), Y1
	VXORPS  192(R10), Y1, Y1
	VMULPS  Y1, Y3, Y1
	VADDPS  Y1, Y5, Y5
	MOVQ    304(R10), DX
	VMOVUPS (BX)(DX*1), Y0
	VXORPS  224(R10), Y0, Y0
	VMULPS  Y0, Y3, Y0
	VADDPS  Y0, Y6, Y6
	MOVQ    312(R10), DX
	VMOVUPS (BX)(DX*1), Y1
	VXORPS  256(R10), Y1, Y1
	VMULPS  Y1, Y3, Y1
	VADDPS  Y1, Y7, Y7
	ADDQ    $320, R10
	ADDQ    $8, R13
	SUBQ    $2, R8
	JNZ     fourLeft
	VMOVUPS Y4, 0(R9)
	VMOVUPS Y5, 32(R9)
	VMOVUPS Y6, 64(R9)
	VMOVUPS Y7, 96(R9)
	ADDQ    $128, R9
	SUBQ    $32, R11
	JNZ     four
	JMP  order

two:
	VXORPS  Y4, Y4, Y4
	VXORPS  Y5, Y5, Y5
	MOVQ    0(AX), R8
	MOVQ    SI, R13

twoLeft:
	VBROADCASTSS (R13), Y3
	MOVQ    64(R10), DX
	VMOVUPS (BX)(DX*1), Y0
	VXORPS  0(R10), Y0, Y0
	VMULPS  Y0, Y3, Y0
	VADDPS  Y0, Y4, Y4
	MOVQ    72(R10), DX
	VMOVUPS (BX)(DX*1), Y1
	VXORPS  32(R10), Y1, Y1
	VMULPS  Y1, Y3, Y1
	VADDPS  Y1, Y5, Y5
	ADDQ    $80, R10
	ADDQ    $4, R13
	DECQ    R8
	JNZ     twoLeft
	VMOVUPS Y4, 0(R9)
	VMOVUPS Y5, 32(R9)
	ADDQ    $64, R9
	SUBQ    $16, R11
	JNZ     two

order:
	// The product in the order of blades.
	MOVQ 24(AX), R10 // fromSets
	MOVQ 0(AX), R11

ordered:
	VMOVDQU (R10), Y1
	ADDQ    $32, R10
	VXORPS  Y0, Y0, Y0
	MOVQ    R12, R13
	MOVQ    0(AX), R8

fromSets:
	VPERMPS 0(R13), Y1, Y2
	VPERMPS 32(R13), Y1, Y3
	VANDPS  0(R10), Y2, Y2
	VANDPS  32(R10), Y3, Y3
	VORPS   Y2, Y3, Y2
	VORPS   Y2, Y0, Y0
	ADDQ    $64, R10
	ADDQ    $64, R13
	SUBQ    $16, R8
	JNZ     fromSets
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	SUBQ    $8, R11
	JNZ     ordered
	ADDQ xStep+32(FP), SI
	MOVQ y+16(FP), DX
	ADDQ yStep+40(FP), DX
	MOVQ DX, y+16(FP)
	DECQ CX
	JNZ  multivector
	VZEROUPPER
	RET
