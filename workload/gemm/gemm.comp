// C = A·B in float32, every element one chain of fused multiply-adds in rising
// order of the inner index from zero.
//: gemm_rows -DROWS=8 -DCOLS=2
//: gemm_small -DROWS=4 -DCOLS=1
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define START 0.0
#define STEP(T, acc, a, b) acc = fma(a, b, acc);
#include "../../internal/panel/tile.glsl"
