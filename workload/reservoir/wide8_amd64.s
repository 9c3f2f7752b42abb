#include "textflag.h"

// Kernels for eight patterns at once, on processors with AVX2. They do what those in
// wide_amd64.s do, in the same order.

// The constants of tanh, each eight times.
DATA eights<>+0(SB)/8, $0x411051ec411051ec // most
DATA eights<>+8(SB)/8, $0x411051ec411051ec
DATA eights<>+16(SB)/8, $0x411051ec411051ec
DATA eights<>+24(SB)/8, $0x411051ec411051ec
DATA eights<>+32(SB)/8, $0xc11051ecc11051ec // least
DATA eights<>+40(SB)/8, $0xc11051ecc11051ec
DATA eights<>+48(SB)/8, $0xc11051ecc11051ec
DATA eights<>+56(SB)/8, $0xc11051ecc11051ec
DATA eights<>+64(SB)/8, $0x3fb8aa3b3fb8aa3b // log2e
DATA eights<>+72(SB)/8, $0x3fb8aa3b3fb8aa3b
DATA eights<>+80(SB)/8, $0x3fb8aa3b3fb8aa3b
DATA eights<>+88(SB)/8, $0x3fb8aa3b3fb8aa3b
DATA eights<>+96(SB)/8, $0x4b4000004b400000 // shift
DATA eights<>+104(SB)/8, $0x4b4000004b400000
DATA eights<>+112(SB)/8, $0x4b4000004b400000
DATA eights<>+120(SB)/8, $0x4b4000004b400000
DATA eights<>+128(SB)/8, $0x3f3170003f317000 // high
DATA eights<>+136(SB)/8, $0x3f3170003f317000
DATA eights<>+144(SB)/8, $0x3f3170003f317000
DATA eights<>+152(SB)/8, $0x3f3170003f317000
DATA eights<>+160(SB)/8, $0x3805fdf43805fdf4 // low
DATA eights<>+168(SB)/8, $0x3805fdf43805fdf4
DATA eights<>+176(SB)/8, $0x3805fdf43805fdf4
DATA eights<>+184(SB)/8, $0x3805fdf43805fdf4
DATA eights<>+192(SB)/8, $0x39500d0139500d01 // c7
DATA eights<>+200(SB)/8, $0x39500d0139500d01
DATA eights<>+208(SB)/8, $0x39500d0139500d01
DATA eights<>+216(SB)/8, $0x39500d0139500d01
DATA eights<>+224(SB)/8, $0x3ab60b613ab60b61 // c6
DATA eights<>+232(SB)/8, $0x3ab60b613ab60b61
DATA eights<>+240(SB)/8, $0x3ab60b613ab60b61
DATA eights<>+248(SB)/8, $0x3ab60b613ab60b61
DATA eights<>+256(SB)/8, $0x3c0888893c088889 // c5
DATA eights<>+264(SB)/8, $0x3c0888893c088889
DATA eights<>+272(SB)/8, $0x3c0888893c088889
DATA eights<>+280(SB)/8, $0x3c0888893c088889
DATA eights<>+288(SB)/8, $0x3d2aaaab3d2aaaab // c4
DATA eights<>+296(SB)/8, $0x3d2aaaab3d2aaaab
DATA eights<>+304(SB)/8, $0x3d2aaaab3d2aaaab
DATA eights<>+312(SB)/8, $0x3d2aaaab3d2aaaab
DATA eights<>+320(SB)/8, $0x3e2aaaab3e2aaaab // c3
DATA eights<>+328(SB)/8, $0x3e2aaaab3e2aaaab
DATA eights<>+336(SB)/8, $0x3e2aaaab3e2aaaab
DATA eights<>+344(SB)/8, $0x3e2aaaab3e2aaaab
DATA eights<>+352(SB)/8, $0x3f0000003f000000 // c2
DATA eights<>+360(SB)/8, $0x3f0000003f000000
DATA eights<>+368(SB)/8, $0x3f0000003f000000
DATA eights<>+376(SB)/8, $0x3f0000003f000000
DATA eights<>+384(SB)/8, $0x3f8000003f800000 // one
DATA eights<>+392(SB)/8, $0x3f8000003f800000
DATA eights<>+400(SB)/8, $0x3f8000003f800000
DATA eights<>+408(SB)/8, $0x3f8000003f800000
DATA eights<>+416(SB)/8, $0x4000000040000000 // two
DATA eights<>+424(SB)/8, $0x4000000040000000
DATA eights<>+432(SB)/8, $0x4000000040000000
DATA eights<>+440(SB)/8, $0x4000000040000000
GLOBL eights<>(SB), RODATA|NOPTR, $448

