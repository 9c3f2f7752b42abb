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

// func offsets8(dst *uint32, columns *int32, entries int, stride, most uint32) (highest uint32)
TEXT ·offsets8(SB), NOSPLIT, $0-36
	MOVQ dst+0(FP), DI
	MOVQ columns+8(FP), SI
	MOVQ entries+16(FP), CX
	MOVL stride+24(FP), AX
	VMOVD AX, X0
	VPBROADCASTD X0, Y0
	MOVL most+28(FP), AX
	VMOVD AX, X1
	VPBROADCASTD X1, Y1
	VPXOR Y2, Y2, Y2
	SUBQ $8, CX
	JL   last

eight:
	VMOVDQU (SI), Y3
	VPMAXUD Y3, Y2, Y2
	VPMINUD Y3, Y1, Y3
	VPMULLD Y0, Y3, Y3
	VMOVDQU Y3, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JGE     eight

last:
	ADDQ $8, CX
	JZ   done
	LEAQ ·eighths+32(SB), AX
	SHLQ $2, CX
	SUBQ CX, AX
	VMOVDQU    (AX), Y4
	VPMASKMOVD (SI), Y4, Y3
	VPMAXUD    Y3, Y2, Y2
	VPMINUD    Y3, Y1, Y3
	VPMULLD    Y0, Y3, Y3
	VPMASKMOVD Y3, Y4, (DI)

done:
	VEXTRACTI128 $1, Y2, X3
	VPMAXUD      X3, X2, X2
	VPSHUFD      $0x4e, X2, X3
	VPMAXUD      X3, X2, X2
	VPSHUFD      $0xb1, X2, X3
	VPMAXUD      X3, X2, X2
	VMOVD        X2, AX
	MOVL         AX, highest+32(FP)
	VZEROUPPER
	RET

// ENTRY adds an entry of a row.
#define ENTRY(offsets, values, sum, product, state) \
	MOVL         (offsets)(CX*4), AX    \
	VBROADCASTSS (values)(CX*4), product \
	VMASKMOVPS   (SI)(AX*4), Y15, state \
	VMULPS       state, product, product \
	VADDPS       product, sum, sum

// func addFour8(rows *[4]entries, x *float32, mask *int32)
TEXT ·addFour8(SB), NOSPLIT, $0-24
	MOVQ rows+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ mask+16(FP), AX
	VMOVUPS (AX), Y15
	MOVQ 0(DI), R8
	MOVQ 32(DI), R9
	MOVQ 64(DI), R10
	MOVQ 96(DI), R11
	MOVQ 8(DI), R12
	MOVQ 40(DI), R13
	MOVQ 72(DI), R14
	MOVQ 104(DI), R15
	MOVQ 16(DI), AX
	VMOVUPS (AX), Y0
	MOVQ 48(DI), AX
	VMOVUPS (AX), Y1
	MOVQ 80(DI), AX
	VMOVUPS (AX), Y2
	MOVQ 112(DI), AX
	VMOVUPS (AX), Y3
	XORL CX, CX
	MOVQ 120(DI), DX
	CMPQ CX, DX
	JGE  three

entry4:
	ENTRY(R8, R12, Y0, Y4, Y8)
	ENTRY(R9, R13, Y1, Y5, Y9)
	ENTRY(R10, R14, Y2, Y6, Y10)
	ENTRY(R11, R15, Y3, Y7, Y11)
	INCQ CX
	CMPQ CX, DX
	JLT  entry4

three:
	MOVQ 88(DI), DX
	CMPQ CX, DX
	JGE  two

entry3:
	ENTRY(R8, R12, Y0, Y4, Y8)
	ENTRY(R9, R13, Y1, Y5, Y9)
	ENTRY(R10, R14, Y2, Y6, Y10)
	INCQ CX
	CMPQ CX, DX
	JLT  entry3

two:
	MOVQ 56(DI), DX
	CMPQ CX, DX
	JGE  one

entry2:
	ENTRY(R8, R12, Y0, Y4, Y8)
	ENTRY(R9, R13, Y1, Y5, Y9)
	INCQ CX
	CMPQ CX, DX
	JLT  entry2

