// Number-theoretic transforms in the field of scalars of BN254, as package ntt has them. A
// group transforms columns that have 512 elements together, in the 16 KiB of shared memory
// that every device has, with the words of an element apart.
//: ntt_pass -DPASS
//: ntt_move
#version 450
#extension GL_GOOGLE_include_directive : require
#include "../field/fr.glsl"
layout(local_size_x = 128) in;
layout(std430, binding = 0) readonly buffer Before { Fr before_[]; };
layout(std430, binding = 1) writeonly buffer After { Fr after_[]; };
const uint Threads = 128;

#ifdef PASS
layout(std430, binding = 2) readonly buffer Tables { Fr tables[]; };
//params: passParams
layout(push_constant) uniform PassParams {
	uint size, span; // logs
	uint before; // log of the product of the lengths of passes before
	uint shift; // log of the number of such rows in the whole transform
	uint first, count; // the columns: the first, and their number
	uint from; // the first column of the source
	uint stride; // distance in elements from one element of a column to the next
	uint rows, row; // rows, and the number of the first
	uint backward; // 1 for an inverse transform
	uint scale; // scaling: one of those below
	uint order; // of the elements after: one of those below
};

const uint LogLocal = 9, Elements = 1 << LogLocal, Locals = Elements / 2;
const uint ScaleFirst = 1, ScaleBy = 2, ScaleLast = 3;
const uint OrderMixed = 1, OrderColumns = 2;

shared uint words[8 * Elements];

Fr get(uint i) {
	Fr x;
	for (uint w = 0; w < 8; w++)
		x.v[w] = words[w * Elements + i];
	return x;
}

void put(uint i, Fr x) {
	for (uint w = 0; w < 8; w++)
		words[w * Elements + i] = x.v[w];
}

// power_at is a power from a pair of tables.
Fr power_at(uint table, uint bits, uint exponent) {
	return mul(tables[table + (exponent & ((1u << bits) - 1))], tables[table + (1u << bits) + (exponent >> bits)]);
}

void main() {
	uint thread = gl_LocalInvocationID.x, many = 1u << span, per = Elements >> span;
	uint log = size + shift, bits = (log + 1) / 2;
	uint roots = Locals, factor = roots + (1u << bits) + (1u << (log - bits));
	uint column = gl_WorkGroupID.x * per, line = gl_WorkGroupID.y;

	for (uint e = thread; e < Elements; e += Threads) {
		uint c = column + e % per, n = e / per;
		Fr x = Fr_zero;
		if (c < count) {
			c += first;
			x = before_[(line << size) + n * stride + c - from];
			if (scale == ScaleFirst)
				x = mul(x, power_at(factor, bits, (n << (size - span)) + c));
		}
		put(e % per * many + n, x);
	}
	barrier();

	// Columns lie one after the other, so that a butterfly's number says where it is.
	for (uint width = many / 2; width > 0; width /= 2) {
		for (uint t = thread; t < Elements / 2; t += Threads) {
			uint j = t % width, i = 2 * (t - j) + j;
			Fr a = get(i), b = get(i + width), d = sub(a, b);
			if (width > 1)
				d = mul(d, tables[j * (Locals / width)]);
			put(i, add(a, b));
			put(i + width, d);
		}
		barrier();
	}

	for (uint e = thread; e < Elements; e += Threads) {
		uint c = e % per, k = e / per;
		if (before == 0 && order != OrderColumns) { // then those of a column are written side by side
			c = e / many;
			k = e % many;
		}
		if (column + c >= count)
			continue;
		uint at = backward != 0 ? (many - k) % many : k;
		Fr x = get(c * many + (span > 0 ? bitfieldReverse(at) >> (32 - span) : 0));
		c += first + column;
		uint rest = c >> before;
		if (rest != 0)
			x = mul(x, power_at(roots, bits, (rest * k) << (before + shift)));
		uint place = (rest << (before + span)) + (c & ((1u << before) - 1)) + (k << before);
		if (scale == ScaleBy)
			x = mul(x, tables[factor + (1u << bits)]);
		else if (scale == ScaleLast)
			x = mul(x, power_at(factor, bits, (place << shift) + row + line));
		uint to = place + (line << size);
		if (order == OrderMixed)
			to = place * rows + line;
		else if (order == OrderColumns)
			to = k * count + c - first;
		after_[to] = x;
	}
}
#else
//params: moveParams
layout(push_constant) uniform MoveParams {
	uint rows, cols;
	uint from, from_stride;
	uint to, to_stride;
};

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= rows * cols)
		return;
	uint row = i / cols, col = i % cols;
	after_[to + row * to_stride + col] = before_[from + row * from_stride + col];
}
#endif
