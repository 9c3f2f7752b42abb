#include "textflag.h"

// The byte order of a 32-bit word reversed, four times.
DATA flip<>+0(SB)/8, $0x0405060700010203
DATA flip<>+8(SB)/8, $0x0c0d0e0f08090a0b
GLOBL flip<>(SB), RODATA|NOPTR, $16

// The initial hash value of FIPS 180-4, section 5.3.3.
DATA initial<>+0(SB)/4, $0x6a09e667
DATA initial<>+4(SB)/4, $0xbb67ae85
DATA initial<>+8(SB)/4, $0x3c6ef372
DATA initial<>+12(SB)/4, $0xa54ff53a
DATA initial<>+16(SB)/4, $0x510e527f
DATA initial<>+20(SB)/4, $0x9b05688c
DATA initial<>+24(SB)/4, $0x1f83d9ab
DATA initial<>+28(SB)/4, $0x5be0cd19
GLOBL initial<>(SB), RODATA|NOPTR, $32

// TRANSPOSE exchanges, in each quarter of the registers, the element of a word
// with the register of a word. It uses Z8 to Z11.
#define TRANSPOSE(v0, v1, v2, v3) \
	VPUNPCKLDQ  v1, v0, Z8   \
	VPUNPCKHDQ  v1, v0, Z9   \
	VPUNPCKLDQ  v3, v2, Z10  \
	VPUNPCKHDQ  v3, v2, Z11  \
	VPUNPCKLQDQ Z10, Z8, v0  \
	VPUNPCKHQDQ Z10, Z8, v1  \
	VPUNPCKLQDQ Z11, Z9, v2  \
	VPUNPCKHQDQ Z11, Z9, v3

// LOAD brings 16 bytes of lanes j, j+4, j+8 and j+12 to the quarters of v,
// whose lowest quarter is x. Lanes are 128 bytes apart.
#define LOAD(at, j, x, v) \
	VMOVDQU32    (at+128*(j))(SI), x           \
	VINSERTI32X4 $1, (at+128*(j+4))(SI), v, v  \
	VINSERTI32X4 $2, (at+128*(j+8))(SI), v, v  \
	VINSERTI32X4 $3, (at+128*(j+12))(SI), v, v

// WORDS brings four words of the message, in the order of numbers, to four
// registers with one lane in each element.
#define WORDS(at, x0, x1, x2, x3, v0, v1, v2, v3) \
	LOAD(at, 0, x0, v0)        \
	LOAD(at, 1, x1, v1)        \
	LOAD(at, 2, x2, v2)        \
	LOAD(at, 3, x3, v3)        \
	TRANSPOSE(v0, v1, v2, v3)  \
	VPSHUFB Z15, v0, v0        \
	VPSHUFB Z15, v1, v1        \
	VPSHUFB Z15, v2, v2        \
	VPSHUFB Z15, v3, v3

// STORE writes the quarters of v to the digests of lanes j, j+4, j+8 and j+12.
#define STORE(at, j, v) \
	VEXTRACTI32X4 $0, v, (at+32*(j))(DI)    \
	VEXTRACTI32X4 $1, v, (at+32*(j+4))(DI)  \
	VEXTRACTI32X4 $2, v, (at+32*(j+8))(DI)  \
	VEXTRACTI32X4 $3, v, (at+32*(j+12))(DI)

#define DIGEST(at, v0, v1, v2, v3) \
	TRANSPOSE(v0, v1, v2, v3)  \
	VPSHUFB Z15, v0, v0        \
	VPSHUFB Z15, v1, v1        \
	VPSHUFB Z15, v2, v2        \
	VPSHUFB Z15, v3, v3        \
	STORE(at, 0, v0)           \
	STORE(at, 1, v1)           \
	STORE(at, 2, v2)           \
	STORE(at, 3, v3)

// ROUND is a step of FIPS 180-4, section 6.2.2.3. The three-operand logic is
// 0x96 exclusive or, 0xca choice, 0xe8 majority. h becomes the new a, d the
// new e; the caller renames the rest.
#define ROUND(a, b, c, d, e, f, g, h, w, i) \
	VPADDD      w, h, h               \
	VPADDD.BCST (4*i)(R8), h, h       \
	VPRORD      $6, e, Z8             \
	VPRORD      $11, e, Z9            \
	VPRORD      $25, e, Z10           \
	VPTERNLOGD  $0x96, Z10, Z9, Z8    \
	VMOVDQA32   e, Z11                \
	VPTERNLOGD  $0xca, g, f, Z11      \
	VPADDD      Z8, h, h              \
	VPADDD      Z11, h, h             \
	VPADDD      h, d, d               \
	VPRORD      $2, a, Z12            \
	VPRORD      $13, a, Z13           \
	VPRORD      $22, a, Z14           \
	VPTERNLOGD  $0x96, Z14, Z13, Z12  \
	VMOVDQA32   a, Z11                \
	VPTERNLOGD  $0xe8, c, b, Z11      \
	VPADDD      Z12, h, h             \
	VPADDD      Z11, h, h