one:
	MOVQ 24(DI), DX
	CMPQ CX, DX
	JGE  store

entry1:
	ENTRY(R8, R12, Y0, Y4, Y8)
	INCQ CX
	CMPQ CX, DX
	JLT  entry1

store:
	MOVQ 16(DI), AX
	VMOVUPS Y0, (AX)
	MOVQ 48(DI), AX
	VMOVUPS Y1, (AX)
	MOVQ 80(DI), AX
	VMOVUPS Y2, (AX)
	MOVQ 112(DI), AX
	VMOVUPS Y3, (AX)
	VZEROUPPER
	RET

// TANH8 sets p to the tanh of y, which it changes with m, n and a. at has the constants.
#define TANH8(at, y, m, n, a, p) \
	VMOVUPS 32(at), p     \
	VMAXPS  y, p, y       \
	VMOVUPS 0(at), p      \
	VMINPS  y, p, y       \
	VADDPS  y, y, y       \
	VMULPS  64(at), y, m  \
	VADDPS  96(at), m, m  \
	VSUBPS  96(at), m, n  \
	VMULPS  128(at), n, a \
	VMULPS  160(at), n, p \
	VSUBPS  a, y, y       \
	VSUBPS  p, y, y       \
	VMULPS  192(at), y, p \
	VADDPS  224(at), p, p \
	VMULPS  y, p, p       \
	VADDPS  256(at), p, p \
	VMULPS  y, p, p       \
	VADDPS  288(at), p, p \
	VMULPS  y, p, p       \
	VADDPS  320(at), p, p \
	VMULPS  y, p, p       \
	VADDPS  352(at), p, p \
	VMULPS  y, y, a       \
	VMULPS  a, p, p       \
	VADDPS  y, p, p       \
	VPSLLD  $23, m, m     \
	VPADDD  384(at), m, m \
	VMULPS  m, p, p       \
	VSUBPS  384(at), m, m \
	VADDPS  m, p, p       \
	VADDPS  416(at), p, a \
	VDIVPS  a, p, p

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
	TANH8(AX, Y0, Y1, Y2, Y3, Y5)
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

// func addMean8(mean, x *float32, parts float32, eights int)
TEXT ·addMean8(SB), NOSPLIT, $0-32
	MOVQ mean+0(FP), DI
	MOVQ x+8(FP), SI
	VBROADCASTSS parts+16(FP), Y0
	MOVQ eights+24(FP), CX

eight:
	VMOVUPS (SI), Y1
	VDIVPS  Y0, Y1, Y1
	VADDPS  (DI), Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	DECQ    CX
	JNZ     eight
	VZEROUPPER
	RET

// func pack8(dst *uint64, columns *int32, values *float32, entries int, first, stride, most uint32) (highest uint32)
TEXT ·pack8(SB), NOSPLIT, $0-52
	MOVQ dst+0(FP), DI
	MOVQ columns+8(FP), SI
	MOVQ values+16(FP), R8
	MOVQ entries+24(FP), CX
	MOVL first+32(FP), AX
	VMOVD AX, X0
	VPBROADCASTD X0, Y0
	MOVL stride+36(FP), AX
	VMOVD AX, X1
	VPBROADCASTD X1, Y1
	MOVL most+40(FP), AX
	VMOVD AX, X2
	VPBROADCASTD X2, Y2
	VPXOR    Y3, Y3, Y3
	VPCMPEQD Y4, Y4, Y4
	LEAQ ·eighths+32(SB), DX

eight:
	CMPQ CX, $8
	JGE  whole
	MOVQ CX, AX
	SHLQ $2, AX
	SUBQ AX, DX
	VMOVDQU (DX), Y4

