#include "textflag.h"

// The constants of tanh in kernel.go, in the order of their use.
DATA constants<>+0(SB)/4, $0x411051ec // most
DATA constants<>+4(SB)/4, $0xc11051ec // least
DATA constants<>+8(SB)/4, $0x3fb8aa3b // log2e
DATA constants<>+12(SB)/4, $0x4b400000 // shift
DATA constants<>+16(SB)/4, $0x3f317000 // high
DATA constants<>+20(SB)/4, $0x3805fdf4 // low
DATA constants<>+24(SB)/4, $0x39500d01 // c7
DATA constants<>+28(SB)/4, $0x3ab60b61 // c6
DATA constants<>+32(SB)/4, $0x3c088889 // c5
DATA constants<>+36(SB)/4, $0x3d2aaaab // c4
DATA constants<>+40(SB)/4, $0x3e2aaaab // c3
DATA constants<>+44(SB)/4, $0x3f000000 // c2
DATA constants<>+48(SB)/4, $0x3f800000 // one
DATA constants<>+52(SB)/4, $0x40000000 // two
GLOBL constants<>(SB), RODATA|NOPTR, $56

// func addRow64(row *entries, x *float32)
TEXT ·addRow64(SB), NOSPLIT, $0-16
	MOVQ row+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ 0(DI), R8  // offsets
	MOVQ 8(DI), R9  // values
	MOVQ 24(DI), DX // entries
	MOVQ 16(DI), DI // sum
	TESTQ DX, DX
	JZ    none
	VMOVUPS 0(DI), Z0
	VMOVUPS 64(DI), Z1
	VMOVUPS 128(DI), Z2
	VMOVUPS 192(DI), Z3
	XORL CX, CX

entry:
	MOVL         (R8)(CX*4), AX
	VBROADCASTSS (R9)(CX*4), Z4
	VMULPS       0(SI)(AX*4), Z4, Z5
	VMULPS       64(SI)(AX*4), Z4, Z6
	VMULPS       128(SI)(AX*4), Z4, Z7
	VMULPS       192(SI)(AX*4), Z4, Z8
	VADDPS       Z5, Z0, Z0
	VADDPS       Z6, Z1, Z1
	VADDPS       Z7, Z2, Z2
	VADDPS       Z8, Z3, Z3
	INCQ         CX
	CMPQ         CX, DX
	JLT          entry
	VMOVUPS Z0, 0(DI)
	VMOVUPS Z1, 64(DI)
	VMOVUPS Z2, 128(DI)
	VMOVUPS Z3, 192(DI)
	VZEROUPPER

none:
	RET

// ENTRY adds an entry of a row.
#define ENTRY(offsets, values, sum, product) \
	MOVL         (offsets)(CX*4), AX    \
	VBROADCASTSS (values)(CX*4), product \
	VMULPS.Z     (SI)(AX*4), product, K1, product \
	VADDPS       product, sum, sum

// func addFour16(rows *[4]entries, x *float32, mask uint32)
TEXT ·addFour16(SB), NOSPLIT, $0-20
	MOVQ rows+0(FP), DI
	MOVQ x+8(FP), SI
	MOVL mask+16(FP), AX
	KMOVW AX, K1
	MOVQ 0(DI), R8
	MOVQ 32(DI), R9
	MOVQ 64(DI), R10
	MOVQ 96(DI), R11
	MOVQ 8(DI), R12
	MOVQ 40(DI), R13
	MOVQ 72(DI), R14
	MOVQ 104(DI), R15
	MOVQ 16(DI), AX
	VMOVUPS (AX), Z0
	MOVQ 48(DI), AX
	VMOVUPS (AX), Z1
	MOVQ 80(DI), AX
	VMOVUPS (AX), Z2
	MOVQ 112(DI), AX
	VMOVUPS (AX), Z3
	XORL CX, CX
	MOVQ 120(DI), DX
	CMPQ CX, DX
	JGE  three

entry4:
	ENTRY(R8, R12, Z0, Z4)
	ENTRY(R9, R13, Z1, Z5)
	ENTRY(R10, R14, Z2, Z6)
	ENTRY(R11, R15, Z3, Z7)
	INCQ CX
	CMPQ CX, DX
	JLT  entry4

