#include "textflag.h"

// func productAVX512(out, a, b *float64, count, n int)
TEXT ·productAVX512(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ count+24(FP), CX
	MOVQ n+32(FP), R8
	SHLQ $3, R8             // bytes of the real parts
	LEAQ (SI)(R8*1), R10    // imaginary parts of a

row512:
	LEAQ   (DX)(R8*1), R11  // imaginary parts of b
	VPXORQ Z0, Z0, Z0       // real sums
	VPXORQ Z1, Z1, Z1       // imaginary sums
	XORQ   R9, R9

some512:
	VMOVUPD (SI)(R9*1), Z2
	VMOVUPD (R10)(R9*1), Z3
	VMOVUPD (DX)(R9*1), Z4
	VMOVUPD (R11)(R9*1), Z5
	VMULPD  Z4, Z2, Z6
	VMULPD  Z5, Z3, Z7
	VADDPD  Z7, Z6, Z6
	VADDPD  Z6, Z0, Z0
	VMULPD  Z5, Z2, Z8
	VMULPD  Z4, Z3, Z9
	VSUBPD  Z9, Z8, Z8      // ar bi - ai br
	VADDPD  Z8, Z1, Z1
	ADDQ    $64, R9
	CMPQ    R9, R8
	JLT     some512
	VEXTRACTF64X4 $1, Z0, Y2
	VEXTRACTF64X4 $1, Z1, Y3
	VADDPD        Y2, Y0, Y0
	VADDPD        Y3, Y1, Y1
	VEXTRACTF128  $1, Y0, X2
	VEXTRACTF128  $1, Y1, X3
	VADDPD        X2, X0, X0
	VADDPD        X3, X1, X1
	VPERMILPD     $1, X0, X2
	VPERMILPD     $1, X1, X3
	VADDSD        X2, X0, X0
	VADDSD        X3, X1, X1
	VMOVSD        X0, (DI)
	VMOVSD        X1, 8(DI)
	ADDQ          $16, DI
	LEAQ          (R11)(R8*1), DX
	DECQ          CX
	JNZ           row512
	VZEROUPPER
	RET

// func productAVX2(out, a, b *float64, count, n int)
TEXT ·productAVX2(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ count+24(FP), CX
	MOVQ n+32(FP), R8
	SHLQ $3, R8
	LEAQ (SI)(R8*1), R10

row256:
	LEAQ   (DX)(R8*1), R11
	VXORPD Y0, Y0, Y0       // real sums, lanes 0 to 3
	VXORPD Y1, Y1, Y1       // imaginary sums
	VXORPD Y10, Y10, Y10    // real sums, lanes 4 to 7
	VXORPD Y11, Y11, Y11    // imaginary sums
	XORQ   R9, R9

some256:
	VMOVUPD (SI)(R9*1), Y2
	VMOVUPD (R10)(R9*1), Y3
	VMOVUPD (DX)(R9*1), Y4
	VMOVUPD (R11)(R9*1), Y5
	VMULPD  Y4, Y2, Y6
	VMULPD  Y5, Y3, Y7
	VADDPD  Y7, Y6, Y6
	VADDPD  Y6, Y0, Y0
	VMULPD  Y5, Y2, Y8
	VMULPD  Y4, Y3, Y9
	VSUBPD  Y9, Y8, Y8
	VADDPD  Y8, Y1, Y1
	VMOVUPD 32(SI)(R9*1), Y2
	VMOVUPD 32(R10)(R9*1), Y3
	VMOVUPD 32(DX)(R9*1), Y4
	VMOVUPD 32(R11)(R9*1), Y5
	VMULPD  Y4, Y2, Y6
	VMULPD  Y5, Y3, Y7
	VADDPD  Y7, Y6, Y6
	VADDPD  Y6, Y10, Y10
	VMULPD  Y5, Y2, Y8
	VMULPD  Y4, Y3, Y9
	VSUBPD  Y9, Y8, Y8
	VADDPD  Y8, Y11, Y11
	ADDQ    $64, R9
	CMPQ    R9, R8
	JLT     some256
	VADDPD       Y10, Y0, Y0
	VADDPD       Y11, Y1, Y1
	VEXTRACTF128 $1, Y0, X2
	VEXTRACTF128 $1, Y1, X3
	VADDPD       X2, X0, X0
	VADDPD       X3, X1, X1
	VPERMILPD    $1, X0, X2
	VPERMILPD    $1, X1, X3
	VADDSD       X2, X0, X0
	VADDSD       X3, X1, X1
	VMOVSD       X0, (DI)
	VMOVSD       X1, 8(DI)
	ADDQ         $16, DI
	LEAQ         (R11)(R8*1), DX
	DECQ         CX
	JNZ          row256
	VZEROUPPER
	RET
