package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"

	"github.com/weft-run/weft/internal/host"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	comm "github.com/weft-run/weft/collective/live"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/pipeline"
	"github.com/weft-run/weft/replica"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/fisher"
	"github.com/weft-run/weft/workload/fusion"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/merkle"
	"github.com/weft-run/weft/workload/reduce"
	"github.com/weft-run/weft/workload/reservoir"
	"github.com/weft-run/weft/workload/tropical"
)

// entry is a workload as the command offers it.
type entry struct {
	name  string
	short string
	funcs func() map[string]weft.Func
	// flags adds the workload's own flags and returns what they come to.
	flags func(f *pflag.FlagSet) order
	// grow says how to make it larger.
	grow growth
}

// order is a job that can be made: bytes is the memory its inputs and results
// take, so that one that does not fit is refused before it is made.
type order struct {
	bytes func() float64
	make  func() (workload.Job, error)
}

// job makes the job; what the user asked for and cannot be is a usage error.
func (o order) job(ctx context.Context, name string) (workload.Job, error) {
	if err := host.Enough(name, int64(min(o.bytes(), math.MaxInt64/2))); err != nil {
		return nil, err
	}
	var j workload.Job
	err := terminal.Abandonable(ctx, func() (err error) {
		if j, err = o.make(); err != nil {
			return terminal.Usage(err)
		}
		return nil
	})
	if err != nil {
		return nil, err // and j is not to be looked at
	}
	return j, nil
}

