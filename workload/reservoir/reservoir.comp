// A step of a reservoir for a batch of patterns, with the operations of the Go
// kernel in their order.
//: reservoir_step -DALL
//: reservoir_rows
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;

// Sparse matrices: where each row begins, counted from the beginning of the matrix,
// columns, values.
layout(std430, binding = 0) readonly buffer WStart { uint wstart[]; };
layout(std430, binding = 1) readonly buffer WColumn { uint wcolumn[]; };
layout(std430, binding = 2) readonly buffer WValue { float wvalue[]; };
layout(std430, binding = 3) readonly buffer UStart { uint ustart[]; };
layout(std430, binding = 4) readonly buffer UColumn { uint ucolumn[]; };
layout(std430, binding = 5) readonly buffer UValue { float uvalue[]; };
layout(std430, binding = 6) readonly buffer Bias { float bias[]; };
layout(std430, binding = 7) readonly buffer Input { float u[]; };
layout(std430, binding = 7) readonly buffer Input4 { vec4 u4[]; };
layout(std430, binding = 8) readonly buffer Before { float before[]; };
layout(std430, binding = 8) readonly buffer Before4 { vec4 before4[]; };
layout(std430, binding = 9) buffer After { float after[]; };
layout(std430, binding = 9) buffer After4 { vec4 after4[]; };
layout(std430, binding = 10) buffer Mean { float mean[]; };
layout(std430, binding = 10) buffer Mean4 { vec4 mean4[]; };
#ifdef ALL
layout(std430, binding = 11) buffer Between { float between[]; };
layout(std430, binding = 11) buffer Between4 { vec4 between4[]; };
#endif

//params: call
layout(push_constant) uniform Call {
	uint size, inputs; // neurons of the reservoir, channels
	uint first, neurons; // whose weights there are
	uint pattern, batch; // first of the patterns there are, and how many
	uint block; // patterns of a block
	uint step, steps;
	uint seed;
	float leak, noise;
};

const uint Neurons = 32, Patterns = 16, NoiseStream = 3;

#include "../tanh.glsl"

// philox is Philox4x32-10, as package philox has it.
uvec4 philox(uvec4 c, uint k0, uint k1) {
	for (int round = 0; round < 10; round++) {
		uint h0, l0, h1, l1;
		umulExtended(0xD2511F53u, c.x, h0, l0);
		umulExtended(0xCD9E8D57u, c.z, h1, l1);
		c = uvec4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	return c;
}

// word is the random number of a pattern and neuron.
uint word(uint at, uint neuron) { return philox(uvec4(pattern + at, 0, step, neuron / 4), seed, NoiseStream)[neuron % 4]; }
void words(uint at, uint neuron, out uint w) { w = word(at, neuron); }
void words(uint at, uint neuron, out uvec4 w) {
	for (uint e = 0; e < 4; e++)
		w[e] = word(at + e, neuron);
}

#ifdef ALL
// States take turns in the result and the workspace, so that the last are the
// result.
bool last() { return (steps - step) % 2 == 1; }
#define IN(TAKE, BEFORE, BETWEEN, AFTER) if (step == 0) TAKE(BEFORE) else if (last()) TAKE(BETWEEN) else TAKE(AFTER)
#define KEEP(i, BETWEEN, AFTER, v) if (last()) AFTER[i] = v; else BETWEEN[i] = v;
#else
#define IN(TAKE, BEFORE, BETWEEN, AFTER) TAKE(BEFORE)
#define KEEP(i, BETWEEN, AFTER, v) AFTER[i] = v;
#endif

// What a neuron hears of the others' states, and its own. Where they are is decided
// once and not for each of them.
#define HEAR(STATE) { \
	for (uint e = wstart[row] - wstart[0], end = wstart[row + 1] - wstart[0]; e < end; e++) \
		sum = plus(sum, wvalue[e], STATE[x + wcolumn[e] * width]); \
	own = STATE[x + neuron * width]; \
}
#define PLUS(T) T plus(T sum, float by, T state) { \
	precise T v = by * state; \
	precise T all = sum + v; \
	return all; \
}
PLUS(float)
PLUS(vec4)

// ADVANCE defines the step of a neuron for WIDE patterns from one on, as numbers T
// in the buffers named. States and inputs lie in blocks of patterns.
#define ADVANCE(NAME, T, UINT, WIDE, INPUT, BEFORE, BETWEEN, AFTER, MEAN) \
void NAME(uint row, uint at) { \
	uint begin = at / block * block, wide = min(block, batch - begin), column = (at - begin) / WIDE, neuron = first + row; \
	uint width = wide / WIDE, x = begin * size / WIDE + column; \
	uint input_ = (begin * inputs * steps + step * inputs * wide) / WIDE + column; \
	uint to = (begin * neurons + row * wide) / WIDE + column; \
	precise T sum = T(bias[row]), own; \
	IN(HEAR, BEFORE, BETWEEN, AFTER) \
	for (uint e = ustart[row] - ustart[0], end = ustart[row + 1] - ustart[0]; e < end; e++) { \
		precise T v = uvalue[e] * INPUT[input_ + ucolumn[e] * width]; \
		sum += v; \
	} \
	if (noise > 0) { \
		UINT w; \
		words(at, neuron, w); \
		/* In the open interval (-1, 1); nothing is rounded. */ \
		precise T draw = (T(w >> 9) + 0.5) / 4194304.0 - 1.0; \
		precise T v = noise * draw; \
		sum += v; \
	} \
	precise T keep = (1 - leak) * own, add = leak * bent(sum); \
	precise T v = keep + add, part = v / float(steps); \
	KEEP(to, BETWEEN, AFTER, v) \
	MEAN[to] = (step == 0 ? T(0) : MEAN[to]) + part; \
}
ADVANCE(one, float, uint, 1, u, before, between, after, mean)
ADVANCE(four, vec4, uvec4, 4, u4, before4, between4, after4, mean4)

// Patterns stand side by side. Where they come in fours, an invocation has four:
// drivers on the CPU fetch number by number, and four at once as fast as one.
void main() {
	uint from = gl_WorkGroupID.y * Patterns, across = min(Patterns, batch - from);
	uint wide = (batch | block) % 4 == 0 ? 4 : 1, in_row = across / wide;
	for (uint t = gl_LocalInvocationID.x; t < Neurons * in_row; t += 128) {
		uint row = gl_WorkGroupID.x * Neurons + t / in_row, at = from + t % in_row * wide;
		if (row >= neurons)
			return;
		if (wide == 4)
			four(row, at);
		else
			one(row, at);
	}
}
