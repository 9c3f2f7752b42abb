package automata

import (
	"fmt"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload"
)

// What Check plays again: games of up to wholeWords words of 64 cells over all steps,
// which takes about five seconds of a core's time, and of others windows for about as
// long, a few at least.
const (
	wholeWords = 1 << 29
	fewWindows = 4
	windowRows = 64 // of a window, which is a word wide
)

// Check plays the game again by adding up neighbours, 64 cells at a time, in a way of
// its own: all of it, or windows of it where that would take long. Windows are evenly
// spaced over the rows from a random one on, each at a random place of its rows. The
// seed of the game decides where.
func (j *job) Check() error {
	rows, words, steps := j.c.Rows, j.words, j.c.Steps
	windows := windowsOf(rows, words, steps)
	j.missedCell, j.missedRow = 0, 0
	if windows == 0 {
		return j.checkWindow(window{rows: rows, words: words})
	}
	places := philox.Source{Seed: j.c.Seed, Stream: 1}
	first := int(places.Uint32(0, 0, 0)) % rows
	for i := range windows {
		w := window{top: (first + i*rows/windows) % rows, left: int(places.Uint32(uint64(i), 1, 0)) % words, rows: windowRows, words: 1}
		w.above, w.beside = steps, (steps+63)/64
		if err := j.checkWindow(w); err != nil {
			return err
		}
	}
	seen := min(1, float64(windows*windowRows)/float64(rows)) // of the rows
	j.missedRow, j.missedCell = 1-seen, 1-seen/float64(words)
	return nil
}

// Misses lists errors that Check may not see.
func (j *job) Misses() []workload.Miss {
	return []workload.Miss{
		{What: "one wrong cell", Chance: j.missedCell},
		{What: "one wrong row", Chance: j.missedRow},
	}
}

// windowsOf returns the number of windows of a game that Check plays again, 0 for all of
// it. It counts in float64: a window of a million steps has more words than an int counts.
func windowsOf(rows, words, steps int) int {
	whole := float64(rows) * float64(words) * float64(steps)
	one := float64(windowRows+2*steps) * float64(1+2*((steps+63)/64)) * float64(steps)
	if whole <= wholeWords || fewWindows*one >= whole {
		return 0
	}
	return max(min(int(wholeWords/one), (rows+windowRows-1)/windowRows), fewWindows)
}

// window is a part of the game: rows and words from a place on, and a margin of as many
// rows and words on every side.
type window struct{ top, left, rows, words, above, beside int }

// checkWindow plays a window, as a torus of its own, and compares it but for its margin.
// Nothing travels faster than a cell a step, so that a margin of as many cells as there
// are steps keeps the edges out.
func (j *job) checkWindow(w window) error {
	rows, words := j.c.Rows, j.words
	height, width := w.rows+2*w.above, w.words+2*w.beside
	row := func(y int) int { return ((w.top+y-w.above)%rows + rows) % rows } // of the game, in a row of the window
	cells, next := make([]uint64, height*width), make([]uint64, height*width)
	for y := range height {
		for x := range width {
			cells[y*width+x] = j.ring(row(y), 64*(w.left+x-w.beside))
		}
	}
	g := game{rule: j.rule}
	if w.beside == 0 { // it is all of the game, and its rows are rings of as many cells
		g.rest = j.rest()
		for i := width - 1; i < len(cells); i += width {
			cells[i] &= j.last()
		}
	}
	for range j.c.Steps {
		if err := workload.Sweep(height, func(lo, hi int) error {
			generation(next, cells, width, lo, hi, g)
			return nil
		}); err != nil {
			return err
		}
		cells, next = next, cells
	}
	for y := w.above; y < w.above+w.rows; y++ {
		for x := w.beside; x < w.beside+w.words; x++ {
			word := w.left + x - w.beside
			got, want := j.end[row(y)*words+word], cells[y*width+x]
			if word == words-1 {
				want &= j.last()
			}
			if got != want {
				return fmt.Errorf("automata: after %d steps the cells of row %d from column %d on are %#x, want %#x: %w",
					j.c.Steps, row(y), word*64, got, want, errWrong)
			}
		}
	}
	return nil
}

// ring returns 64 cells of a row of the first generation, from a column on that may be
// beyond either end of it: the row is a ring.
func (j *job) ring(row, col int) (out uint64) {
	n := j.c.Cols
	if n%64 == 0 || col >= 0 && col+64 <= n {
		return j.start[row*j.words+((col/64)%j.words+j.words)%j.words]
	}
	for i := range 64 {
		x := ((col+i)%n + n) % n
		out |= j.start[row*j.words+x/64] >> (x % 64) & 1 << i
	}
	return out
}

// generation steps rows lo to hi of a torus with rows of w words.
func generation(next, cells []uint64, w, lo, hi int, g game) {
	height := len(cells) / w
	row := func(y int) []uint64 { y = (y + height) % height; return cells[y*w : (y+1)*w] }
	end := 63 // the bit of a row's last cell, in its last word
	if g.rest > 0 {
		end = g.rest - 1
	}
	// The cells of three columns in a row, as a number of two bits.
	var ones, twos [3][]uint64
	for i := range 3 {
		ones[i], twos[i] = make([]uint64, w), make([]uint64, w)
	}
	add := func(y int) {
		from, one, two := row(y), ones[(y+3)%3], twos[(y+3)%3]
		for x, c := range from {
			left, right := c<<1, c>>1
			if x == 0 {
				left |= from[w-1] >> end & 1
			} else {
				left |= from[x-1] >> 63
			}
			if x == w-1 {
				right |= from[0] & 1 << end
			} else {
				right |= from[x+1] << 63
			}
			one[x], two[x] = left^c^right, left&c|left&right|c&right
		}
	}
	add(lo - 1)
	add(lo)
	for y := lo; y < hi; y++ {
		add(y + 1)
		own, out := row(y), next[y*w:(y+1)*w]
		for x := range out {
			a, b, c := ones[0][x], ones[1][x], ones[2][x]
			one, carry := a^b^c, a&b|a&c|b&c
			// Of the four numbers worth two each, how many there are.
			a, b, c = twos[0][x], twos[1][x], twos[2][x]
			odd, several := a^b^c^carry, a&b|c&carry|(a|b)&(c|carry)
			four := a & b & c & carry
			if g.rule != Life {
				out[x] = g.rule.next(own[x], one, odd, several&^four, four)
				continue
			}
			// A cell lives by the number of cells around it, itself included: with
			// three, or with four if it was alive.
			out[x] = one&odd&^several | own[x]&several&^(one|odd|four)
		}
		if g.rest > 0 {
			out[w-1] &= 1<<g.rest - 1
		}
	}
}

// next tells which cells live by the number of cells around each, itself included, cell by
// cell: the sum of ones, twos, fours and eights.
func (r Rule) next(own, one, two, four, eight uint64) (out uint64) {
	for i := range 64 {
		alive := own >> i & 1
		around := one>>i&1 + two>>i&1<<1 + four>>i&1<<2 + eight>>i&1<<3 - alive
		set := r.birth
		if alive == 1 {
			set = r.survive
		}
		out |= uint64(set>>around&1) << i
	}
	return out
}
