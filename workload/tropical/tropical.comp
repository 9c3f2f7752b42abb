// C[i,j] = max over p of A[i,p] + B[p,j] in float32. Of equal candidates the first
// stays, and one that is not a number is passed over.
//: tropical_rows -DROWS=8 -DCOLS=4
#version 450
#extension GL_GOOGLE_include_directive : require
#define START uintBitsToFloat(0xff800000)
#define STEP(acc, a, b) { precise float s = a + b; acc = s > acc ? s : acc; }
#include "../gemm/panel/tile.glsl"
