package main

import (
	"maps"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/merkle"
	"github.com/weft-run/weft/workload/reduce"
	"github.com/weft-run/weft/workload/tropical"
)

// entry is a workload as the command offers it.
type entry struct {
	name  string
	short string
	funcs func() map[string]weft.Func
	// flags adds the workload's own flags and returns what makes the job of them.
	flags func(f *pflag.FlagSet) func() (workload.Job, error)
	// grow says how to make it larger.
	grow growth
}

// workloads are those that run live.
var workloads = []entry{
	{"gemm", "multiply two float32 matrices", gemm.Funcs, func(f *pflag.FlagSet) func() (workload.Job, error) {
		m, k, n, seed := matrixFlags(f, 2048)
		return func() (workload.Job, error) { return gemm.New(gemm.Config{M: *m, K: *k, N: *n, Seed: *seed}) }
	}, growth{[]string{"m", "k", "n"}, 3, 8192}},
	{"tropical", "multiply two matrices in max-plus algebra", tropical.Funcs, func(f *pflag.FlagSet) func() (workload.Job, error) {
		m, k, n, seed := matrixFlags(f, 1536)
		return func() (workload.Job, error) {
			return tropical.New(tropical.Config{M: *m, K: *k, N: *n, Seed: *seed})
		}
	}, growth{[]string{"m", "k", "n"}, 3, 8192}},
	{"conv", "convolve a batch of images with filters", conv.Funcs, func(f *pflag.FlagSet) func() (workload.Job, error) {
		s := conv.Shape{}
		f.IntVar(&s.N, "batch", 32, "images")
		f.IntVar(&s.C, "channels", 64, "channels of an image")
		f.IntVar(&s.H, "height", 56, "rows of an image")
		f.IntVar(&s.W, "width", 56, "columns of an image")
		f.IntVar(&s.K, "filters", 64, "filters, which are channels of the result")
		kernel := f.Int("kernel", 3, "rows and columns of a filter")
		f.IntVar(&s.Stride, "stride", 1, "step of the filter")
		f.IntVar(&s.Pad, "pad", 1, "zeros around an image")
		seed := f.Uint64("seed", 1, "what the entries are drawn from")
		return func() (workload.Job, error) {
			s.R, s.S = *kernel, *kernel
			return conv.New(conv.Config{Shape: s, Seed: *seed})
		}
	}, growth{[]string{"batch"}, 1, 4096}},
	{"reduce", "reduce a vector to one number", reduce.Funcs, func(f *pflag.FlagSet) func() (workload.Job, error) {
		op := f.String("op", "sum", "sum, average, max or min")
		n := f.Int("n", 1<<26, "elements")
		seed := f.Uint64("seed", 1, "what the elements are drawn from")
		return func() (workload.Job, error) { return reduce.New(reduce.Config{Op: *op, N: *n, Seed: *seed}) }
	}, growth{[]string{"n"}, 1, 1 << 28}},
	{"merkle", "hash leaves into the root of a tree", merkle.Funcs, func(f *pflag.FlagSet) func() (workload.Job, error) {
		n := f.Int("leaves", 1<<20, "leaves of 32 bytes")
		mode := f.String("mode", "rfc6962", "rfc6962, or dup (an odd level repeats its last node)")
		return func() (workload.Job, error) {
			m, err := merkle.ParseMode(*mode)
			if err != nil {
				return nil, err
			}
			return merkle.New(merkle.Config{N: *n, Mode: m})
		}
	}, growth{[]string{"leaves"}, 1, 1 << 25}},
	{"automata", "run Conway's Life on a torus", automata.Funcs, func(f *pflag.FlagSet) func() (workload.Job, error) {
		c := automata.Config{}
		f.IntVar(&c.Rows, "rows", 8192, "rows of the torus")
		f.IntVar(&c.Cols, "cols", 8192, "columns of the torus, a multiple of 64")
		f.IntVar(&c.Steps, "steps", 64, "generations")
		f.IntVar(&c.K, "k", 0, "generations between exchanges of halo rows (chosen)")
		f.StringVar(&c.Pattern, "pattern", "", "glider, rpentomino, acorn or gosper (random)")
		f.Uint32Var(&c.Seed, "seed", 1, "what a random pattern is drawn from")
		return func() (workload.Job, error) { return automata.New(c) }
	}, growth{[]string{"rows", "cols"}, 2, 1 << 16}},
	{"landscape", "sample the energy landscape of a protein chain", landscape.Funcs, func(f *pflag.FlagSet) func() (workload.Job, error) {
		c := landscape.Config{}
		f.StringVar(&c.Path, "pdb", "", "structure in PDB format")
		f.StringVar(&c.Chain, "chain", "", "chain to read (the first)")
		f.IntVar(&c.Residues, "residues", 200, "a helix of so many residues in place of a file")
		return func() (workload.Job, error) {
			if (c.Path != "" || c.Chain != "") && !f.Changed("residues") {
				c.Residues = 0
			}
			return landscape.New(c)
		}
	}, growth{[]string{"residues"}, 3, 4096}},
}

// matrixFlags adds the sizes of two matrices to multiply; sizes not given are
// those of --size.
func matrixFlags(f *pflag.FlagSet, size int) (m, k, n *int, seed *uint64) {
	m, k, n = f.Int("m", size, "rows of A and C"), f.Int("k", size, "columns of A, rows of B"), f.Int("n", size, "columns of B and C")
	f.FuncP("size", "s", "rows and columns of all matrices", func(v string) error {
		x, err := strconv.Atoi(v)
		*m, *k, *n = x, x, x
		return err
	})
	return m, k, n, f.Uint64("seed", 1, "what the entries are drawn from")
}

// allFuncs are the Go kernels of every workload.
func allFuncs() map[string]weft.Func {
	out := make(map[string]weft.Func)
	for _, w := range workloads {
		maps.Copy(out, w.funcs())
	}
	return out
}
