package automata_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
)

// run runs a job.
func run(t *testing.T, rt *weft.Runtime, c automata.Config) *automata.Job {
	t.Helper()
	j := workloadtest.New[*automata.Job](t)(automata.New(c))
	workloadtest.Run(t, rt, j)
	return j
}

// The same bits on any number of devices, with any number of steps between
// exchanges.
func TestJobOnDevices(t *testing.T) {
	games := []automata.Config{
		{Rows: 1, Cols: 704}, {Rows: 7, Cols: 704}, {Rows: 131, Cols: 704},
		// Rows that do not fill words, one shorter than a word, and other rules.
		{Rows: 131, Cols: 63}, {Rows: 67, Cols: 65}, {Rows: 40, Cols: 130, Rule: "B36/S23"}, {Rows: 41, Cols: 129, Rule: "B02/S8"},
	}
	want := make([][]uint64, len(games))
	for parts := 1; parts <= 8; parts++ {
		rt := workloadtest.Open(t, parts, automata.Funcs())
		for i, c := range games {
			for _, k := range []int{0, 1, 3, 7, min(c.Rows, 40)} {
				if k > c.Rows {
					continue
				}
				c.Steps, c.K, c.Seed = 40, k, 7
				j := run(t, rt, c)
				if want[i] == nil { // the others are compared with this one
					if err := j.Check(); err != nil {
						t.Fatalf("%s: %v", j.Name(), err)
					}
					want[i] = j.Result()
				}
				if !slices.Equal(j.Result(), want[i]) {
					t.Errorf("%s on %d devices: other bits than the first run", j.Name(), parts)
				}
			}
		}
	}
}

// The lowest and most uneven blocks there can be still step right.
func TestJobBlocks(t *testing.T) {
	rt := workloadtest.Open(t, 3, automata.Funcs())
	for _, c := range []automata.Config{
		{Rows: 2, Cols: 64, Steps: 9, K: 1},
		{Rows: 33, Cols: 128, Steps: 50, K: 4},
		{Rows: 33, Cols: 128, Steps: 16, K: 16},
		{Rows: 500, Cols: 64, Steps: 35, K: 16},
	} {
		j, err := automata.New(c)
		if err != nil {
			t.Fatal(err)
		}
		groups := j.Items().Extent
		each := make([]sched.Range, groups)
		for i := range each {
			each[i] = sched.Range{Lo: int64(i), Hi: int64(i + 1)}
		}
		for _, ranges := range [][]sched.Range{each, {{Lo: 0, Hi: 1}, {Lo: 1, Hi: groups}}, {{Lo: 0, Hi: groups}}} {
			g, err := j.Graph(ranges)
			if err != nil {
				t.Fatal(err)
			}
			clear(j.Result())
			if _, err := rt.Run(context.Background(), g, j.Bind()...); err != nil {
				t.Fatal(err)
			}
			if err := j.Check(); err != nil {
				t.Errorf("%s in %d ranges: %v", j.Name(), len(ranges), err)
			}
		}
	}
}

// A glider moves by one cell in both directions every four steps, around the
// torus.
func TestJobGlider(t *testing.T) {
	rt := workloadtest.Open(t, 4, automata.Funcs())
	const rows, cols, moves = 50, 128, 173
	j := run(t, rt, automata.Config{Rows: rows, Cols: cols, Steps: 4 * moves, Pattern: "glider"})
	if j.Population() != 5 {
		t.Errorf("%s", j.Summary())
	}
	for y, line := range strings.Split(".O.\n..O\nOOO", "\n") {
		for x, cell := range line {
			row, col := ((rows-3)/2+y+moves)%rows, ((cols-3)/2+x+moves)%cols
			if j.Alive(row, col) != (cell == 'O') {
				t.Errorf("row %d, column %d: alive is %v", row, col, j.Alive(row, col))
			}
		}
	}
}

// The R-pentomino settles with 116 cells at step 1103, and the gun sends a
// glider every 30 steps. The acorn has eight cells after its first step.
func TestJobPopulations(t *testing.T) {
	for _, parts := range []int{1, 3, 8} {
		rt := workloadtest.Open(t, parts, automata.Funcs())
		for _, c := range []struct {
			config automata.Config
			want   int
		}{
			{automata.Config{Rows: 896, Cols: 896, Steps: 1103, Pattern: "rpentomino"}, 116},
			{automata.Config{Rows: 256, Cols: 256, Steps: 300, K: 7, Pattern: "gosper"}, 36 + 5*10},
			{automata.Config{Rows: 128, Cols: 128, Steps: 1, Pattern: "acorn"}, 8},
		} {
			j := run(t, rt, c.config)
			if got := j.Population(); got != c.want {
				t.Errorf("%s: %d cells, want %d", j.Name(), got, c.want)
			}
		}
	}
}

// Check notices a single wrong cell anywhere, and a block of rows that was left out. A
// second run puts it right.
func TestJobChecks(t *testing.T) {
	rt := workloadtest.Open(t, 2, automata.Funcs())
	for _, c := range []automata.Config{
		{Rows: 40, Cols: 128, Steps: 10},
		{Rows: 1024, Cols: 1024, Steps: 33, Seed: 3},
	} {
		j := run(t, rt, c)
		if err := j.Check(); err != nil {
			t.Fatalf("%s: %v", j.Name(), err)
		}
		if m := j.Misses(); m[0].Chance != 0 || m[1].Chance != 0 {
			t.Errorf("%v may be missed", m)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for n := range 20 {
			end, good := j.Result(), slices.Clone(j.Result())
			i := r.IntN(len(end))
			if n%4 == 0 {
				clear(end[i/2 : i/2+len(end)/8])
			} else {
				end[i] ^= 1 << r.IntN(64)
			}
			if err := j.Check(); !errors.Is(err, automata.ErrWrong) {
				t.Errorf("%s: wrong cells in word %d: %v", j.Name(), i, err)
			}
			copy(end, good)
		}
		clear(j.Result())
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Errorf("%s again: %v", j.Name(), err)
		}
	}
}

func TestJobRejects(t *testing.T) {
	good := automata.Config{Rows: 100, Cols: 128, Steps: 10}
	for name, spoil := range map[string]func(c *automata.Config){
		"no rows":         func(c *automata.Config) { c.Rows = 0 },
		"many rows":       func(c *automata.Config) { c.Rows = 1 << 20 },
		"no columns":      func(c *automata.Config) { c.Cols = 0 },
		"a bad rule":      func(c *automata.Config) { c.Rule = "3/23" },
		"a given pattern": func(c *automata.Config) { c.Pattern = "given" },
		"narrow torus":    func(c *automata.Config) { c.Cols, c.Pattern = 30, "gosper" },
		"no steps":        func(c *automata.Config) { c.Steps = 0 },
		"negative k":      func(c *automata.Config) { c.K = -1 },
		"k above rows":    func(c *automata.Config) { c.K = 101 },
		"unknown pattern": func(c *automata.Config) { c.Pattern = "spaceship" },
		"flat torus":      func(c *automata.Config) { c.Rows, c.Pattern = 8, "gosper" },
	} {
		c := good
		spoil(&c)
		if _, err := automata.New(c); !errors.Is(err, workload.ErrConfig) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := automata.New(good); err != nil {
		t.Error(err)
	}
}
