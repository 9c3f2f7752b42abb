#include "textflag.h"

// Kernels that have sixteen neurons for elements, on processors with AVX-512.

// Each of sixteen numbers twice: the lower eight, then the upper.
DATA twice<>+0(SB)/8, $0x0000000000000000
DATA twice<>+8(SB)/8, $0x0000000100000001
DATA twice<>+16(SB)/8, $0x0000000200000002
DATA twice<>+24(SB)/8, $0x0000000300000003
DATA twice<>+32(SB)/8, $0x0000000400000004
DATA twice<>+40(SB)/8, $0x0000000500000005
DATA twice<>+48(SB)/8, $0x0000000600000006
DATA twice<>+56(SB)/8, $0x0000000700000007
DATA twice<>+64(SB)/8, $0x0000000800000008
DATA twice<>+72(SB)/8, $0x0000000900000009
DATA twice<>+80(SB)/8, $0x0000000a0000000a
DATA twice<>+88(SB)/8, $0x0000000b0000000b
DATA twice<>+96(SB)/8, $0x0000000c0000000c
DATA twice<>+104(SB)/8, $0x0000000d0000000d
DATA twice<>+112(SB)/8, $0x0000000e0000000e
DATA twice<>+120(SB)/8, $0x0000000f0000000f
GLOBL twice<>(SB), RODATA|NOPTR, $128

// SLOT reads what a slice is: offsets to R8, values to R9, states to SI, sums to DI, lengths to
// Z20, bias to Z0, the last place to Z21, and the slots to CX. Z22 is the slot, Z23 is one, Z24 the
// highest place so far.
#define SLOT \
	MOVQ s+0(FP), DX           \
	MOVQ 0(DX), R8             \
	MOVQ 8(DX), R9             \
	MOVQ 16(DX), SI            \
	MOVQ 24(DX), DI            \
	MOVQ 32(DX), AX            \
	VMOVDQU32 (AX), Z20        \
	MOVL (AX), CX              \
	MOVQ 40(DX), AX            \
	VMOVUPS (AX), Z0           \
	VPBROADCASTD 48(DX), Z21   \
	VPXORD Z22, Z22, Z22       \
	VPXORD Z24, Z24, Z24       \
	VPTERNLOGD $0xff, Z23, Z23, Z23 \
	VPABSD Z23, Z23

// HIGHEST sets the result to the highest of Z24.
#define HIGHEST \
	VEXTRACTI64X4 $1, Z24, Y1  \
	VPMAXUD Y1, Y24, Y1        \
	VEXTRACTI128 $1, Y1, X2    \
	VPMAXUD X2, X1, X1         \
	VPSHUFD $0x4e, X1, X2      \
	VPMAXUD X2, X1, X1         \
	VPSHUFD $0xb1, X1, X2      \
	VPMAXUD X2, X1, X1         \
	VMOVD X1, AX               \
	MOVL AX, highest+8(FP)

// func gather1(s *slot) (highest uint32)
TEXT ·gather1(SB), NOSPLIT, $0-12
	SLOT
	TESTL CX, CX
	JZ    end

slot:
	VPCMPD  $6, Z22, Z20, K1 // neurons that have so many
	KMOVW   K1, K2
	VPMOVZXWD (R8), Z1
	VPMAXUD Z1, Z24, K1, Z24
	VPMINUD Z21, Z1, Z1
	VGATHERDPS (SI)(Z1*4), K2, Z2
	VMULPS  (R9), Z2, Z2
	VADDPS  Z2, Z0, K1, Z0
	VPADDD  Z23, Z22, Z22
	ADDQ    $32, R8
	ADDQ    $64, R9
	DECL    CX
	JNZ     slot

end:
	VMOVUPS Z0, (DI)
	HIGHEST
	VZEROUPPER
	RET

// func gather2(s *slot) (highest uint32)
TEXT ·gather2(SB), NOSPLIT, $0-12
	SLOT
	VMOVDQU32 twice<>+0(SB), Z10
	VMOVDQU32 twice<>+64(SB), Z11
	VPERMPS Z0, Z11, Z5
	VPERMPS Z0, Z10, Z0
	VPERMD  Z20, Z10, Z12 // lengths, twice each
	VPERMD  Z20, Z11, Z13
	TESTL CX, CX
	JZ    end

slot:
	VPCMPD  $6, Z22, Z20, K1
	VPCMPD  $6, Z22, Z12, K3
	VPCMPD  $6, Z22, Z13, K4
	KMOVW   K1, K2
	KSHIFTRW $8, K1, K5
	VPMOVZXWD (R8), Z1
	VPMAXUD Z1, Z24, K1, Z24
	VPMINUD Z21, Z1, Z1
	VEXTRACTI64X4 $1, Z1, Y6
	VGATHERDPD (SI)(Y1*8), K2, Z2
	VGATHERDPD (SI)(Y6*8), K5, Z7
	VMOVUPS (R9), Z3
	VPERMPS Z3, Z10, Z4
	VPERMPS Z3, Z11, Z8
	VMULPS  Z4, Z2, Z2
	VADDPS  Z2, Z0, K3, Z0
	VMULPS  Z8, Z7, Z7
	VADDPS  Z7, Z5, K4, Z5
	VPADDD  Z23, Z22, Z22
	ADDQ    $32, R8
	ADDQ    $64, R9
	DECL    CX
	JNZ     slot

end:
	VMOVUPS Z0, (DI)
	VMOVUPS Z5, 64(DI)
	HIGHEST
	VZEROUPPER
	RET
