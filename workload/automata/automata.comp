// Conway's Game of Life, 64 cells to a word, and with ANY games of any width and rule. A group takes WIDE words by HIGH rows
// with their margins into shared memory and steps them there. The words at both
// ends of a row go stale by a cell a step, and 64 steps would reach the next; of
// the rows, k at either end are right no more after k steps.
//: automata_block -DWIDE=32 -DHIGH=64 -DMOST=8
//: automata_deep  -DWIDE=8 -DHIGH=256 -DMOST=64
//: automata_any   -DWIDE=8 -DHIGH=256 -DMOST=64 -DANY
#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Above { uvec2 above[]; };
layout(std430, binding = 1) readonly buffer Rows { uvec2 middle[]; };
layout(std430, binding = 2) readonly buffer Below { uvec2 below[]; };
layout(std430, binding = 3) writeonly buffer Out { uvec2 to[]; };
#ifdef ANY
//params: anyParams
layout(push_constant) uniform Block {
	uint words, rows; // of a row, and of the block
	uint k; // steps, which are the rows of a halo
	uint cols; // of a row
	uint birth, survive; // bit n is for n neighbours, of dead cells and of live ones
};
#else
//params: params
layout(push_constant) uniform Block {
	uint words, rows; // of a row, and of the block
	uint k; // steps, which are the rows of a halo
};
#endif

const uint Strip = WIDE - 2, Segment = HIGH - 2 * MOST, Each = WIDE * HIGH / 64;
shared uvec2 cells[HIGH][WIDE];

// at returns a word of row y, counted from the first row of the halo.
uvec2 at(uint y, uint word) {
	if (y < k)
		return above[y * words + word];
	y -= k;
	return y < rows ? middle[y * words + word] : below[(y - rows) * words + word];
}

#ifdef ANY
// half_at returns 32 cells of row y, in halves of words.
uint half_at(uint y, uint i) {
	uvec2 w = at(y, i / 2);
	return i % 2 == 0 ? w.x : w.y;
}

// ring returns 32 cells of row y from a cell on. The row is a ring of cells; bits behind its
// last cell are zero.
uint ring(uint y, uint first) {
	uint from = first % cols, cells_ = 0;
	for (uint have = 0; have < 32;) {
		uint i = from / 32, shift = from % 32, part = half_at(y, i) >> shift;
		if (shift > 0 && i + 1 < 2 * words)
			part |= half_at(y, i + 1) << (32 - shift);
		cells_ |= part << have;
		have += cols - from;
		from = 0;
	}
	return cells_;
}
#endif

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
#ifdef ANY
		// The row goes on from its beginning; the first word is one before the strip.
		uint place = gl_WorkGroupID.x * Strip + i % WIDE, from = place > 0 ? (place - 1) * 64 : cols - 64 % cols;
		cells[i / WIDE][i % WIDE] = uvec2(ring(first + i / WIDE, from), ring(first + i / WIDE, from + 32));
#else
		// The words of a row are a ring; the first is one before the strip.
		uint word = (gl_WorkGroupID.x * Strip + i % WIDE + words - 1) % words;
		cells[i / WIDE][i % WIDE] = at(first + i / WIDE, word);
#endif
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
#ifdef ANY
				// A live cell is one of the nine that are added up itself.
				uvec2 carry = twos.xy & ones.zw, own = next[e], will = uvec2(0);
				uvec2 sum[4] = uvec2[](ones.xy, twos.xy ^ ones.zw, twos.zw ^ carry, twos.zw & carry);
				[[unroll]] for (uint n = 0; n <= 9; n++) {
					uvec2 is = uvec2(0xffffffff); // places where the sum is n
					[[unroll]] for (uint b = 0; b < 4; b++)
						is &= (n >> b & 1) == 1 ? sum[b] : ~sum[b];
					uint born = 0 - (birth >> n & 1), lives = 0 - (survive << 1 >> n & 1);
					will |= is & ((born & ~own) | (lives & own));
				}
				next[e] = will;
#else
				// Three is one and a single two. Four is no one and two twos.
				uvec2 single = twos.xy ^ ones.zw;
				uvec2 three = ones.xy & single & ~twos.zw, four = (twos.zw ^ ones.zw) & ~(ones.xy | single);
				next[e] = three | (four & next[e]);
#endif
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
		if (x > 0 && x <= Strip && place <= words) {
			uvec2 done = cells[k + i / WIDE][x];
#ifdef ANY
			uint rest = cols % 64;
			if (place == words && rest > 0)
				done &= uvec2(rest < 32 ? (1u << rest) - 1 : 0xffffffff, rest > 32 ? (1u << (rest - 32)) - 1 : 0);
#endif
			to[(first + i / WIDE) * words + place - 1] = done;
		}
	}
}
