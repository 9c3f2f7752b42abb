#include "textflag.h"

// The code of simd/step.c takes its arguments in R0 and R1 and uses up to 2 KiB of stack below where
// it is entered, which is within the frame here. It keeps R19.

// func enterNEON(a *args, what int)
TEXT ·enterNEON(SB), 0, $4096-16
	MOVD a+0(FP), R0
	MOVD what+8(FP), R1
	MOVD RSP, R19
	ADD  $4032, R19, R9
	AND  $~63, R9
	MOVD R9, RSP
	CALL ·codeNEON(SB)
	MOVD R19, RSP
	RET