// LEAST sets to to the smaller of itself and the length of a row between two ends.
#define LEAST(from, end, to) \
	MOVQ    end, AX  \
	SUBQ    from, AX \
	CMPQ    AX, to   \
	CMOVQLT AX, to

// REST adds what is left of a row up to its end.
#define REST(at, end, sum, loop, done) \
loop: \
	CMPQ         at, end              \
	JGE          done                 \
	MOVLQSX      (at), AX             \
	IMULQ        DX, AX               \
	VBROADCASTSS (at)(BX*1), Y4       \
	VMASKMOVPS   (SI)(AX*1), Y15, Y8  \
	VMULPS       Y8, Y4, Y4           \
	VADDPS       Y4, sum, sum         \
	ADDQ         $4, at               \
	JMP          loop                 \
done:

// func addFour8(sum, x *float32, stride uintptr, columns *int32, values *float32, starts *int32, mask *int32)
TEXT ·addFour8(SB), NOSPLIT, $0-56
	MOVQ sum+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ stride+16(FP), DX
	MOVQ columns+24(FP), R8
	MOVQ values+32(FP), BX
	MOVQ starts+40(FP), R13
	MOVQ mask+48(FP), AX
	VMOVUPS (AX), Y15
	SUBQ R8, BX // from a column to its value
	MOVLQSX 0(R13), AX
	MOVLQSX 4(R13), R9
	MOVLQSX 8(R13), R10
	MOVLQSX 12(R13), R11
	MOVLQSX 16(R13), R12
	SUBQ AX, R9
	SUBQ AX, R10
	SUBQ AX, R11
	SUBQ AX, R12
	MOVQ R9, CX // entries that all four rows have
	LEAST(R9, R10, CX)
	LEAST(R10, R11, CX)
	LEAST(R11, R12, CX)
	LEAQ (R8)(R9*4), R9
	LEAQ (R8)(R10*4), R10
	LEAQ (R8)(R11*4), R11
	LEAQ (R8)(R12*4), R12
	MOVQ CX, R13
	SHLQ $2, R13
	VMOVUPS 0(DI), Y0
	VMOVUPS 256(DI), Y1 // rows of a tile of 64 patterns
	VMOVUPS 512(DI), Y2
	VMOVUPS 768(DI), Y3
	TESTQ CX, CX
	JZ    rest

entry:
	MOVLQSX      (R8), AX
	IMULQ        DX, AX
	VBROADCASTSS (R8)(BX*1), Y4
	VMASKMOVPS   (SI)(AX*1), Y15, Y8
	VMULPS       Y8, Y4, Y4
	VADDPS       Y4, Y0, Y0
	ADDQ         $4, R8
	MOVLQSX      (R9), AX
	IMULQ        DX, AX
	VBROADCASTSS (R9)(BX*1), Y5
	VMASKMOVPS   (SI)(AX*1), Y15, Y9
	VMULPS       Y9, Y5, Y5
	VADDPS       Y5, Y1, Y1
	ADDQ         $4, R9
	MOVLQSX      (R10), AX
	IMULQ        DX, AX
	VBROADCASTSS (R10)(BX*1), Y6
	VMASKMOVPS   (SI)(AX*1), Y15, Y10
	VMULPS       Y10, Y6, Y6
	VADDPS       Y6, Y2, Y2
	ADDQ         $4, R10
	MOVLQSX      (R11), AX
	IMULQ        DX, AX
	VBROADCASTSS (R11)(BX*1), Y7
	VMASKMOVPS   (SI)(AX*1), Y15, Y11
	VMULPS       Y11, Y7, Y7
	VADDPS       Y7, Y3, Y3
	ADDQ         $4, R11
	DECQ         CX
	JNZ          entry

