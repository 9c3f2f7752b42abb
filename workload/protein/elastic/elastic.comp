// Steps of the Lanczos method in float64. A group has a block of rows; sums are those of
// blocks, in their order, so that they do not depend on how blocks are dealt out.
//: elastic_multiply -DMULTIPLY
//: elastic_project -DPROJECT
//: elastic_rest -DREST
#version 450
layout(local_size_x = 64) in;
#ifdef MULTIPLY
layout(std430, binding = 0) readonly buffer Starts { uint starts[]; };
layout(std430, binding = 1) readonly buffer Columns { uint columns[]; };
layout(std430, binding = 2) readonly buffer Values { double values[]; };
layout(std430, binding = 3) readonly buffer Vector { double vector[]; };
layout(std430, binding = 4) readonly buffer Squares { double squares[]; };
layout(std430, binding = 5) buffer Basis { double basis[]; };
layout(std430, binding = 6) writeonly buffer Product { double to[]; };
layout(std430, binding = 7) writeonly buffer Diagonal { double diagonal[]; };
layout(std430, binding = 8) writeonly buffer Sums { double sums[]; };
#else
layout(std430, binding = 0) readonly buffer Before { double before[]; };
layout(std430, binding = 1) readonly buffer Basis { double basis[]; };
#ifdef PROJECT
layout(std430, binding = 2) buffer Product { double to[]; };
layout(std430, binding = 3) writeonly buffer Sums { double sums[]; };
#else
layout(std430, binding = 2) readonly buffer Product { double from[]; };
layout(std430, binding = 3) writeonly buffer Vector { double to[]; };
layout(std430, binding = 4) writeonly buffer Squares { double squares[]; };
#endif
#endif
//params: params
layout(push_constant) uniform Params {
	uint block; // rows of a block
	uint blocks; // of this task
	uint all; // blocks of the matrix
	uint first; // block of this task
	uint width; // vectors that a block has room for
	uint count; // vectors that there are, the new one included
	uint seed; // of random numbers: the step
	double least; // a vector whose sum of squares is no more is zero but for rounding
};

const uint Threads = 64;
shared double rows[Threads]; // of the block
uint me = gl_LocalInvocationID.x;

#ifndef REST
// dots adds up the products of every vector of a block with its rows.
void dots(uint at, uint group) {
	for (uint i = me; i < count; i += Threads) {
		precise double sum = 0;
		for (uint r = 0; r < block; r += 8) {
			precise double s = basis[at + i * block + r] * rows[r];
			s += basis[at + i * block + r + 1] * rows[r + 1];
			s += basis[at + i * block + r + 2] * rows[r + 2];
			s += basis[at + i * block + r + 3] * rows[r + 3];
			s += basis[at + i * block + r + 4] * rows[r + 4];
			s += basis[at + i * block + r + 5] * rows[r + 5];
			s += basis[at + i * block + r + 6] * rows[r + 6];
			s += basis[at + i * block + r + 7] * rows[r + 7];
			sum += s;
		}
		sums[group * width + i] = sum;
#ifdef MULTIPLY
		if (i == count - 1)
			diagonal[group] = sum;
#endif
	}
}
#endif

#ifdef MULTIPLY
// noise is as in the Go code.
double noise(uint row) {
	uint x = row * 0x9e3779b9u ^ seed * 0x85ebca6bu;
	x = (x ^ x >> 16) * 0x85ebca6bu;
	x = (x ^ x >> 13) * 0xc2b2ae35u;
	x ^= x >> 16;
	return double(x) / 2147483648.0LF - 1.0LF;
}

void main() {
	uint group = gl_WorkGroupID.x, at = group * block * width;
	// The length of the vector, by all of a group.
	precise double length2 = 0;
	for (uint b = 0; b < all; b++)
		length2 += squares[b];
	precise double scale = length2 <= least ? 0.0LF : 1.0LF / sqrt(length2);
	if (me < block) {
		uint row = group * block + me;
		basis[at + (count - 1) * block + me] = vector[(first + group) * block + me] * scale;
		precise double sum = 0;
		uint k = starts[row] - starts[0], end = starts[row + 1] - starts[0];
		if (scale == 0.0LF && k < end) {
			sum = noise((first + group) * block + me);
		} else {
			for (; k < end; k++)
				sum += values[k] * vector[columns[k]];
			sum *= scale;
		}
		rows[me] = sum;
		to[row] = sum;
	}
	memoryBarrierBuffer();
	barrier();
	dots(at, group);
}
#else
shared double along[Threads];

void main() {
	uint group = gl_WorkGroupID.x, at = group * block * width, row = group * block + me;
	precise double w = 0;
#ifdef PROJECT
	if (me < block)
		w = to[row];
#else
	if (me < block)
		w = from[row];
#endif
	for (uint i = 0; i < count; i += Threads) {
		precise double h = 0;
		for (uint b = 0; i + me < count && b < all; b++)
			h += before[b * width + i + me];
		barrier();
		along[me] = h;
		barrier();
		for (uint k = 0; me < block && k < min(Threads, count - i); k++)
			w -= along[k] * basis[at + (i + k) * block + me];
	}
	if (me < block) {
		rows[me] = w;
		to[row] = w;
	}
	barrier();
#ifdef PROJECT
	dots(at, group);
#else
	if (me == 0) {
		precise double sum = 0;
		for (uint r = 0; r < block; r++)
			sum += rows[r] * rows[r];
		squares[group] = sum;
	}
#endif
}
#endif
