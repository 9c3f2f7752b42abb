// Training of package tropical, with the operations of the Go kernels in their
// order: the same bits.
//: tropical_paths -DPATHS
//: tropical_gradient -DGRADIENT
//: tropical_update
#version 450
layout(local_size_x = 64) in;

#if defined(PATHS) || defined(GRADIENT)
layout(push_constant) uniform Shape { uint inputs, hidden, outputs, samples; };
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

// An invocation takes a sample through the network. What a hidden unit is follows
// from where it comes from, so that nothing else needs to be kept of it.
void main() {
	uint b = gl_GlobalInvocationID.x;
	if (b >= samples)
		return;
	uint in0 = b * inputs, hidden0 = b * hidden;
	for (uint k = 0; k < hidden; k++) {
		uint w = hidden_row(k), from = 0;
		precise float y = p[w] + x[in0];
		for (uint j = 1; j < inputs; j++) {
			precise float v = p[w + j] + x[in0 + j];
			if (v > y) {
				y = v;
				from = j;
			}
		}
		hidden_from[hidden0 + k] = p[w + inputs] > y ? inputs : from;
	}
	for (uint o = 0; o < outputs; o++) {
		uint w = output_row(o), from = 0;
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
	}
}
#elif defined(GRADIENT)
layout(std430, binding = 0) readonly buffer HiddenFrom { uint hidden_from[]; };
layout(std430, binding = 1) readonly buffer OutputFrom { uint output_from[]; };
layout(std430, binding = 2) readonly buffer Errors { float errors[]; };
layout(std430, binding = 3) buffer Gradient { float gradient[]; };

// An invocation adds up a row of the gradient, sample by sample.
void main() {
	uint r = gl_GlobalInvocationID.x;
	if (r >= hidden + outputs)
		return;
	bool is_output = r >= hidden;
	uint sum = is_output ? output_row(r - hidden) : hidden_row(r);
	for (uint k = 0; k <= (is_output ? hidden : inputs); k++)
		gradient[sum + k] = 0;
	for (uint b = 0; b < samples; b++) {
		uint out0 = b * outputs;
		if (is_output) {
			uint o = out0 + r - hidden;
			gradient[sum + output_from[o]] += errors[o];
			continue;
		}
		for (uint o = out0; o < out0 + outputs; o++)
			if (output_from[o] == r)
				gradient[sum + hidden_from[b * hidden + r]] += errors[o];
	}
}
#else
layout(std430, binding = 0) buffer Parameters { float p[]; };
layout(std430, binding = 1) readonly buffer Gradient { float gradient[]; };
layout(push_constant) uniform Step { uint n; float len; };

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i < n) {
		precise float by = len * gradient[i];
		precise float next = p[i] - by;
		p[i] = next;
	}
}
#endif
