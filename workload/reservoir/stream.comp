// What carries a state from batch to batch: every pattern begins with a replica's
// state, and the mean of where they end is the next.
//: reservoir_spread -DSPREAD
//: reservoir_carry
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer From { float from[]; };
layout(std430, binding = 1) writeonly buffer To { float to[]; };
//params: carryParams
layout(push_constant) uniform Carry {
	uint size, patterns;
};

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= size)
		return;
#ifdef SPREAD
	for (uint l = 0; l < patterns; l++)
		to[i * patterns + l] = from[i];
#else
	precise float sum = 0;
	for (uint l = 0; l < patterns; l++)
		sum += from[i * patterns + l];
	to[i] = sum / float(patterns);
#endif
}
