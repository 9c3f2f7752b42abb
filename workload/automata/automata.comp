// Conway's Game of Life, 64 cells to a word. A group takes WIDE words by HIGH rows
// with their margins into shared memory and steps them there. The words at both
// ends of a row go stale by a cell a step, and 64 steps would reach the next; of
// the rows, k at either end are right no more after k steps.
//: automata_block -DWIDE=32 -DHIGH=64 -DMOST=8
//: automata_deep  -DWIDE=8 -DHIGH=256 -DMOST=64
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Above { uvec2 above[]; };
layout(std430, binding = 1) readonly buffer Rows { uvec2 middle[]; };
layout(std430, binding = 2) readonly buffer Below { uvec2 below[]; };
layout(std430, binding = 3) writeonly buffer Out { uvec2 to[]; };
//params: params
layout(push_constant) uniform Block {
	uint words, rows; // of a row, and of the block
	uint k; // steps, which are the rows of a halo
};

const uint Strip = WIDE - 2, Segment = HIGH - 2 * MOST, Each = WIDE * HIGH / 64;
shared uvec2 cells[HIGH][WIDE];

// at returns a word of row y, counted from the first row of the halo.
uvec2 at(uint y, uint word) {
	if (y < k)
		return above[y * words + word];
	y -= k;
	return y < rows ? middle[y * words + word] : below[(y - rows) * words + word];
}

// add adds the cells of three neighbours in every place: ones in x, twos in y.
uvec4 add(uvec2 a, uvec2 b, uvec2 c) { return uvec4(a ^ b ^ c, (a & b) | ((a ^ b) & c)); }

// line adds up the cells of a row with those to their west and east.
uvec4 line(uint y, uint x) {
	uvec2 c = cells[y][x];
	uint west = cells[y][max(x, 1) - 1].y, east = cells[y][min(x + 1, WIDE - 1)].x;
	return add(uvec2(c.x << 1 | west >> 31, c.y << 1 | c.x >> 31), c, uvec2(c.x >> 1 | c.y << 31, c.y >> 1 | east << 31));
}

void main() {
	uint first = gl_WorkGroupID.y * Segment, high = min(Segment, rows - first) + 2 * k;
	for (uint i = gl_LocalInvocationID.x; i < WIDE * high; i += 64) {
		// The words of a row are a ring; the first is one before the strip.
		uint word = (gl_WorkGroupID.x * Strip + i % WIDE + words - 1) % words;
		cells[i / WIDE][i % WIDE] = at(first + i / WIDE, word);
	}
	barrier();
	for (uint s = 0; s < k; s++) {
		uvec2 next[Each];
		for (uint e = 0; e < Each; e++) {
			uint i = e * 64 + gl_LocalInvocationID.x, y = i / WIDE, x = i % WIDE;
			next[e] = cells[y][x];
			if (y > 0 && y + 1 < high) {
				uvec4 up = line(y - 1, x), mid = line(y, x), down = line(y + 1, x);
				uvec4 ones = add(up.xy, mid.xy, down.xy), twos = add(up.zw, mid.zw, down.zw);
				// Three is one and a single two. Four is no one and two twos.
				uvec2 single = twos.xy ^ ones.zw;
				uvec2 three = ones.xy & single & ~twos.zw, four = (twos.zw ^ ones.zw) & ~(ones.xy | single);
				next[e] = three | (four & next[e]);
			}
		}
		barrier(); // all have read before any writes
		for (uint e = 0; e < Each; e++) {
			uint i = e * 64 + gl_LocalInvocationID.x;
			cells[i / WIDE][i % WIDE] = next[e];
		}
		barrier();
	}
	for (uint i = gl_LocalInvocationID.x; i < WIDE * (high - 2 * k); i += 64) {
		uint x = i % WIDE, place = gl_WorkGroupID.x * Strip + x;
		if (x > 0 && x <= Strip && place <= words)
			to[(first + i / WIDE) * words + place - 1] = cells[k + i / WIDE][x];
	}
}
