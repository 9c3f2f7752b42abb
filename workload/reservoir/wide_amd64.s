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

// func addRow64(sum, x *float32, stride uintptr, columns *int32, values *float32, entries int)
TEXT ·addRow64(SB), NOSPLIT, $0-48
	MOVQ sum+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ stride+16(FP), DX
	MOVQ columns+24(FP), R8
	MOVQ values+32(FP), R9
	MOVQ entries+40(FP), CX
	VMOVUPS 0(DI), Z0
	VMOVUPS 64(DI), Z1
	VMOVUPS 128(DI), Z2
	VMOVUPS 192(DI), Z3

entry:
	MOVLQSX      (R8), AX
	IMULQ        DX, AX
	VBROADCASTSS (R9), Z4
	VMULPS       0(SI)(AX*1), Z4, Z5
	VMULPS       64(SI)(AX*1), Z4, Z6
	VMULPS       128(SI)(AX*1), Z4, Z7
	VMULPS       192(SI)(AX*1), Z4, Z8
	VADDPS       Z5, Z0, Z0
	VADDPS       Z6, Z1, Z1
	VADDPS       Z7, Z2, Z2
	VADDPS       Z8, Z3, Z3
	ADDQ         $4, R8
	ADDQ         $4, R9
	DECQ         CX
	JNZ          entry
	VMOVUPS Z0, 0(DI)
	VMOVUPS Z1, 64(DI)
	VMOVUPS Z2, 128(DI)
	VMOVUPS Z3, 192(DI)
	VZEROUPPER
	RET

// func addRow16(sum, x *float32, stride uintptr, columns *int32, values *float32, entries int)
TEXT ·addRow16(SB), NOSPLIT, $0-48
	MOVQ sum+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ stride+16(FP), DX
	MOVQ columns+24(FP), R8
	MOVQ values+32(FP), R9
	MOVQ entries+40(FP), CX
	VMOVUPS 0(DI), Z0

entry:
	MOVLQSX      (R8), AX
	IMULQ        DX, AX
	VBROADCASTSS (R9), Z4
	VMULPS       0(SI)(AX*1), Z4, Z5
	VADDPS       Z5, Z0, Z0
	ADDQ         $4, R8
	ADDQ         $4, R9
	DECQ         CX
	JNZ          entry
	VMOVUPS Z0, 0(DI)
	VZEROUPPER
	RET

// LEAST sets to to the smaller of itself and the length of a row between two ends.
#define LEAST(from, end, to) \
	MOVQ    end, AX  \
	SUBQ    from, AX \
	CMPQ    AX, to   \
	CMOVQLT AX, to

// REST adds what is left of a row up to its end.
#define REST(at, end, sum, loop, done) \
loop: \
	CMPQ         at, end               \
	JGE          done                  \
	MOVLQSX      (at), AX              \
	IMULQ        DX, AX                \
	VBROADCASTSS (at)(BX*1), Z4        \
	VMULPS.Z     (SI)(AX*1), Z4, K1, Z4 \
	VADDPS       Z4, sum, sum          \
	ADDQ         $4, at                \
	JMP          loop                  \
done:

// func addFour16(sum, x *float32, stride uintptr, columns *int32, values *float32, starts *int32, mask uint32)
TEXT ·addFour16(SB), NOSPLIT, $0-52
	MOVQ sum+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ stride+16(FP), DX
	MOVQ columns+24(FP), R8
	MOVQ values+32(FP), BX
	MOVQ starts+40(FP), R13
	MOVL mask+48(FP), AX
	KMOVW AX, K1
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
	VMOVUPS 0(DI), Z0
	VMOVUPS 256(DI), Z1 // rows of a tile of 64 patterns
	VMOVUPS 512(DI), Z2
	VMOVUPS 768(DI), Z3
	TESTQ CX, CX
	JZ    rest

