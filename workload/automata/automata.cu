// Conway's Game of Life, 64 cells to a word. A warp takes a strip of 30 words
// down the rows of its segment. A row goes through all generations in registers,
// each a row behind the one before, so that memory is read and written once for
// k steps. The words of the first and last lane are a margin: they go stale by a
// cell a step, and 64 steps would reach the next.
#include "../device.cuh"

//params: params
struct Block {
	unsigned words, rows; // of a row, and of the block
	unsigned k; // steps, which are the rows of a halo
};

enum : u32 { Most = 8, Segment = 128, Strip = 30, Ahead = 4 };

// Pair is 64 cells: the lower half first.
struct Pair {
	u32 lo, hi;
};

// Sums are the cells of three neighbours in a row added up: ones and twos.
struct Sums {
	u32 one, two;
};

INLINE Sums add(u32 a, u32 b, u32 c) { return {a ^ b ^ c, (a & b) | ((a ^ b) & c)}; }

// rule steps 32 cells from the sums of their row and the rows around it.
INLINE u32 rule(Sums up, Sums mid, Sums down, u32 cells) {
	Sums ones = add(up.one, mid.one, down.one), twos = add(up.two, mid.two, down.two);
	u32 carry = ones.two, single = twos.one ^ carry;
	u32 three = ones.one & single & ~twos.two, four = (twos.two ^ carry) & ~(ones.one | single);
	return three | (four & cells);
}

// Line is what a generation knows of a row: its cells and their sums.
struct Line {
	Pair cells;
	Sums lo, hi;
};

INLINE Line line(Pair cells) {
	u32 west = from_below(cells.hi, 1), east = from_above(cells.lo, 1);
	Line l;
	l.cells = cells;
	l.lo = add(funnel(cells.lo, west, 1), cells.lo, funnel(cells.hi, cells.lo, 31));
	l.hi = add(funnel(cells.hi, cells.lo, 1), cells.hi, funnel(east, cells.hi, 31));
	return l;
}

INLINE Pair next(const Line &up, const Line &mid, const Line &down) {
	return {rule(up.lo, mid.lo, down.lo, mid.cells.lo), rule(up.hi, mid.hi, down.hi, mid.cells.hi)};
}

// Rows are those of a block with those above and below it.
struct Rows {
	const u64 *above, *rows, *below;
	Block b;

	// at returns a word of row y, from -k on.
	INLINE Pair at(const Rows &r, int y, u32 word) {
		const u64 *from = r.rows + (long long)y * r.b.words;
		if (y < 0)
			from = r.above + (u64)(y + (int)r.b.k) * r.b.words;
		else if (y >= (int)r.b.rows)
			from = r.below + (u64)(y - (int)r.b.rows) * r.b.words;
		u64 w = from[word];
		return {(u32)w, (u32)(w >> 32)};
	}
};

// stream takes the rows lo-k to hi+k-1 through k generations and writes rows lo
// to hi-1. With all set, k is Most.
template <bool all> INLINE void stream(const Rows &r, u64 *out, u32 word, bool keep, int lo, int hi) {
	Line up[Most], mid[Most];
	const int k = all ? (int)Most : r.b.k;
#pragma unroll
	for (u32 g = 0; g < Most; g++)
		up[g] = mid[g] = {};
	Pair soon[Ahead];
	int last = hi + k - 1;
#pragma unroll
	for (int i = 0; i < (int)Ahead; i++)
		soon[i] = Rows::at(r, lo - k + i < last ? lo - k + i : last, word);
	for (int y = lo - k; y <= last; y += Ahead) {
#pragma unroll
		for (int i = 0; i < (int)Ahead; i++) {
			Pair row = soon[i];
			int fetch = y + i + (int)Ahead;
			soon[i] = Rows::at(r, fetch < last ? fetch : last, word);
#pragma unroll
			for (int g = 0; g < (int)Most; g++) {
				if (!all && g >= k)
					break;
				Line down = line(row);
				row = next(up[g], mid[g], down);
				up[g] = mid[g];
				mid[g] = down;
			}
			int done = y + i - k;
			if (keep && done >= lo && done < hi)
				out[(u64)done * r.b.words + word] = (u64)row.hi << 32 | row.lo;
		}
	}
}

// automata_block steps a block of rows k times, k from 1 to Most: grid (words, rows)
// cut by Strip and 2·Segment, 64 threads.
KERNEL(64, 1) automata_block(const u64 *__restrict above, const u64 *__restrict rows, const u64 *__restrict below, u64 *__restrict out, Block b) {
	u32 lane = THREAD % 32, place = BLOCK_X * Strip + lane;
	int lo = (BLOCK_Y * 2 + THREAD / 32) * Segment, hi = min(lo + Segment, b.rows);
	if (lo >= (int)b.rows)
		return;
	// The words of a row are a ring; the first lane is one before the strip.
	u32 word = (place + b.words - 1) % b.words;
	bool keep = lane > 0 && lane <= Strip && place <= b.words;
	Rows r = {above, rows, below, b};
	if (b.k == Most)
		stream<true>(r, out, word, keep, lo, hi);
	else
		stream<false>(r, out, word, keep, lo, hi);
}