// workloads are those that run live.
var workloads = []entry{
	{"gemm", "multiply two float32 matrices", gemm.Funcs, func(f *pflag.FlagSet) order {
		m, k, n, seed := matrixFlags(f, 2048)
		return order{matrixBytes(m, k, n), func() (workload.Job, error) {
			return gemm.New(gemm.Config{M: *m, K: *k, N: *n, Seed: *seed})
		}}
	}, growth{[]string{"m", "k", "n"}, 3, 8192}},
	{"tropical", "multiply two matrices in max-plus algebra", tropical.Funcs, func(f *pflag.FlagSet) order {
		m, k, n, seed := matrixFlags(f, 1536)
		return order{matrixBytes(m, k, n), func() (workload.Job, error) {
			return tropical.New(tropical.Config{M: *m, K: *k, N: *n, Seed: *seed})
		}}
	}, growth{[]string{"m", "k", "n"}, 3, 8192}},
	{"tropical-net", "train a network of maxima of sums", tropical.TrainFuncs, func(f *pflag.FlagSet) order {
		c := tropical.Training{}
		f.IntVar(&c.Inputs, "inputs", 64, "inputs")
		f.IntVar(&c.Hidden, "hidden", 32, "hidden units")
		f.IntVar(&c.Outputs, "outputs", 8, "outputs")
		f.IntVar(&c.Batch, "batch", 1024, "samples")
		f.IntVar(&c.Steps, "steps", 20, "times all samples are learnt from")
		f.IntVar(&c.Shards, "shards", 8, "shards of the batch, whose gradients are all-reduced")
		f.Float64Var(&c.Rate, "rate", 0.5, "rate of learning")
		f.Uint32Var(&c.Seed, "seed", 1, "what samples and networks are drawn from")
		bytes := func() float64 {
			params := float64(c.Hidden)*float64(c.Inputs+1) + float64(c.Outputs)*float64(c.Hidden+1)
			return 4 * (float64(c.Batch)*float64(c.Inputs+c.Hidden+3*c.Outputs) + float64(3*c.Shards+2)*params)
		}
		return order{bytes, func() (workload.Job, error) {
			if err := notZero(f, "shards"); err != nil {
				return nil, err
			}
			return tropical.NewTraining(c)
		}}
	}, growth{[]string{"batch"}, 1, 1 << 17}},
	{"conv", "convolve a batch of images with filters", conv.Funcs, func(f *pflag.FlagSet) order {
		s := conv.Shape{}
		f.IntVar(&s.N, "batch", 32, "images")
		f.IntVar(&s.C, "channels", 64, "channels of an image")
		f.IntVar(&s.H, "height", 56, "rows of an image")
		f.IntVar(&s.W, "width", 56, "columns of an image")
		f.IntVar(&s.K, "filters", 64, "filters, which are channels of the result")
		kernel := f.Int("kernel", 3, "rows and columns of a filter")
		f.IntVar(&s.Stride, "stride", 1, "step of the filter")
		f.IntVar(&s.Pad, "pad", 1, "zeros around an image")
		split := f.String("split", conv.Images, "what is dealt out: images, or rows of all of them with a halo")
		seed := f.Uint64("seed", 1, "what the entries are drawn from")
		bytes := func() float64 { // the result is no larger than the images with their frame
			pad := 2 * float64(s.Pad)
			pixels := (float64(s.H) + pad) * (float64(s.W) + pad)
			return 4 * (float64(s.N)*pixels*(float64(s.C)+float64(s.K)) + float64(s.K)*float64(s.C)*float64(*kernel)*float64(*kernel))
		}
		return order{bytes, func() (workload.Job, error) {
			s.R, s.S = *kernel, *kernel
			return conv.New(conv.Config{Shape: s, Seed: *seed, Split: *split})
		}}
	}, growth{[]string{"batch"}, 1, 4096}},
	{"reduce", "reduce a vector to one number", reduce.Funcs, func(f *pflag.FlagSet) order {
		op := f.String("op", "sum", "sum, average, max or min")
		n := f.Int("n", 1<<26, "elements")
		seed := f.Uint64("seed", 1, "what the elements are drawn from")
		return order{func() float64 { return 4 * float64(*n) }, func() (workload.Job, error) {
			return reduce.New(reduce.Config{Op: *op, N: *n, Seed: *seed})
		}}
	}, growth{[]string{"n"}, 1, 1 << 28}},
	{"merkle", "hash leaves into the root of a tree", merkle.Funcs, func(f *pflag.FlagSet) order {
		n := f.Int("leaves", 1<<20, "leaves of 32 bytes")
		mode := f.String("mode", "rfc6962", "rfc6962, or dup (an odd level repeats its last node, so two lists of leaves can have one root)")
		// The levels above the leaves have as many nodes together.
		return order{func() float64 { return 2 * 32 * float64(*n) }, func() (workload.Job, error) {
			m, err := merkle.ParseMode(*mode)
			if err != nil {
				return nil, err
			}
			return merkle.New(merkle.Config{N: *n, Mode: m})
		}}
	}, growth{[]string{"leaves"}, 1, 1 << 25}},
	{"automata", "run Conway's Life on a torus", automata.Funcs, func(f *pflag.FlagSet) order {
		c := automata.Config{}
		f.IntVar(&c.Rows, "rows", 8192, "rows of the torus")
		f.IntVar(&c.Cols, "cols", 8192, "columns of the torus, a multiple of 64")
		f.IntVar(&c.Steps, "steps", 64, "generations")
		f.IntVar(&c.K, "k", 0, "generations between exchanges of halo rows (chosen)")
		f.StringVar(&c.Pattern, "pattern", "", "glider, rpentomino, acorn or gosper (random)")
		f.Uint32Var(&c.Seed, "seed", 1, "what a random pattern is drawn from")
		// The first and the last generation, and one between.
		bytes := func() float64 { return 3 * float64(c.Rows) * float64(c.Cols) / 8 }
		return order{bytes, func() (workload.Job, error) { return automata.New(c) }}
	}, growth{[]string{"rows", "cols"}, 2, 1 << 16}},
	{"landscape", "sample the energy landscape of a protein chain", landscape.Funcs, func(f *pflag.FlagSet) order {
		c := landscape.Config{}
		f.StringVar(&c.Path, "pdb", "", "structure in PDB format")
		f.StringVar(&c.Chain, "chain", "", "chain to read (the first)")
		f.IntVar(&c.Residues, "residues", 200, "a helix of so many residues in place of a file; 0 is crambin, 1CRN, which comes with weft")
		bytes := func() float64 { return 8 * landscape.Angles * float64(c.Residues) }
		return order{bytes, func() (workload.Job, error) {
			if (c.Path != "" || c.Chain != "") && !f.Changed("residues") {
				c.Residues = 0
			}
			return landscape.New(c)
		}}
	}, growth{[]string{"residues"}, 3, 4096}},
	{"reservoir", "run spike patterns through an echo-state network", reservoir.Funcs, func(f *pflag.FlagSet) order {
		c := reservoir.Config{Params: reservoir.Defaults()}
		f.IntVar(&c.Size, "neurons", c.Size, "neurons of the reservoir")
		f.IntVar(&c.Inputs, "channels", c.Inputs, "channels of input, or intervals in mode histogram")
		f.IntVar(&c.Steps, "steps", 100, "steps of a pattern; one in mode histogram")
		f.IntVar(&c.Batch, "batch", 1024, "patterns; with --strategy, of each replica")
		f.StringVar(&c.Mode, "mode", reservoir.Sequence, "how spikes become input: sequence, or histogram")
		f.StringVar(&c.Split, "split", reservoir.Patterns, "what is dealt out: patterns, neurons, or rows that stay on their devices")
		strategy := f.String("strategy", "", "carry the state from run to run in replicas, merged: eager, 'periodic 100ms', 'adaptive 0.05' or none")
		replicas := f.Int("replicas", 0, "replicas of the state, with --strategy (one for each device)")
		f.Float64Var(&c.Connectivity, "connectivity", c.Connectivity, "probability that two neurons are connected")
		f.Float64Var(&c.Noise, "noise", c.Noise, "what is added to every activation at most")
		f.Uint32Var(&c.Seed, "seed", 1, "what weights, patterns and noise are drawn from")
		// Inputs, and states at the start, between, at the end and on average; and the
		// weights with their columns, twice because they grow while they are drawn.
		bytes := func() float64 {
			weights := min(max(c.Connectivity, 0), 1) * float64(c.Size) * (float64(c.Size) + float64(c.Inputs))
			return 4*float64(c.Batch)*(float64(c.Steps)*float64(c.Inputs)+4*float64(c.Size)) + 2*8*weights
		}
		return order{bytes, func() (workload.Job, error) {
			if c.Mode == reservoir.Histogram && !f.Changed("steps") {
				c.Steps = 1
			}
			if *strategy == "" && *replicas == 0 {
				return reservoir.NewJob(c)
			}
			if *strategy == "" {
				return nil, fmt.Errorf("--replicas %d: it goes with --strategy, as --strategy eager", *replicas)
			}
			if c.Split != reservoir.Patterns || c.Mode != reservoir.Sequence {
				return nil, fmt.Errorf("--strategy carries states of patterns dealt out in mode %s: leave --split and --mode out", reservoir.Sequence)
			}
			k, err := replica.ParseStrategy(*strategy)
			if err != nil {
				return nil, err
			}
			return reservoir.NewStreamJob(reservoir.StreamConfig{Params: c.Params, Replicas: *replicas, Patterns: c.Batch, Steps: c.Steps, Strategy: k})
		}}
	}, growth{[]string{"batch"}, 1, 1 << 14}},
	{"fusion", "take records of three algebras through three stages", fusion.Funcs, func(f *pflag.FlagSet) order {
		c := fusion.Config{}
		f.IntVar(&c.Records, "records", 1<<19, "records of 128 bytes")
		f.IntVar(&c.Micro, "micro", 0, "records a stage takes at a time (a 64th of all)")
		mode := f.String("mode", "", "data, pipeline or hybrid parallel (anywhere)")
		f.IntVar(&c.Copies, "copies", 0, "pipelines in mode hybrid (chosen)")
		f.BoolVar(&c.Bind, "bind", false, "bind every record after the stages with what it was before")
		f.Uint32Var(&c.Seed, "seed", 1, "what records and weights are drawn from")
		// Records before, after and between the stages.
		return order{func() float64 { return 4 * 128 * float64(c.Records) }, func() (workload.Job, error) {
			c.Mode = pipeline.Mode(*mode)
			return fusion.New(c)
		}}
	}, growth{[]string{"records"}, 1, 1 << 22}},
	{"fisher", "compute the Fisher information of a logistic regression", fisher.Funcs, func(f *pflag.FlagSet) order {
		c := fisher.Config{}
		f.IntVar(&c.Points, "points", 10_000, "points")
		f.IntVar(&c.Features, "features", 64, "features of a point")
		f.IntVar(&c.Shards, "shards", 8, "shards of points, which are all-reduced")
		f.IntVar(&c.Blocks, "blocks", 1, "blocks of features; more than one is hybrid")
		f.Uint32Var(&c.Seed, "seed", 1, "what points and model are drawn from")
		bytes := func() float64 {
			return 4*float64(c.Points)*float64(c.Features) + 8*float64(2*c.Shards+1)*float64(c.Features)*float64(c.Features)
		}
		return order{bytes, func() (workload.Job, error) {
			if err := notZero(f, "shards", "blocks"); err != nil {
				return nil, err
			}
			return fisher.New(c)
		}}
	}, growth{[]string{"points"}, 1, 1 << 22}},
}

