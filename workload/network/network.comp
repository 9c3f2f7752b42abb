// Steps of PageRank in float64, and layers of graph convolution: a group has a block of rows.
//: network_rank -DRANK
//: network_gather -DGATHER
//: network_transform -DTRANSFORM
#version 450
layout(local_size_x = 64) in;
const uint Threads = 64;
uint me = gl_LocalInvocationID.x, group = gl_WorkGroupID.x;
#ifndef TRANSFORM
layout(std430, binding = 0) readonly buffer Bounds { uint bounds[]; };
layout(std430, binding = 1) readonly buffer Starts { uint starts[]; };
layout(std430, binding = 2) readonly buffer Columns { uint columns[]; };
#endif

#ifdef RANK
layout(std430, binding = 3) readonly buffer Weights { double weights[]; };
layout(std430, binding = 4) readonly buffer Given { double given[]; };
layout(std430, binding = 5) readonly buffer Shares { double shares[]; };
layout(std430, binding = 6) writeonly buffer To { double to[]; };
layout(std430, binding = 7) writeonly buffer Changes { double changes[]; };
//params: rankParams
layout(push_constant) uniform Params {
	uint blocks; // of this task
	uint first; // row of this task
	uint rows; // of this task
	uint all; // nodes
	uint weighted; // whether edges have weights
	uint last; // whether it is the last step, whose changes are summed
	double damping; // probability to follow an edge
};

shared double parts[Threads];

// total adds up what the invocations of a group have.
double total(double mine) {
	parts[me] = mine;
	barrier();
	for (uint by = Threads / 2; by > 0; by /= 2) {
		if (me < by)
			parts[me] += parts[me + by];
		barrier();
	}
	return parts[0];
}

// along adds up what comes along every n-th edge of a row.
double along(uint k, uint end, uint n) {
	precise double sum = 0;
	if (weighted == 0) {
		for (; k + 3 * n < end; k += 4 * n) {
			sum += given[columns[k]];
			sum += given[columns[k + n]];
			sum += given[columns[k + 2 * n]];
			sum += given[columns[k + 3 * n]];
		}
		for (; k < end; k += n)
			sum += given[columns[k]];
	} else {
		for (; k < end; k += n)
			sum += weights[k] * given[columns[k]];
	}
	return sum;
}

// finish takes the step of a row, and returns the change of its rank.
double finish(uint row, double sum) {
	precise double now = (1 + damping * sum) * shares[row];
	to[row] = now;
	return abs(now - given[first + row]) / shares[row];
}

void main() {
	uint from = bounds[group] - bounds[0], end = bounds[group + 1] - bounds[0];
	precise double change = 0;
	if (end == from + 1) { // all of the group have one row
		double sum = total(along(starts[from] - starts[0] + me, starts[end] - starts[0], Threads));
		if (me == 0)
			changes[group] = finish(from, sum);
		return;
	}
	for (uint row = from + me; row < end; row += Threads)
		change += finish(row, along(starts[row] - starts[0], starts[row + 1] - starts[0], 1));
	change = total(change);
	if (me == 0)
		changes[group] = change;
}
#endif

#ifdef GATHER
layout(std430, binding = 3) readonly buffer Factors { float factors[]; };
layout(std430, binding = 4) readonly buffer Features { float features[]; };
layout(std430, binding = 5) writeonly buffer Sums { float sums[]; };
//params: gatherParams
layout(push_constant) uniform Params {
	uint blocks; // of this task
	uint rows; // of this task
	uint all; // nodes
	uint width; // features of a node
};

#define TERM(k) sum += factors[k] * features[columns[k] * width + f];

void main() {
	uint from = bounds[group] - bounds[0], end = bounds[group + 1] - bounds[0];
	for (uint e = me; e < (end - from) * width; e += Threads) {
		uint row = from + e / width, f = e % width;
		uint k = starts[row] - starts[0], last = starts[row + 1] - starts[0];
		precise float sum = 0;
		// Sixteen at a time, since lavapipe ends loops after 65,535 rounds.
		for (; k + 16 <= last; k += 16) {
			TERM(k) TERM(k + 1) TERM(k + 2) TERM(k + 3) TERM(k + 4) TERM(k + 5) TERM(k + 6) TERM(k + 7)
			TERM(k + 8) TERM(k + 9) TERM(k + 10) TERM(k + 11) TERM(k + 12) TERM(k + 13) TERM(k + 14) TERM(k + 15)
		}
		for (; k < last; k++)
			TERM(k)
		sums[row * width + f] = sum;
	}
}
#endif

#ifdef TRANSFORM
layout(std430, binding = 0) readonly buffer From { float rowsFrom[]; };
layout(std430, binding = 1) readonly buffer Weights { float weights[]; };
layout(std430, binding = 2) writeonly buffer To { float to[]; };
//params: transformParams
layout(push_constant) uniform Params {
	uint rows;
	uint inputs, outputs; // features of a row before and after
};

const uint Per = 8; // rows of a group

void main() {
	uint begin = group * Per;
	for (uint o = me; o < outputs; o += Threads) {
		precise float sums[Per];
		for (uint r = 0; r < Per; r++)
			sums[r] = 0;
		for (uint i = 0; i < inputs; i++) {
			float w = weights[i * outputs + o];
			for (uint r = 0; r < Per; r++)
				sums[r] += rowsFrom[min(begin + r, rows - 1) * inputs + i] * w;
		}
		for (uint r = 0; r < Per && begin + r < rows; r++)
			to[(begin + r) * outputs + o] = sums[r] < 0 ? 0 : sums[r];
	}
}
#endif