rest:
	MOVQ R9, CX
	SUBQ R13, CX // where the next row began
	REST(R8, CX, Y0, rest0, done0)
	MOVQ R10, CX
	SUBQ R13, CX
	REST(R9, CX, Y1, rest1, done1)
	MOVQ R11, CX
	SUBQ R13, CX
	REST(R10, CX, Y2, rest2, done2)
	REST(R11, R12, Y3, rest3, done3)
	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 256(DI)
	VMOVUPS Y2, 512(DI)
	VMOVUPS Y3, 768(DI)
	VZEROUPPER
	RET

// func relax8(next, x, sum *float32, leak, keep float32, vectors int, last *int32)
TEXT ·relax8(SB), NOSPLIT, $0-48
	MOVQ next+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ sum+16(FP), DX
	MOVQ vectors+32(FP), CX
	MOVQ last+40(FP), R8
	LEAQ eights<>(SB), AX
	VBROADCASTSS leak+24(FP), Y13
	VBROADCASTSS keep+28(FP), Y14
	VPCMPEQD     Y15, Y15, Y15

vector:
	CMPQ    CX, $1
	JNE     whole
	VMOVUPS (R8), Y15

whole:
	VMASKMOVPS (DX), Y15, Y0
	VMOVUPS    32(AX), Y1
	VMAXPS     Y0, Y1, Y0
	VMOVUPS    0(AX), Y1
	VMINPS     Y0, Y1, Y0
	VADDPS     Y0, Y0, Y0      // y
	VMULPS     64(AX), Y0, Y1
	VADDPS     96(AX), Y1, Y1  // m
	VSUBPS     96(AX), Y1, Y2  // n
	VMULPS     128(AX), Y2, Y3
	VMULPS     160(AX), Y2, Y4
	VSUBPS     Y3, Y0, Y0
	VSUBPS     Y4, Y0, Y0      // r
	VMULPS     192(AX), Y0, Y5
	VADDPS     224(AX), Y5, Y5
	VMULPS     Y0, Y5, Y5
	VADDPS     256(AX), Y5, Y5
	VMULPS     Y0, Y5, Y5
	VADDPS     288(AX), Y5, Y5
	VMULPS     Y0, Y5, Y5
	VADDPS     320(AX), Y5, Y5
	VMULPS     Y0, Y5, Y5
	VADDPS     352(AX), Y5, Y5
	VMULPS     Y0, Y0, Y6
	VMULPS     Y6, Y5, Y5
	VADDPS     Y0, Y5, Y5      // p
	VPSLLD     $23, Y1, Y1
	VPADDD     384(AX), Y1, Y1 // s: the bits of one are the exponent's offset
	VMULPS     Y1, Y5, Y5
	VSUBPS     384(AX), Y1, Y1
	VADDPS     Y1, Y5, Y5      // e
	VADDPS     416(AX), Y5, Y6
	VDIVPS     Y6, Y5, Y5      // tanh
	VMULPS     Y13, Y5, Y5
	VMASKMOVPS (SI), Y15, Y7
	VMULPS     Y7, Y14, Y7
	VADDPS     Y7, Y5, Y5
	VMASKMOVPS Y5, Y15, (DI)
	ADDQ       $32, DX
	ADDQ       $32, SI
	ADDQ       $32, DI
	DECQ       CX
	JNZ        vector
	VZEROUPPER
	RET