three:
	MOVQ 88(DI), DX
	CMPQ CX, DX
	JGE  two

entry3:
	ENTRY(R8, R12, Z0, Z4)
	ENTRY(R9, R13, Z1, Z5)
	ENTRY(R10, R14, Z2, Z6)
	INCQ CX
	CMPQ CX, DX
	JLT  entry3

two:
	MOVQ 56(DI), DX
	CMPQ CX, DX
	JGE  one

entry2:
	ENTRY(R8, R12, Z0, Z4)
	ENTRY(R9, R13, Z1, Z5)
	INCQ CX
	CMPQ CX, DX
	JLT  entry2

one:
	MOVQ 24(DI), DX
	CMPQ CX, DX
	JGE  store

entry1:
	ENTRY(R8, R12, Z0, Z4)
	INCQ CX
	CMPQ CX, DX
	JLT  entry1

store:
	MOVQ 16(DI), AX
	VMOVUPS Z0, (AX)
	MOVQ 48(DI), AX
	VMOVUPS Z1, (AX)
	MOVQ 80(DI), AX
	VMOVUPS Z2, (AX)
	MOVQ 112(DI), AX
	VMOVUPS Z3, (AX)
	VZEROUPPER
	RET

// TANH16 sets p to the tanh of y, which it changes with m, n and a. CONSTANTS has set Z18 to Z31.
#define TANH16(y, m, n, a, p) \
	VMAXPS y, Z19, y \
	VMINPS y, Z18, y \
	VADDPS y, y, y   \
	VMULPS Z20, y, m \
	VADDPS Z21, m, m \
	VSUBPS Z21, m, n \
	VMULPS Z22, n, a \
	VMULPS Z23, n, p \
	VSUBPS a, y, y   \
	VSUBPS p, y, y   \
	VMULPS Z24, y, p \
	VADDPS Z25, p, p \
	VMULPS y, p, p   \
	VADDPS Z26, p, p \
	VMULPS y, p, p   \
	VADDPS Z27, p, p \
	VMULPS y, p, p   \
	VADDPS Z28, p, p \
	VMULPS y, p, p   \
	VADDPS Z29, p, p \
	VMULPS y, y, a   \
	VMULPS a, p, p   \
	VADDPS y, p, p   \
	VPSLLD $23, m, m \
	VPADDD Z30, m, m \
	VMULPS m, p, p   \
	VSUBPS Z30, m, m \
	VADDPS m, p, p   \
	VADDPS Z31, p, a \
	VDIVPS a, p, p

// CONSTANTS sets Z18 to Z31 to the constants of tanh.
#define CONSTANTS(at) \
	LEAQ constants<>(SB), at \
	VBROADCASTSS 0(at), Z18 \
	VBROADCASTSS 4(at), Z19 \
	VBROADCASTSS 8(at), Z20 \
	VBROADCASTSS 12(at), Z21 \
	VBROADCASTSS 16(at), Z22 \
	VBROADCASTSS 20(at), Z23 \
	VBROADCASTSS 24(at), Z24 \
	VBROADCASTSS 28(at), Z25 \
	VBROADCASTSS 32(at), Z26 \
	VBROADCASTSS 36(at), Z27 \
	VBROADCASTSS 40(at), Z28 \
	VBROADCASTSS 44(at), Z29 \
	VBROADCASTSS 48(at), Z30 \
	VBROADCASTSS 52(at), Z31

// func relax16(next, x, sum *float32, leak, keep float32, vectors int, last uint32)
TEXT ·relax16(SB), NOSPLIT, $0-44
	MOVQ next+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ sum+16(FP), DX
	MOVQ vectors+32(FP), CX
	MOVL $0xffff, AX
	KMOVW AX, K1
	MOVL last+40(FP), AX
	KMOVW AX, K2
	CONSTANTS(AX)
	VBROADCASTSS leak+24(FP), Z16
	VBROADCASTSS keep+28(FP), Z17

vector:
	CMPQ    CX, $1
	JNE     whole
	KMOVW   K2, K1

