// A step of a reservoir for a batch of patterns, with the operations of the Go
// kernel in their order.
//: reservoir_step -DALL
//: reservoir_rows
#version 450
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
layout(std430, binding = 8) readonly buffer Before { float before[]; };
layout(std430, binding = 9) buffer After { float after[]; };
layout(std430, binding = 10) buffer Mean { float mean[]; };
#ifdef ALL
layout(std430, binding = 11) buffer Between { float between[]; };
#endif

// As package reservoir's call: neurons, channels, the neurons whose weights there
// are, the patterns, how many make a block, which step of how many.
layout(push_constant) uniform Call {
	uint size, inputs, first, neurons, pattern, batch, block, step, steps, seed;
	float leak, noise;
};

const uint Neurons = 8, Patterns = 16, NoiseStream = 3;

// number is a constant with all its bits.
#define number(bits) uintBitsToFloat(bits)

// bent is tanh, as in Go: expm1(2x)/(expm1(2x)+2) by a polynomial.
float bent(float x) {
	const float shift = 12582912.0; // 3 << 22
	precise float y = 2 * min(max(x, -number(0x411051ec)), number(0x411051ec));
	precise float m = y * number(0x3fb8aa3b) + shift, n = m - shift;
	precise float high = n * number(0x3f317000), low = n * number(0x3805fdf4);
	precise float r = y - high - low;
	precise float p = r * number(0x39500d01) + number(0x3ab60b61);
	p = r * p + number(0x3c088889);
	p = r * p + number(0x3d2aaaab);
	p = r * p + number(0x3e2aaaab);
	p = r * p + 0.5;
	p = r * r * p + r;
	precise float s = number((floatBitsToUint(m) << 23) + 0x3f800000); // 2ⁿ
	precise float e = s * p + (s - 1);
	precise float t = e / (e + 2);
	return t;
}

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

#ifdef ALL
// States take turns in the result and the workspace, so that the last are the
// result.
bool last() { return (steps - step) % 2 == 1; }
float state(uint i) { return step == 0 ? before[i] : last() ? between[i] : after[i]; }
#else
float state(uint i) { return before[i]; }
#endif

// A state to an invocation. Patterns stand side by side; where they are few, the
// rest of a group has further neurons.
void main() {
	uint me = gl_LocalInvocationID.x, from = gl_WorkGroupID.y * Patterns, across = min(Patterns, batch - from);
	uint row = gl_WorkGroupID.x * Neurons + me / across, at = from + me % across;
	if (me / across >= Neurons || row >= neurons)
		return;
	// States and inputs lie in blocks of patterns.
	uint begin = at / block * block, width = min(block, batch - begin), column = at - begin, neuron = first + row;
	uint x = begin * size + column, input_ = begin * inputs * steps + step * inputs * width + column;
	uint to = begin * neurons + row * width + column;
	precise float sum = bias[row];
	for (uint e = wstart[row] - wstart[0], end = wstart[row + 1] - wstart[0]; e < end; e++) {
		precise float v = wvalue[e] * state(x + wcolumn[e] * width);
		sum += v;
	}
	for (uint e = ustart[row] - ustart[0], end = ustart[row + 1] - ustart[0]; e < end; e++) {
		precise float v = uvalue[e] * u[input_ + ucolumn[e] * width];
		sum += v;
	}
	if (noise > 0) {
		uint word = philox(uvec4(pattern + at, 0, step, neuron / 4), seed, NoiseStream)[neuron % 4];
		// In the open interval (-1, 1); nothing is rounded.
		precise float draw = (float(word >> 9) + 0.5) / 4194304.0 - 1.0;
		precise float v = noise * draw;
		sum += v;
	}
	precise float keep = (1 - leak) * state(x + neuron * width), add = leak * bent(sum);
	precise float v = keep + add, part = v / float(steps);
#ifdef ALL
	if (last())
		after[to] = v;
	else
		between[to] = v;
#else
	after[to] = v;
#endif
	mean[to] = (step == 0 ? 0 : mean[to]) + part;
}
