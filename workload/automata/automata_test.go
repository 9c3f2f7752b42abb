package automata

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/simd"
)

// everyKernel runs a test with each kernel this machine has.
func everyKernel(t *testing.T, test func(t *testing.T)) {
	defer func() { use = simd.Best }()
	for _, use = range simd.Sets() {
		t.Run(fmt.Sprintf("kernel=%v", use), test)
	}
}

// random returns rows of cells that live with probability one half.
func random(words, rows int, seed uint64) []uint64 {
	r := rand.New(rand.NewPCG(seed, 1))
	grid := make([]uint64, words*rows)
	for i := range grid {
		grid[i] = r.Uint64()
	}
	return grid
}

// draw sets the cells of a picture, with its left upper corner at x, y.
func draw(grid []uint64, words, x, y int, picture string) {
	for dy, line := range strings.Split(picture, "\n") {
		for dx, c := range line {
			if c == 'O' {
				grid[(y+dy)*words+(x+dx)/64] |= 1 << ((x + dx) % 64)
			}
		}
	}
}

func population(grid []uint64) (n int) {
	for _, w := range grid {
		n += bits.OnesCount64(w)
	}
	return n
}

// run steps a whole torus and returns the last generation and a second buffer.
func run(grid, other []uint64, words, steps int) (last, spare []uint64) {
	for range steps {
		Torus(other, grid, words, 0, len(grid)/words)
		grid, other = other, grid
	}
	return grid, other
}

// naive steps a torus one cell at a time, straight from the rule.
func naive(grid []uint64, words int) []uint64 {
	rows, cols := len(grid)/words, 64*words
	alive := func(x, y int) uint64 {
		x, y = (x+cols)%cols, (y+rows)%rows
		return grid[y*words+x/64] >> (x % 64) & 1
	}
	next := make([]uint64, len(grid))
	for y := range rows {
		for x := range cols {
			var n uint64
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					if dx != 0 || dy != 0 {
						n += alive(x+dx, y+dy)
					}
				}
			}
			if n == 3 || n == 2 && alive(x, y) == 1 {
				next[y*words+x/64] |= 1 << (x % 64)
			}
		}
	}
	return next
}

func TestAgainstRule(t *testing.T) {
	everyKernel(t, func(t *testing.T) {
		for _, words := range []int{1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 18, 19, 27} {
			for _, rows := range []int{1, 2, 3, 8} {
				grid := random(words, rows, uint64(words*100+rows))
				got, want := slices.Clone(grid), grid
				spare := make([]uint64, len(grid))
				for step := range 3 {
					got, spare = run(got, spare, words, 1)
					if want = naive(want, words); !slices.Equal(got, want) {
						t.Fatalf("%d words, %d rows: step %d differs from the rule", words, rows, step+1)
					}
				}
			}
		}
	})
}

// A glider is itself, moved by one cell in both directions, after four steps:
// also across words and around the torus.
func TestGlider(t *testing.T) {
	const glider = ".O.\n..O\nOOO"
	const words, rows = 3, 100
	everyKernel(t, func(t *testing.T) {
		grid := make([]uint64, words*rows)
		draw(grid, words, 0, 0, glider)
		spare := make([]uint64, len(grid))
		for i := range 400 {
			want := make([]uint64, words*rows)
			for y, line := range strings.Split(glider, "\n") {
				for x, c := range line {
					if c == 'O' {
						x, y := (x+i)%(64*words), (y+i)%rows
						want[y*words+x/64] |= 1 << (x % 64)
					}
				}
			}
			if !slices.Equal(grid, want) {
				t.Fatalf("after %d steps the glider is not where it should be", 4*i)
			}
			grid, spare = run(grid, spare, words, 4)
		}
	})
}