whole:
	VMOVUPS.Z (DX), K1, Z0
	TANH16(Z0, Z1, Z2, Z3, Z5)
	VMULPS  Z16, Z5, Z5
	VMULPS.Z (SI), Z17, K1, Z7
	VADDPS  Z7, Z5, Z5
	VMOVUPS Z5, K1, (DI)
	ADDQ    $64, DX
	ADDQ    $64, SI
	ADDQ    $64, DI
	DECQ    CX
	JNZ     vector
	VZEROUPPER
	RET

// PAIR16 adds an entry of a row.
#define PAIR16(row, sum, product) \
	MOVL         (row)(CX*8), AX          \
	VBROADCASTSS 4(row)(CX*8), product    \
	VMULPS       (SI)(AX*1), product, product \
	VADDPS       product, sum, sum

// MOVE16 sets the next state of a neuron, and adds its part to the mean.
#define MOVE16(sum, at) \
	TANH16(sum, Z4, Z5, Z6, Z7)        \
	MOVL    at(R13), AX                \
	VMULPS  Z15, Z7, Z7                \
	VMULPS  (SI)(AX*1), Z16, Z4        \
	VADDPS  Z4, Z7, Z7                 \
	VMOVUPS Z7, (BX)(AX*1)             \
	VDIVPS  Z17, Z7, Z7                \
	VADDPS  (R14)(AX*1), Z7, Z7        \
	VMOVUPS Z7, (R14)(AX*1)

// func step16(w *walk)
TEXT ·step16(SB), NOSPLIT, $0-8
	MOVQ w+0(FP), DX
	MOVQ 0(DX), R12
	MOVQ 8(DX), R13
	MOVQ 16(DX), R15
	MOVQ 24(DX), SI
	MOVQ 32(DX), BX
	MOVQ 40(DX), R14
	VBROADCASTSS 48(DX), Z15 // leak
	VBROADCASTSS 52(DX), Z16 // keep
	VBROADCASTSS 56(DX), Z17 // parts
	CONSTANTS(AX)

four:
	MOVL 0(R13), R8
	MOVL 16(R13), R9
	MOVL 32(R13), R10
	MOVL 48(R13), R11
	LEAQ (R12)(R8*8), R8
	LEAQ (R12)(R9*8), R9
	LEAQ (R12)(R10*8), R10
	LEAQ (R12)(R11*8), R11
	VBROADCASTSS 12(R13), Z0
	VBROADCASTSS 28(R13), Z1
	VBROADCASTSS 44(R13), Z2
	VBROADCASTSS 60(R13), Z3
	XORL CX, CX
	MOVL 52(R13), DX
	CMPQ CX, DX
	JGE  three

entry4:
	PAIR16(R8, Z0, Z4)
	PAIR16(R9, Z1, Z5)
	PAIR16(R10, Z2, Z6)
	PAIR16(R11, Z3, Z7)
	INCQ CX
	CMPQ CX, DX
	JLT  entry4

three:
	MOVL 36(R13), DX
	CMPQ CX, DX
	JGE  two

entry3:
	PAIR16(R8, Z0, Z4)
	PAIR16(R9, Z1, Z5)
	PAIR16(R10, Z2, Z6)
	INCQ CX
	CMPQ CX, DX
	JLT  entry3

two:
	MOVL 20(R13), DX
	CMPQ CX, DX
	JGE  one

entry2:
	PAIR16(R8, Z0, Z4)
	PAIR16(R9, Z1, Z5)
	INCQ CX
	CMPQ CX, DX
	JLT  entry2

one:
	MOVL 4(R13), DX
	CMPQ CX, DX
	JGE  move

entry1:
	PAIR16(R8, Z0, Z4)
	INCQ CX
	CMPQ CX, DX
	JLT  entry1

move:
	MOVE16(Z0, 8)
	MOVE16(Z1, 24)
	MOVE16(Z2, 40)
	MOVE16(Z3, 56)
	ADDQ $64, R13
	DECQ R15
	JNZ  four
	VZEROUPPER
	RET

