// The kernels backendtest asks for, and one in which groups and limits show.
//: noop   -DNOOP
//: add    -DADD
//: saxpy  -DSAXPY
//: spread -DSPREAD
//: gather -DGATHER
//: slow   -DSLOW
//: where  -DWHERE
//: rows   -DROWS
//: heap   -DHEAP
//: layout -DLAYOUT
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable

#ifdef WHERE
// The group size is the launch's.
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(std430, binding = 0) buffer Out { uint at[]; };
//params: ../../vulkan.plane
layout(push_constant) uniform Params {
	uint w, h;
};
void main() {
	uvec3 i = gl_GlobalInvocationID;
	atomicAdd(at[(i.z * h + i.y) * w + i.x], 1 + gl_LocalInvocationIndex);
}
#elif defined ROWS
// The launch sets how wide groups are; they are two rows high, and share as much as
// they are wide. Constant 1 is something else.
layout(local_size_x_id = 0, local_size_y = 2) in;
layout(constant_id = 0) const uint wide = 1;
layout(constant_id = 1) const uint more = 7;
layout(std430, binding = 0) buffer Out { uint at[]; };
//params: ../../vulkan.plane
layout(push_constant) uniform Params {
	uint w, h;
};
shared uvec4 row[wide];
shared bool pair[2][3];
void main() {
	uvec3 l = gl_LocalInvocationID;
	if (l.y == 0)
		row[l.x].x = l.x + more;
	pair[l.y][0] = true;
	barrier();
	uint i = gl_GlobalInvocationID.y * w + gl_GlobalInvocationID.x;
	at[i] = row[l.x].x + gl_WorkGroupSize.y * (pair[1 - l.y][0] ? 100 : 0);
}
#elif defined HEAP
// Shares more than any device has. Constant 0 is not the group's size.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint one = 1;
layout(std430, binding = 0) buffer Out { uint at[]; };
//params: ../../backendtest.Params
layout(push_constant) uniform Params {
	uint n;
	uint k;
};
struct Pair { vec2 a; mat3 b; };
shared uint much[1 << 18];
shared Pair pairs[one];
void main() {
	much[gl_LocalInvocationIndex * 4096] = k;
	pairs[0].a = pairs[0].b[1].xy = vec2(n);
	barrier();
	at[0] = much[(gl_LocalInvocationIndex ^ 1) * 4096] + uint(pairs[0].a.x + pairs[0].b[1].x) + gl_WorkGroupSize.x;
}
#else
layout(local_size_x = 64) in;
#ifdef NOOP
void main() {}
#elif defined LAYOUT
layout(std430, binding = 0) writeonly buffer Out { uint x[]; };
//params: ../../backendtest.LayoutParams
layout(push_constant) uniform Params {
	uint n;
	double a;
	int b;
	uint64_t c;
	float d;
};
void main() {
	if (gl_GlobalInvocationID.x > 0)
		return;
	uvec2 bits = unpackDouble2x32(a);
	x[0] = n;
	x[1] = bits.x;
	x[2] = bits.y;
	x[3] = uint(b);
	x[4] = uint(c);
	x[5] = uint(c >> 32);
	x[6] = floatBitsToUint(d);
}
#elif defined SAXPY
//params: ../../backendtest.SaxpyParams
layout(push_constant) uniform Params {
	uint n;
	float k;
};
// Four numbers at once, which drivers like; the last few by themselves.
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 0) readonly buffer X4 { vec4 x4[]; };
layout(std430, binding = 1) buffer Y { float y[]; };
layout(std430, binding = 1) buffer Y4 { vec4 y4[]; };
void main() {
	uint i = 4 * gl_GlobalInvocationID.x;
	if (i + 4 <= n)
		y4[i / 4] += k * x4[i / 4];
	else
		for (; i < n; i++)
			y[i] += k * x[i];
}
#else
//params: ../../backendtest.Params
layout(push_constant) uniform Params {
	uint n;
	uint k;
};
#ifdef ADD
layout(std430, binding = 0) buffer X { uint x[]; };
#define BODY x[i] += k
#endif
#if defined SPREAD || defined GATHER
layout(std430, binding = 0) readonly buffer In { uint from[]; };
layout(std430, binding = 1) writeonly buffer Out { uint to[]; };
layout(std430, binding = 2) buffer Work { uint work[]; };
#endif
#ifdef SPREAD
#define BODY work[i] = 2 * from[i]
#endif
#ifdef GATHER
#define BODY to[i] = work[n - 1 - i] + k
#endif
#ifdef SLOW
layout(std430, binding = 0) buffer X { uint x[]; };
// lavapipe ends all loops of a shader after 65535 rounds in total, so a round
// is many steps.
#define STEP v = v * 1664525u + 1013904223u;
#define STEPS STEP STEP STEP STEP
#define MORE STEPS STEPS STEPS STEPS
#define ROUND MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE
#define BODY uint v = x[i]; uint j = 0; for (; j + 256 <= k; j += 256) { ROUND } for (; j < k; j++) { STEP } x[i] = v
#endif
void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i < n) {
		BODY;
	}
}
#endif
#endif