// The two methuselahs settle at the known generation with the known population
// on a torus too large for their gliders to come back. Their populations never
// change again, and did just before.
func TestMethuselahs(t *testing.T) {
	for _, c := range []struct {
		name, picture     string
		words             int
		steps, population int
	}{
		{"R-pentomino", ".OO\nOO.\n.O.", 14, 1103, 116},
		{"acorn", ".O.....\n...O...\nOO..OOO", 44, 5206, 633},
	} {
		t.Run(c.name, func(t *testing.T) {
			side := 64 * c.words
			grid, other := make([]uint64, c.words*side), make([]uint64, c.words*side)
			draw(grid, c.words, side/2, side/2, c.picture)
			// Only rows that life has reached, and one more on each side.
			lo, hi := side/2-1, side/2+4
			for step := 1; step <= c.steps+8; step++ {
				Torus(other, grid, c.words, lo, hi)
				grid, other = other, grid
				if population(grid[lo*c.words:(lo+1)*c.words]) > 0 {
					lo--
				}
				if population(grid[(hi-1)*c.words:hi*c.words]) > 0 {
					hi++
				}
				if step < c.steps-1 {
					continue
				}
				if n := population(grid); (n == c.population) != (step >= c.steps) {
					t.Errorf("generation %d has %d cells; %d from generation %d on are expected", step, n, c.population, c.steps)
				}
			}
		})
	}
}

// Gosper's gun returns to itself every 30 steps and has then sent one more
// glider on its way.
func TestGosperGun(t *testing.T) {
	const gun = `........................O...........
......................O.O...........
............OO......OO............OO
...........O...O....OO............OO
OO........O.....O...OO..............
OO........O...O.OO....O.O...........
..........O.....O.......O...........
...........O...O....................
............OO......................`
	const words, rows = 8, 512
	const cells = 36
	everyKernel(t, func(t *testing.T) {
		grid := make([]uint64, words*rows)
		draw(grid, words, 4, 4, gun)
		// The gun without its last row, above all gliders.
		first := slices.Clone(grid[:12*words])
		if population(grid) != cells {
			t.Fatalf("the gun has %d cells, not %d", population(grid), cells)
		}
		spare := make([]uint64, len(grid))
		for shots := 1; shots <= 20; shots++ {
			grid, spare = run(grid, spare, words, 30)
			if n := population(grid); n != cells+5*shots {
				t.Fatalf("after %d periods %d cells, want the gun and %d gliders", shots, n, shots)
			}
			if !slices.Equal(grid[:len(first)], first) {
				t.Fatalf("after %d periods the gun has changed", shots)
			}
		}
	})
}

// Cutting a torus into blocks with halos changes no bit, with any number of
// blocks and any number of steps between exchanges.
func TestBlocksWithHalos(t *testing.T) {
	const words, rows = 11, 97
	grid := random(words, rows, 5)
	want, _ := run(slices.Clone(grid), make([]uint64, len(grid)), words, 12)
	everyKernel(t, func(t *testing.T) {
		for parts := 1; parts <= 8; parts++ {
			for _, k := range []int{1, 2, 3, 4, 6, 12} {
				got := slices.Clone(grid)
				for range 12 / k {
					got = exchangeAndAdvance(got, words, parts, k)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%d blocks, %d steps between exchanges: the result differs", parts, k)
				}
			}
		}
	})
}

// exchangeAndAdvance steps a torus k times in separate blocks.
func exchangeAndAdvance(grid []uint64, words, parts, k int) []uint64 {
	rows := len(grid) / words
	next := make([]uint64, len(grid))
	begin := cutBlocks(rows, parts)
	for p := range parts {
		var block []uint64
		for y := begin[p] - k; y < begin[p+1]+k; y++ {
			at := (y + rows) % rows
			block = append(block, grid[at*words:(at+1)*words]...)
		}
		last := Advance(block, make([]uint64, len(block)), words, k)
		copy(next[begin[p]*words:begin[p+1]*words], last[k*words:])
	}
	return next
}

func TestBlocksCover(t *testing.T) {
	for rows := range 40 {
		for parts := 1; parts < 10; parts++ {
			b := cutBlocks(rows, parts)
			if b[0] != 0 || b[parts] != rows {
				t.Fatalf("%d rows in %d blocks: %v", rows, parts, b)
			}
			for i := range parts {
				if n := b[i+1] - b[i]; n < rows/parts || n > rows/parts+1 {
					t.Fatalf("%d rows in %d blocks: %v", rows, parts, b)
				}
			}
		}
	}
}