// The numbers from 0 to 15.
DATA count<>+0(SB)/8, $0x0000000100000000
DATA count<>+8(SB)/8, $0x0000000300000002
DATA count<>+16(SB)/8, $0x0000000500000004
DATA count<>+24(SB)/8, $0x0000000700000006
DATA count<>+32(SB)/8, $0x0000000900000008
DATA count<>+40(SB)/8, $0x0000000b0000000a
DATA count<>+48(SB)/8, $0x0000000d0000000c
DATA count<>+56(SB)/8, $0x0000000f0000000e
GLOBL count<>(SB), RODATA|NOPTR, $64

// The constants of Philox4x32-10: two factors and two steps of the key. Then
// those of philox.Symmetric32.
DATA philox<>+0(SB)/4, $0xd2511f53 // M0
DATA philox<>+4(SB)/4, $0xcd9e8d57 // M1
DATA philox<>+8(SB)/4, $0x9e3779b9 // W0
DATA philox<>+12(SB)/4, $0xbb67ae85 // W1
DATA philox<>+16(SB)/4, $0x3f000000 // half
DATA philox<>+20(SB)/4, $0x34800000 // 2 to the -22
DATA philox<>+24(SB)/4, $0x3f800000 // one
GLOBL philox<>(SB), RODATA|NOPTR, $28

// MULTIPLY sets high and low to the halves of the products of sixteen words
// with a factor. The instruction multiplies even words; K1 selects odd ones. It
// uses Z8 and Z9.
#define MULTIPLY(factor, word, high, low) \
	VPMULUDQ  factor, word, low  \
	VPSRLQ    $32, word, Z8      \
	VPMULUDQ  factor, Z8, Z8     \
	VPSRLQ    $32, low, high     \
	VPSLLQ    $32, Z8, Z9        \
	VMOVDQA32 Z8, K1, high       \
	VMOVDQA32 Z9, K1, low

// CONVERT stores the noise of one neuron.
#define CONVERT(word, at) \
	VPSRLD    $9, word, word    \
	VCVTDQ2PS word, word        \
	VADDPS    Z16, word, word   \
	VMULPS    Z17, word, word   \
	VSUBPS    Z18, word, word   \
	VMULPS    Z19, word, word   \
	VMOVUPS   word, at(DI)

// func noise16(dst *float32, item uint64, step, group, seed, stream uint32, amplitude float32)
TEXT ·noise16(SB), NOSPLIT, $0-36
	MOVQ dst+0(FP), DI
	LEAQ philox<>(SB), AX
	MOVL $0xaaaa, DX
	KMOVW DX, K1
	MOVQ item+8(FP), R8
	VPBROADCASTD R8, Z0
	VPADDD       count<>(SB), Z0, Z0
	SHRQ $32, R8
	VPBROADCASTD R8, Z1
	MOVL step+16(FP), R8
	VPBROADCASTD R8, Z2
	MOVL group+20(FP), R8
	VPBROADCASTD R8, Z3
	MOVL seed+24(FP), R8
	VPBROADCASTD R8, Z10
	MOVL stream+28(FP), R8
	VPBROADCASTD R8, Z11
	VPBROADCASTD 0(AX), Z12
	VPBROADCASTD 4(AX), Z13
	VPBROADCASTD 8(AX), Z14
	VPBROADCASTD 12(AX), Z15
	VBROADCASTSS 16(AX), Z16
	VBROADCASTSS 20(AX), Z17
	VBROADCASTSS 24(AX), Z18
	VBROADCASTSS amplitude+32(FP), Z19
	MOVQ $10, CX

round:
	MULTIPLY(Z12, Z0, Z4, Z5)
	MULTIPLY(Z13, Z2, Z6, Z7)
	VPTERNLOGD $0x96, Z10, Z6, Z1 // exclusive or of all three
	VPTERNLOGD $0x96, Z11, Z4, Z3
	VMOVDQA32  Z1, Z0
	VMOVDQA32  Z7, Z1
	VMOVDQA32  Z3, Z2
	VMOVDQA32  Z5, Z3
	VPADDD     Z14, Z10, Z10
	VPADDD     Z15, Z11, Z11
	DECQ       CX
	JNZ        round

	CONVERT(Z0, 0)
	CONVERT(Z1, 256) // rows of a tile of 64 patterns
	CONVERT(Z2, 512)
	CONVERT(Z3, 768)
	VZEROUPPER
	RET