#define ROUNDS \
	ROUND(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z16, 0)   \
	ROUND(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z17, 1)   \
	ROUND(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z18, 2)   \
	ROUND(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z19, 3)   \
	ROUND(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z20, 4)   \
	ROUND(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z21, 5)   \
	ROUND(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z22, 6)   \
	ROUND(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z23, 7)   \
	ROUND(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z24, 8)   \
	ROUND(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z25, 9)   \
	ROUND(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z26, 10)  \
	ROUND(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z27, 11)  \
	ROUND(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z28, 12)  \
	ROUND(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z29, 13)  \
	ROUND(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z30, 14)  \
	ROUND(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z31, 15)

// SCHEDULE replaces a word of the message schedule by the one sixteen later
// (section 6.2.2.1), from the words 1, 9 and 14 after it.
#define SCHEDULE(w, w1, w9, w14) \
	VPRORD     $7, w1, Z8            \
	VPRORD     $18, w1, Z9           \
	VPSRLD     $3, w1, Z10           \
	VPTERNLOGD $0x96, Z10, Z9, Z8    \
	VPADDD     w9, w, w              \
	VPRORD     $17, w14, Z11         \
	VPRORD     $19, w14, Z12         \
	VPSRLD     $10, w14, Z13         \
	VPTERNLOGD $0x96, Z13, Z12, Z11  \
	VPADDD     Z8, w, w              \
	VPADDD     Z11, w, w

#define SCHEDULES \
	SCHEDULE(Z16, Z17, Z25, Z30)  \
	SCHEDULE(Z17, Z18, Z26, Z31)  \
	SCHEDULE(Z18, Z19, Z27, Z16)  \
	SCHEDULE(Z19, Z20, Z28, Z17)  \
	SCHEDULE(Z20, Z21, Z29, Z18)  \
	SCHEDULE(Z21, Z22, Z30, Z19)  \
	SCHEDULE(Z22, Z23, Z31, Z20)  \
	SCHEDULE(Z23, Z24, Z16, Z21)  \
	SCHEDULE(Z24, Z25, Z17, Z22)  \
	SCHEDULE(Z25, Z26, Z18, Z23)  \
	SCHEDULE(Z26, Z27, Z19, Z24)  \
	SCHEDULE(Z27, Z28, Z20, Z25)  \
	SCHEDULE(Z28, Z29, Z21, Z26)  \
	SCHEDULE(Z29, Z30, Z22, Z27)  \
	SCHEDULE(Z30, Z31, Z23, Z28)  \
	SCHEDULE(Z31, Z16, Z24, Z29)

// func sum16(dst *[lanes * Size]byte, m *messages, blocks int, k *[64]uint32)
TEXT ·sum16(SB), NOSPLIT, $512-32
	MOVQ dst+0(FP), DI
	MOVQ m+8(FP), SI
	MOVQ blocks+16(FP), CX
	VBROADCASTI32X4 flip<>(SB), Z15
	LEAQ initial<>(SB), AX
	VPBROADCASTD 0(AX), Z0
	VPBROADCASTD 4(AX), Z1
	VPBROADCASTD 8(AX), Z2
	VPBROADCASTD 12(AX), Z3
	VPBROADCASTD 16(AX), Z4
	VPBROADCASTD 20(AX), Z5
	VPBROADCASTD 24(AX), Z6
	VPBROADCASTD 28(AX), Z7

block:
	VMOVDQU32 Z0, 0(SP)
	VMOVDQU32 Z1, 64(SP)
	VMOVDQU32 Z2, 128(SP)
	VMOVDQU32 Z3, 192(SP)
	VMOVDQU32 Z4, 256(SP)
	VMOVDQU32 Z5, 320(SP)
	VMOVDQU32 Z6, 384(SP)
	VMOVDQU32 Z7, 448(SP)
	WORDS(0, X16, X17, X18, X19, Z16, Z17, Z18, Z19)
	WORDS(16, X20, X21, X22, X23, Z20, Z21, Z22, Z23)
	WORDS(32, X24, X25, X26, X27, Z24, Z25, Z26, Z27)
	WORDS(48, X28, X29, X30, X31, Z28, Z29, Z30, Z31)
	MOVQ k+24(FP), R8
	MOVQ $3, DX

rounds:
	ROUNDS
	SCHEDULES
	ADDQ $64, R8
	DECQ DX
	JNZ  rounds
	ROUNDS
	VPADDD 0(SP), Z0, Z0
	VPADDD 64(SP), Z1, Z1
	VPADDD 128(SP), Z2, Z2
	VPADDD 192(SP), Z3, Z3
	VPADDD 256(SP), Z4, Z4
	VPADDD 320(SP), Z5, Z5
	VPADDD 384(SP), Z6, Z6
	VPADDD 448(SP), Z7, Z7
	ADDQ $64, SI
	DECQ CX
	JNZ  block

	DIGEST(0, Z0, Z1, Z2, Z3)
	DIGEST(16, Z4, Z5, Z6, Z7)
	VZEROUPPER
	RET