whole:
	VPMASKMOVD (SI), Y4, Y5
	VPMASKMOVD (R8), Y4, Y6
	VPMAXUD    Y5, Y3, Y3
	VPMINUD    Y5, Y2, Y5
	VPADDD     Y0, Y5, Y5
	VPMULLD    Y1, Y5, Y5
	VPUNPCKLDQ Y6, Y5, Y7
	VPUNPCKHDQ Y6, Y5, Y8
	VPERM2I128 $0x20, Y8, Y7, Y9
	VPERM2I128 $0x31, Y8, Y7, Y10
	VMOVDQU    Y9, (DI)
	VMOVDQU    Y10, 32(DI)
	ADDQ       $32, SI
	ADDQ       $32, R8
	ADDQ       $64, DI
	SUBQ       $8, CX
	JG         eight
	VEXTRACTI128 $1, Y3, X4
	VPMAXUD      X4, X3, X3
	VPSHUFD      $0x4e, X3, X4
	VPMAXUD      X4, X3, X3
	VPSHUFD      $0xb1, X3, X4
	VPMAXUD      X4, X3, X3
	VMOVD        X3, AX
	MOVL         AX, highest+48(FP)
	VZEROUPPER
	RET

// PAIR8 adds an entry of a row.
#define PAIR8(row, sum, product) \
	MOVL         (row)(CX*8), AX          \
	VBROADCASTSS 4(row)(CX*8), product    \
	VMULPS       (SI)(AX*1), product, product \
	VADDPS       product, sum, sum

// MOVE8 sets the next state of a neuron, and adds its part to the mean.
#define MOVE8(sum, at) \
	TANH8(DI, sum, Y4, Y5, Y6, Y7)     \
	MOVL    at(R13), AX                \
	VMULPS  Y13, Y7, Y7                \
	VMULPS  (SI)(AX*1), Y14, Y4        \
	VADDPS  Y4, Y7, Y7                 \
	VMOVUPS Y7, (BX)(AX*1)             \
	VDIVPS  Y15, Y7, Y7                \
	VADDPS  (R14)(AX*1), Y7, Y7        \
	VMOVUPS Y7, (R14)(AX*1)

// func step8(w *walk)
TEXT ·step8(SB), NOSPLIT, $0-8
	MOVQ w+0(FP), DX
	MOVQ 0(DX), R12
	MOVQ 8(DX), R13
	MOVQ 16(DX), R15
	MOVQ 24(DX), SI
	MOVQ 32(DX), BX
	MOVQ 40(DX), R14
	VBROADCASTSS 48(DX), Y13 // leak
	VBROADCASTSS 52(DX), Y14 // keep
	VBROADCASTSS 56(DX), Y15 // parts
	LEAQ eights<>(SB), DI

four:
	MOVL 0(R13), R8
	MOVL 16(R13), R9
	MOVL 32(R13), R10
	MOVL 48(R13), R11
	LEAQ (R12)(R8*8), R8
	LEAQ (R12)(R9*8), R9
	LEAQ (R12)(R10*8), R10
	LEAQ (R12)(R11*8), R11
	VBROADCASTSS 12(R13), Y0
	VBROADCASTSS 28(R13), Y1
	VBROADCASTSS 44(R13), Y2
	VBROADCASTSS 60(R13), Y3
	XORL CX, CX
	MOVL 52(R13), DX
	CMPQ CX, DX
	JGE  three

entry4:
	PAIR8(R8, Y0, Y4)
	PAIR8(R9, Y1, Y5)
	PAIR8(R10, Y2, Y6)
	PAIR8(R11, Y3, Y7)
	INCQ CX
	CMPQ CX, DX
	JLT  entry4

three:
	MOVL 36(R13), DX
	CMPQ CX, DX
	JGE  two

entry3:
	PAIR8(R8, Y0, Y4)
	PAIR8(R9, Y1, Y5)
	PAIR8(R10, Y2, Y6)
	INCQ CX
	CMPQ CX, DX
	JLT  entry3

two:
	MOVL 20(R13), DX
	CMPQ CX, DX
	JGE  one

entry2:
	PAIR8(R8, Y0, Y4)
	PAIR8(R9, Y1, Y5)
	INCQ CX
	CMPQ CX, DX
	JLT  entry2

one:
	MOVL 4(R13), DX
	CMPQ CX, DX
	JGE  move

entry1:
	PAIR8(R8, Y0, Y4)
	INCQ CX
	CMPQ CX, DX
	JLT  entry1

move:
	MOVE8(Y0, 8)
	MOVE8(Y1, 24)
	MOVE8(Y2, 40)
	MOVE8(Y3, 56)
	ADDQ $64, R13
	DECQ R15
	JNZ  four
	VZEROUPPER
	RET
