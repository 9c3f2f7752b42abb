// C[i,j] = max over p of A[i,p] + B[p,j] in float32. Of equal candidates the first
// stays, and one that is not a number is passed over.
//: tropical_rows -DROWS=8 -DCOLS=2
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define START uintBitsToFloat(0xff800000)
#define STEP(T, acc, a, b) { precise T s = a + b; acc = mix(acc, s, above(s, acc)); }
bool above(float s, float acc) { return s > acc; }
bvec4 above(vec4 s, vec4 acc) { return greaterThan(s, acc); }
#include "../../internal/panel/tile.glsl"
