#include "textflag.h"

// The code of simd/step.c takes its arguments in DI and SI and uses up to 2 KiB of stack below where
// it is entered, which is within the frame here. It keeps BX.

// func enterAVX512(a *args, what int)
TEXT ·enterAVX512(SB), 0, $4096-16
	MOVQ a+0(FP), DI
	MOVQ what+8(FP), SI
	MOVQ SP, BX
	LEAQ 4032(SP), AX
	ANDQ $~63, AX
	MOVQ AX, SP
	CALL ·codeAVX512(SB)
	MOVQ BX, SP
	VZEROUPPER
	RET

// func enterAVX2(a *args, what int)
TEXT ·enterAVX2(SB), 0, $4096-16
	MOVQ a+0(FP), DI
	MOVQ what+8(FP), SI
	MOVQ SP, BX
	LEAQ 4032(SP), AX
	ANDQ $~63, AX
	MOVQ AX, SP
	CALL ·codeAVX2(SB)
	MOVQ BX, SP
	VZEROUPPER
	RET