func TestKernelsDoNotAllocate(t *testing.T) {
	const words, rows, k = 20, 40, 4
	src, dst := random(words, rows, 1), make([]uint64, words*rows)
	a, b := random(words, rows, 2), make([]uint64, words*rows)
	if n := testing.AllocsPerRun(10, func() {
		Torus(dst, src, words, 0, rows)
		Advance(a, b, words, k)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkLife steps 8192 x 8192 cells on one core, one generation at a time
// and sixteen in a block that stays in the cache.
func BenchmarkLife(b *testing.B) {
	const words, rows = 128, 8192
	const k = 16
	src, dst := random(words, rows, 1), make([]uint64, words*rows)
	const block = 512 // rows, two generations of which are one MiB
	x, y := random(words, block, 2), make([]uint64, words*block)
	defer func() { use = simd.Best }()
	for _, use = range simd.Sets() {
		b.Run(fmt.Sprintf("kernel=%v/steps=1", use), func(b *testing.B) {
			for range b.N {
				Torus(dst, src, words, 0, rows)
			}
			b.ReportMetric(64*words*rows*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gcell/s")
		})
		b.Run(fmt.Sprintf("kernel=%v/steps=%d", use, k), func(b *testing.B) {
			for range b.N {
				Advance(x, y, words, k)
			}
			b.ReportMetric(64*words*(block-2*k)*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gcell/s")
		})
	}
}

// What is played again is all of a game, or less than all of it, however many steps
// there are: a window of a million has more words than an int counts.
func TestWindows(t *testing.T) {
	for _, c := range []struct{ rows, cols, steps, want int }{
		{64, 64, 1, 0},
		{9, 64, 1_000_000, 0},
		{64, 64, 1_000_000, 0},
		{1 << 14, 1 << 14, 1 << 40, 0},
		{8192, 8192, 100, 0},
		{1 << 14, 1 << 14, 1000, 7},
		{1 << 17, 1 << 17, 64, 2048},
		{1 << 17, 1 << 17, 4000, 4},
	} {
		if got := windowsOf(c.rows, c.cols/64, c.steps); got != c.want {
			t.Errorf("%d × %d for %d steps: %d windows, want %d", c.rows, c.cols, c.steps, got, c.want)
		}
	}
}

// The check's own generations follow the rule, in any parts of the rows.
func TestGeneration(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {1, 2}, {2, 3}, {3, 40}, {5, 17}} {
		words, rows := size[0], size[1]
		cells, next := random(words, rows, 3), make([]uint64, words*rows)
		for range 20 {
			want := naive(cells, words)
			for lo := 0; lo < rows; lo += 7 {
				generation(next, cells, words, lo, min(lo+7, rows), game{rule: Life})
			}
			if !slices.Equal(next, want) {
				t.Fatalf("%d × %d words do not follow the rule", rows, words)
			}
			cells, next = next, cells
		}
	}
}

// Windows agree with the game, of any width and rule and wherever they are, and see a wrong
// cell in them.
func TestCheckWindow(t *testing.T) {
	for _, c := range []Config{
		{Cols: 64 * 9}, {Cols: 64*8 + 5}, {Cols: 64*8 + 63, Rule: "B36/S125"},
	} {
		c.Rows, c.Steps, c.Seed = 300, 70, 5
		j, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		g, at, next := game{j.rule, j.rest()}, slices.Clone(j.start), j.end
		row := func(y int) []uint64 { y = (y + 300) % 300; return at[y*j.words : (y+1)*j.words] }
		for range c.Steps {
			for y := range 300 {
				g.row(next[y*j.words:(y+1)*j.words], row(y-1), row(y), row(y+1))
			}
			at, next = next, at
		}
		copy(j.end, at)
		for _, top := range []int{0, 100, 236, 299} {
			for left := range j.words {
				w := window{top: top, left: left, rows: 64, words: 1, above: 70, beside: 2}
				if err := j.checkWindow(w); err != nil {
					t.Fatalf("%+v of %s: %v", w, j.Name(), err)
				}
				i := (top+63)%300*j.words + left
				j.end[i] ^= 1 << 3
				if err := j.checkWindow(w); !errors.Is(err, errWrong) {
					t.Errorf("%+v of %s: a wrong cell: %v", w, j.Name(), err)
				}
				j.end[i] ^= 1 << 3
			}
		}
	}
}
