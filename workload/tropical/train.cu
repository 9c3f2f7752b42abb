// Training of package tropical, with the operations of the Go kernels in their
// order: the same bits.
#include "../device.cuh"

//params: netParams
struct Shape {
	unsigned inputs, hidden, outputs;
	unsigned samples;
};
//params: updateParams
struct Step {
	unsigned n; // parameters of the network
	float length; // of the step
};

INLINE u64 output_row(Shape s, u32 o) { return (u64)s.hidden * (s.inputs + 1) + (u64)o * (s.hidden + 1); }

// A thread takes a sample through the network. What a hidden unit is follows from
// where it comes from, so that nothing else needs to be kept of it.
KERNEL(128, 4) tropical_paths(const float *__restrict p, const float *__restrict x, const float *__restrict target,
                              u32 *__restrict hidden_from, u32 *__restrict output_from, float *__restrict errors, Shape s) {
	u64 b = (u64)BLOCK_X * THREADS + THREAD;
	if (b >= s.samples)
		return;
	x += b * s.inputs;
	hidden_from += b * s.hidden;
	for (u32 k = 0; k < s.hidden; k++) {
		const float *w = p + (u64)k * (s.inputs + 1);
		float y = w[0] + x[0];
		u32 from = 0;
		for (u32 j = 1; j < s.inputs; j++) {
			float v = w[j] + x[j];
			if (v > y)
				y = v, from = j;
		}
		hidden_from[k] = w[s.inputs] > y ? s.inputs : from;
	}
	for (u32 o = 0; o < s.outputs; o++) {
		const float *w = p + output_row(s, o);
		float y = 0;
		u32 from = 0;
		for (u32 k = 0; k < s.hidden; k++) {
			const float *unit = p + (u64)k * (s.inputs + 1);
			u32 at = hidden_from[k];
			float v = w[k] + (at == s.inputs ? unit[at] : unit[at] + x[at]);
			if (k == 0 || v > y)
				y = v, from = k;
		}
		if (w[s.hidden] > y)
			y = w[s.hidden], from = s.hidden;
		output_from[b * s.outputs + o] = from;
		errors[b * s.outputs + o] = y - target[b * s.outputs + o];
	}
}

// A thread adds up a row of the gradient, sample by sample.
KERNEL(32, 8) tropical_gradient(const u32 *__restrict hidden_from, const u32 *__restrict output_from,
                                const float *__restrict errors, float *__restrict gradient, Shape s) {
	u32 r = BLOCK_X * THREADS + THREAD;
	if (r >= s.hidden + s.outputs)
		return;
	bool output = r >= s.hidden;
	float *sum = gradient + (output ? output_row(s, r - s.hidden) : (u64)r * (s.inputs + 1));
	for (u32 k = 0; k <= (output ? s.hidden : s.inputs); k++)
		sum[k] = 0;
	for (u64 b = 0; b < s.samples; b++) {
		const u32 *from = output_from + b * s.outputs;
		const float *error = errors + b * s.outputs;
		if (output) {
			u32 o = r - s.hidden;
			sum[from[o]] += error[o];
			continue;
		}
		for (u32 o = 0; o < s.outputs; o++)
			if (from[o] == r)
				sum[hidden_from[b * s.hidden + r]] += error[o];
	}
}

KERNEL(256, 4) tropical_update(float *__restrict p, const float *__restrict gradient, Step s) {
	u32 i = BLOCK_X * THREADS + THREAD;
	if (i < s.n)
		p[i] -= s.length * gradient[i];
}