entry:
	MOVLQSX      (R8), AX
	IMULQ        DX, AX
	VBROADCASTSS (R8)(BX*1), Z4
	VMULPS.Z     (SI)(AX*1), Z4, K1, Z4
	VADDPS       Z4, Z0, Z0
	ADDQ         $4, R8
	MOVLQSX      (R9), AX
	IMULQ        DX, AX
	VBROADCASTSS (R9)(BX*1), Z5
	VMULPS.Z     (SI)(AX*1), Z5, K1, Z5
	VADDPS       Z5, Z1, Z1
	ADDQ         $4, R9
	MOVLQSX      (R10), AX
	IMULQ        DX, AX
	VBROADCASTSS (R10)(BX*1), Z6
	VMULPS.Z     (SI)(AX*1), Z6, K1, Z6
	VADDPS       Z6, Z2, Z2
	ADDQ         $4, R10
	MOVLQSX      (R11), AX
	IMULQ        DX, AX
	VBROADCASTSS (R11)(BX*1), Z7
	VMULPS.Z     (SI)(AX*1), Z7, K1, Z7
	VADDPS       Z7, Z3, Z3
	ADDQ         $4, R11
	DECQ         CX
	JNZ          entry

rest:
	MOVQ R9, CX
	SUBQ R13, CX // where the next row began
	REST(R8, CX, Z0, rest0, done0)
	MOVQ R10, CX
	SUBQ R13, CX
	REST(R9, CX, Z1, rest1, done1)
	MOVQ R11, CX
	SUBQ R13, CX
	REST(R10, CX, Z2, rest2, done2)
	REST(R11, R12, Z3, rest3, done3)
	VMOVUPS Z0, 0(DI)
	VMOVUPS Z1, 256(DI)
	VMOVUPS Z2, 512(DI)
	VMOVUPS Z3, 768(DI)
	VZEROUPPER
	RET

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
	LEAQ constants<>(SB), AX
	VBROADCASTSS leak+24(FP), Z16
	VBROADCASTSS keep+28(FP), Z17
	VBROADCASTSS 0(AX), Z18  // most
	VBROADCASTSS 4(AX), Z19  // least
	VBROADCASTSS 8(AX), Z20  // log2e
	VBROADCASTSS 12(AX), Z21 // shift
	VBROADCASTSS 16(AX), Z22 // high
	VBROADCASTSS 20(AX), Z23 // low
	VBROADCASTSS 24(AX), Z24 // c7
	VBROADCASTSS 28(AX), Z25 // c6
	VBROADCASTSS 32(AX), Z26 // c5
	VBROADCASTSS 36(AX), Z27 // c4
	VBROADCASTSS 40(AX), Z28 // c3
	VBROADCASTSS 44(AX), Z29 // c2
	VBROADCASTSS 48(AX), Z30 // one
	VBROADCASTSS 52(AX), Z31 // two

vector:
	CMPQ    CX, $1
	JNE     whole
	KMOVW   K2, K1

whole:
	VMOVUPS.Z (DX), K1, Z0
	VMAXPS  Z0, Z19, Z0
	VMINPS  Z0, Z18, Z0
	VADDPS  Z0, Z0, Z0   // y
	VMULPS  Z20, Z0, Z1
	VADDPS  Z21, Z1, Z1  // m
	VSUBPS  Z21, Z1, Z2  // n
	VMULPS  Z22, Z2, Z3
	VMULPS  Z23, Z2, Z4
	VSUBPS  Z3, Z0, Z0
	VSUBPS  Z4, Z0, Z0   // r
	VMULPS  Z24, Z0, Z5
	VADDPS  Z25, Z5, Z5
	VMULPS  Z0, Z5, Z5
	VADDPS  Z26, Z5, Z5
	VMULPS  Z0, Z5, Z5
	VADDPS  Z27, Z5, Z5
	VMULPS  Z0, Z5, Z5
	VADDPS  Z28, Z5, Z5
	VMULPS  Z0, Z5, Z5
	VADDPS  Z29, Z5, Z5
	VMULPS  Z0, Z0, Z6
	VMULPS  Z6, Z5, Z5
	VADDPS  Z0, Z5, Z5   // p
	VPSLLD  $23, Z1, Z1
	VPADDD  Z30, Z1, Z1  // s: the bits of one are the exponent's offset
	VMULPS  Z1, Z5, Z5
	VSUBPS  Z30, Z1, Z1
	VADDPS  Z1, Z5, Z5   // e
	VADDPS  Z31, Z5, Z6
	VDIVPS  Z6, Z5, Z5   // tanh
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