// notZero refuses a zero that a workload would take for its default: who writes it
// means none, and help does not say that it is anything else.
func notZero(f *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if n, err := f.GetInt(name); err == nil && n == 0 {
			return fmt.Errorf("--%s 0: it must be at least 1", name)
		}
	}
	return nil
}

// matrixFlags adds the sizes of two matrices to multiply; sizes not given are
// those of --size.
func matrixFlags(f *pflag.FlagSet, size int) (m, k, n *int, seed *uint64) {
	m, k, n = f.Int("m", size, "rows of A and C"), f.Int("k", size, "columns of A, rows of B"), f.Int("n", size, "columns of B and C")
	f.FuncP("size", "s", "rows and columns of all matrices", func(v string) error {
		x, err := strconv.Atoi(v)
		if errors.Is(err, strconv.ErrRange) {
			return err
		} else if err != nil {
			return errors.New("it must be a whole number")
		}
		*m, *k, *n = x, x, x
		return nil
	})
	return m, k, n, f.Uint64("seed", 1, "what the entries are drawn from")
}

// matrixBytes is what three float32 matrices take, the second of them also
// packed.
func matrixBytes(m, k, n *int) func() float64 {
	return func() float64 {
		m, k, n := float64(*m), float64(*k), float64(*n)
		return 4 * (m*k + 2*k*n + m*n)
	}
}

// allFuncs are the Go kernels of every workload and of benchmarks.
func allFuncs() map[string]weft.Func {
	out := map[string]weft.Func{triangleKernel: triangleRows, spinKernel: spinUnits}
	maps.Copy(out, comm.Funcs())
	for _, w := range workloads {
		maps.Copy(out, w.funcs())
	}
	return out
}
