// Values and derivatives, as package autodiff has them: a point to an invocation, which runs the
// whole program.
//: autodiff_program -DSLOTS=64
//: autodiff_large -DSLOTS=256
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Points { double points[]; };
layout(std430, binding = 1) readonly buffer Code { uvec4 code[]; };
layout(std430, binding = 2) readonly buffer Numbers { double numbers[]; };
layout(std430, binding = 3) writeonly buffer Values { double values[]; };
layout(std430, binding = 4) writeonly buffer Derivatives { double derivatives[]; };
//params: params
layout(push_constant) uniform Params {
	uint n; // points
	uint variables; // numbers of a point
	uint outputs; // values at a point
	uint columns; // derivatives of a value
	uint from, to; // the instructions
	uint slots; // values that are kept at once
};

#define GLSL
#include "language.h"
#include "functions.h"

double slot[SLOTS];

#define SLOT(i) slot[(i) & (SLOTS - 1)]

void main() {
	uint at = gl_GlobalInvocationID.x;
	if (at >= n)
		return;
	for (uint i = from; i < to; i++) {
		uvec4 c = code[i];
		NUM v = 0;
		switch (c.x & 0xff) {
#define A SLOT(c.y)
#define B SLOT(c.z)
#define C SLOT(c.w)
#define NUMBER numbers[c.z]
#include "cases.h"
		case OP_VARIABLE:
			v = points[at * variables + c.y];
			break;
		case OP_VALUE:
			values[at * outputs + c.z] = A;
			continue;
		case OP_DERIVATIVE:
			derivatives[at * outputs * columns + c.z] = A;
			continue;
		}
		SLOT(c.x >> 8) = v;
	}
}