// automata_deep steps a block of rows any number of times up to 64: a warp keeps
// its words of up to DeepRows rows and the margins in shared memory. Grid (words,
// rows) cut by Strip and DeepRows, 32 threads.
enum : u32 { DeepRows = 64, Deepest = 64 };

KERNEL(32, 1) automata_deep(const u64 *__restrict above, const u64 *__restrict rows, const u64 *__restrict below, u64 *__restrict out, Block b) {
	__shared__ Pair cells[DeepRows + 2 * Deepest][32];
	u32 lane = THREAD, place = BLOCK_X * Strip + lane, word = (place + b.words - 1) % b.words;
	int lo = BLOCK_Y * DeepRows, hi = min(lo + DeepRows, b.rows), k = b.k, high = hi - lo + 2 * k;
	Rows r = {above, rows, below, b};
	for (int y = 0; y < high; y++)
		cells[y][lane] = Rows::at(r, lo - k + y, word);
	for (int s = 1; s <= k; s++) {
		Line up = line(cells[s - 1][lane]), mid = line(cells[s][lane]);
		for (int y = s; y < high - s; y++) {
			Line down = line(cells[y + 1][lane]);
			cells[y][lane] = next(up, mid, down);
			up = mid;
			mid = down;
		}
	}
	if (lane > 0 && lane <= Strip && place <= b.words)
		for (int y = k; y < high - k; y++)
			out[(u64)(lo - k + y) * b.words + word] = (u64)cells[y][lane].hi << 32 | cells[y][lane].lo;
}

//params: anyParams
struct Any {
	unsigned words, rows; // of a row, and of the block
	unsigned k; // steps, which are the rows of a halo
	unsigned cols; // of a row
	unsigned birth, survive; // bit n is for n neighbours, of dead cells and of live ones
};

// ring returns 64 cells of a row from a cell on. The row is a ring of cells; bits behind its
// last cell are zero.
INLINE Pair ring(const u64 *row, const Any &b, u32 at) {
	u64 cells = 0;
	for (u32 have = 0; have < 64; at = 0) {
		u32 i = at / 64, shift = at % 64;
		u64 part = row[i] >> shift;
		if (shift > 0 && i + 1 < b.words)
			part |= row[i + 1] << (64 - shift);
		cells |= part << have;
		have += b.cols - at;
	}
	return {(u32)cells, (u32)(cells >> 32)};
}

// rule_any is rule for any set of numbers of neighbours. A live cell is one of the nine that
// are added up itself.
INLINE u32 rule_any(Sums up, Sums mid, Sums down, u32 cells, const Any &b) {
	Sums ones = add(up.one, mid.one, down.one), twos = add(up.two, mid.two, down.two);
	u32 carry = twos.one & ones.two, out = 0;
	u32 sum[4] = {ones.one, twos.one ^ ones.two, twos.two ^ carry, twos.two & carry};
#pragma unroll
	for (u32 n = 0; n <= 9; n++) {
		u32 is = ~0u; // places where the sum is n
#pragma unroll
		for (u32 i = 0; i < 4; i++)
			is &= n >> i & 1 ? sum[i] : ~sum[i];
		u32 born = 0u - (b.birth >> n & 1), lives = 0u - (b.survive << 1 >> n & 1);
		out |= is & ((born & ~cells) | (lives & cells));
	}
	return out;
}

// automata_any is automata_deep for boards of any width and rule. Words of a warp are those
// of a row that goes on from its beginning, as often as it takes.
KERNEL(32, 1) automata_any(const u64 *__restrict above, const u64 *__restrict rows, const u64 *__restrict below, u64 *__restrict out, Any b) {
	__shared__ Pair cells[DeepRows + 2 * Deepest][32];
	u32 lane = THREAD, place = BLOCK_X * Strip + lane;
	u32 first = place > 0 ? (place - 1) * 64 % b.cols : (b.cols - 64 % b.cols) % b.cols;
	int lo = BLOCK_Y * DeepRows, hi = min(lo + DeepRows, b.rows), k = b.k, high = hi - lo + 2 * k;
	for (int i = 0; i < high; i++) {
		int y = lo - k + i;
		const u64 *row = rows + (long long)y * b.words;
		if (y < 0)
			row = above + (u64)(y + k) * b.words;
		else if (y >= (int)b.rows)
			row = below + (u64)(y - (int)b.rows) * b.words;
		cells[i][lane] = ring(row, b, first);
	}
	for (int s = 1; s <= k; s++) {
		Line up = line(cells[s - 1][lane]), mid = line(cells[s][lane]);
		for (int y = s; y < high - s; y++) {
			Line down = line(cells[y + 1][lane]);
			cells[y][lane] = {rule_any(up.lo, mid.lo, down.lo, mid.cells.lo, b), rule_any(up.hi, mid.hi, down.hi, mid.cells.hi, b)};
			up = mid;
			mid = down;
		}
	}
	if (lane == 0 || lane > Strip || place > b.words)
		return;
	u64 keep = place == b.words && b.cols % 64 > 0 ? (1ull << b.cols % 64) - 1 : ~0ull;
	for (int y = k; y < high - k; y++)
		out[(u64)(lo - k + y) * b.words + place - 1] = ((u64)cells[y][lane].hi << 32 | cells[y][lane].lo) & keep;
}
