// Training of package tropical, with the operations of the Go kernels in their
// order: the same bits.
//
// lavapipe ends all loops of an invocation after 65535 rounds in total. So units are
// on the grid, and the gradient of many samples is added up in several launches.
//: tropical_hidden -DPATHS -DHIDDEN
//: tropical_outputs -DPATHS
//: tropical_gradient -DGRADIENT
//: tropical_gradient_more -DGRADIENT -DMORE
//: tropical_update
#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 64) in;

#if defined(PATHS) || defined(GRADIENT)
#ifdef MORE
//params: moreGradientParams
layout(push_constant) uniform Shape {
	uint inputs, hidden, outputs;
	uint samples;
	uint first; // sample
};
#else
//params: netParams
layout(push_constant) uniform Shape {
	uint inputs, hidden, outputs;
	uint samples;
};
#endif
uint hidden_row(uint k) { return k * (inputs + 1); }
uint output_row(uint o) { return hidden * (inputs + 1) + o * (hidden + 1); }
#endif

#if defined(PATHS)
layout(std430, binding = 0) readonly buffer Parameters { float p[]; };
layout(std430, binding = 1) readonly buffer Samples { float x[]; };
layout(std430, binding = 2) readonly buffer Targets { float target[]; };
layout(std430, binding = 3) buffer HiddenFrom { uint hidden_from[]; };
layout(std430, binding = 4) writeonly buffer OutputFrom { uint output_from[]; };
layout(std430, binding = 5) writeonly buffer Errors { float errors[]; };

// An invocation computes a unit of a sample: first the hidden ones, in another
// launch the outputs. What a hidden unit is follows from where it comes from, so
// that nothing else needs to be kept of it.
void main() {
	uint b = gl_GlobalInvocationID.x;
	if (b >= samples)
		return;
	uint in0 = b * inputs, hidden0 = b * hidden;
#ifdef HIDDEN
	uint k = gl_WorkGroupID.y, w = hidden_row(k), from = 0;
	precise float y = p[w] + x[in0];
	for (uint j = 1; j < inputs; j++) {
		precise float v = p[w + j] + x[in0 + j];
		if (v > y) {
			y = v;
			from = j;
		}
	}
	hidden_from[hidden0 + k] = p[w + inputs] > y ? inputs : from;
#else
	uint o = gl_WorkGroupID.y, w = output_row(o), from = 0;
	precise float y = 0;
	for (uint k = 0; k < hidden; k++) {
		uint at = hidden_from[hidden0 + k];
		precise float unit = p[hidden_row(k) + at];
		if (at < inputs)
			unit += x[in0 + at];
		precise float v = p[w + k] + unit;
		if (k == 0 || v > y) {
			y = v;
			from = k;
		}
	}
	if (p[w + hidden] > y) {
		y = p[w + hidden];
		from = hidden;
	}
	output_from[b * outputs + o] = from;
	errors[b * outputs + o] = y - target[b * outputs + o];
#endif
}
#elif defined(GRADIENT)
layout(std430, binding = 0) readonly buffer HiddenFrom { uint hidden_from[]; };
layout(std430, binding = 1) readonly buffer OutputFrom { uint output_from[]; };
layout(std430, binding = 2) readonly buffer Errors { float errors[]; };
layout(std430, binding = 3) buffer Gradient { float gradient[]; };

const uint Terms = 1 << 18; // gradientTerms of the Go code
const uint Round = 16;

// An invocation adds up a row of the gradient, sample by sample: up to Terms errors
// in a launch, and a launch goes on where the one before ended.
void main() {
	uint r = gl_GlobalInvocationID.x;
	if (r >= hidden + outputs)
		return;
	bool is_output = r >= hidden;
	uint sum = is_output ? output_row(r - hidden) : hidden_row(r);
#ifndef MORE
	uint first = 0;
	for (uint k = 0; k <= (is_output ? hidden : inputs); k++)
		gradient[sum + k] = 0;
#endif
	uint end = min(first + Terms / outputs, samples);
	if (is_output) {
		for (uint b = first; b < end; b += Round)
			[[unroll]] for (uint d = 0; d < Round; d++)
				if (b + d < end) {
					uint at = (b + d) * outputs + r - hidden;
					gradient[sum + output_from[at]] += errors[at];
				}
		return;
	}
	for (uint at = first * outputs; at < end * outputs; at += Round)
		[[unroll]] for (uint d = 0; d < Round; d++)
			if (at + d < end * outputs && output_from[at + d] == r)
				gradient[sum + hidden_from[(at + d) / outputs * hidden + r]] += errors[at + d];
}
#else
layout(std430, binding = 0) buffer Parameters { float p[]; };
layout(std430, binding = 1) readonly buffer Gradient { float gradient[]; };
//params: updateParams
layout(push_constant) uniform Step {
	uint n; // parameters of the network
	float length; // of the step
};

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i < n) {
		precise float by = length * gradient[i];
		precise float next = p[i] - by;
		p[i] = next;
	}
}
#endif
