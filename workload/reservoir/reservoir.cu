// A step of a reservoir for a batch of patterns, with the operations of the Go
// kernel in their order: the same bits.
#include "../../internal/philox/philox.cuh"

//params: call
struct Call {
	unsigned size, inputs; // neurons of the reservoir, channels
	unsigned first, neurons; // whose weights there are
	unsigned pattern, batch; // first of the patterns there are, and how many
	unsigned block; // patterns of a block
	unsigned step, steps;
	unsigned seed;
	float leak, noise;
};

// Weights is a sparse matrix, or some rows of one: where each begins, counted
// from the beginning of the matrix, columns, values.
struct Weights {
	const u32 *start, *column;
	const float *value;
};

enum : u32 { Neurons = 16, Patterns = 32, NoiseStream = 3 };

// add adds the products of a row of weights with a pattern to a sum, in order.
// Many entries are under way at once.
INLINE float add(float sum, Weights w, u32 row, const float *x, u32 stride) {
	const u32 wave = 16;
	u32 base = w.start[0], e = w.start[row] - base, end = w.start[row + 1] - base;
	float v[wave];
	for (; e + wave <= end; e += wave) {
#pragma unroll
		for (u32 i = 0; i < wave; i++)
			v[i] = w.value[e + i] * x[(u64)w.column[e + i] * stride];
#pragma unroll
		for (u32 i = 0; i < wave; i++)
			sum += v[i];
	}
#pragma unroll
	for (u32 i = 0; i < wave; i++)
		if (e + i < end)
			v[i] = w.value[e + i] * x[(u64)w.column[e + i] * stride];
#pragma unroll
	for (u32 i = 0; i < wave; i++)
		if (e + i < end)
			sum += v[i];
	return sum;
}

// update takes a tile of neurons and patterns through the step, a state to a
// thread. Patterns stand side by side; where they are few, a warp has several
// neurons.
INLINE void update(const Call &c, Weights recurrent, Weights driven, const float *bias, const float *input,
		const float *x, float *next, float *mean) {
	u32 from = BLOCK_Y * Patterns, across = min(Patterns, c.batch - from);
	u32 row = BLOCK_X * Neurons + THREAD / across, at = from + THREAD % across;
	if (THREAD / across >= Neurons || row >= c.neurons)
		return;
	// States and inputs lie in blocks of patterns.
	u32 begin = at / c.block * c.block, width = min(c.block, c.batch - begin), column = at - begin, neuron = c.first + row;
	x += (u64)begin * c.size + column;
	input += (u64)begin * c.inputs * c.steps + (u64)c.step * c.inputs * width + column;
	u64 to = (u64)begin * c.neurons + (u64)row * width + column;
	float sum = add(bias[row], recurrent, row, x, width);
	sum = add(sum, driven, row, input, width);
	if (c.noise > 0) {
		uint4 counter = {c.pattern + at, 0, c.step, neuron / 4};
		uint4 words = philox(counter, c.seed, NoiseStream);
		u32 word = neuron % 4 == 0 ? words.x : neuron % 4 == 1 ? words.y : neuron % 4 == 2 ? words.z : words.w;
		sum += c.noise * symmetric(word);
	}
	float v = (1 - c.leak) * x[(u64)neuron * width] + c.leak * tanh(sum);
	next[to] = v;
	mean[to] = (c.step == 0 ? 0 : mean[to]) + v / (float)c.steps;
}

// Both kernels: grid (neurons, patterns) cut by Neurons and Patterns, 512 threads.

// reservoir_step takes all neurons through a step. States take turns in the
// result and the workspace, so that the last are the result.
KERNEL(512, 1) reservoir_step(const u32 *__restrict wstart, const u32 *__restrict wcolumn, const float *__restrict wvalue,
		const u32 *__restrict ustart, const u32 *__restrict ucolumn, const float *__restrict uvalue,
		const float *__restrict bias, const float *__restrict input, const float *start, float *end, float *mean, float *between, Call c) {
	bool last = (c.steps - c.step) % 2;
	update(c, {wstart, wcolumn, wvalue}, {ustart, ucolumn, uvalue}, bias, input,
		c.step == 0 ? start : last ? between : end, last ? end : between, mean);
}

// reservoir_rows takes some neurons through a step.
KERNEL(512, 1) reservoir_rows(const u32 *__restrict wstart, const u32 *__restrict wcolumn, const float *__restrict wvalue,
		const u32 *__restrict ustart, const u32 *__restrict ucolumn, const float *__restrict uvalue,
		const float *__restrict bias, const float *__restrict input, const float *before, float *after, float *mean, Call c) {
	update(c, {wstart, wcolumn, wvalue}, {ustart, ucolumn, uvalue}, bias, input, before, after, mean);
}

//params: carryParams
struct Carry {
	unsigned size, patterns;
};

// reservoir_spread: grid (neurons) cut by 256, 256 threads. Every pattern begins
// with the replica's state.
KERNEL(256, 1) reservoir_spread(const float *__restrict x, float *__restrict start, Carry c) {
	u32 i = BLOCK_X * 256 + THREAD;
	if (i < c.size)
		for (u32 l = 0; l < c.patterns; l++)
			start[(u64)i * c.patterns + l] = x[i];
}

// reservoir_carry: the same grid. The mean of where patterns end is the next state.
KERNEL(256, 1) reservoir_carry(const float *__restrict end, float *__restrict x, Carry c) {
	u32 i = BLOCK_X * 256 + THREAD;
	if (i >= c.size)
		return;
	float sum = 0;
	for (u32 l = 0; l < c.patterns; l++)
		sum += end[(u64)i * c.patterns + l];
	x[i] = sum / (float)c.patterns;
}
