package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/weft-run/weft/experimental/replica"
	"github.com/weft-run/weft/internal/product"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/autodiff"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/clifford"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/enumerative"
	"github.com/weft-run/weft/workload/fisher"
	"github.com/weft-run/weft/workload/fusion"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/merkle"
	"github.com/weft-run/weft/workload/network"
	"github.com/weft-run/weft/workload/protein/elastic"
	"github.com/weft-run/weft/workload/protein/phase"
	"github.com/weft-run/weft/workload/reduce"
	"github.com/weft-run/weft/workload/relativity"
	"github.com/weft-run/weft/workload/reservoir"
	"github.com/weft-run/weft/workload/tropical"
)

// list has the workloads. A new one is a new entry.
var list = []Entry{
	{"gemm", "multiply two float32 matrices", gemm.Funcs, func(f *Flags) Order {
		return OrderOf((*gemm.Config)(matrixFlags(f, 2048)), gemm.New)
	}, Growth{[]string{"m", "k", "n"}, 3, 8192}},
	{"tropical", "multiply two matrices in max-plus algebra", tropical.Funcs, func(f *Flags) Order {
		return OrderOf((*tropical.Config)(matrixFlags(f, 1536)), tropical.New)
	}, Growth{[]string{"m", "k", "n"}, 3, 8192}},
	{"tropical-net", "train a network of maxima of sums", tropical.TrainFuncs, func(f *Flags) Order {
		c := tropical.Training{}
		f.IntVar(&c.Inputs, "inputs", 64, "inputs")
		f.IntVar(&c.Hidden, "hidden", 32, "hidden units")
		f.IntVar(&c.Outputs, "outputs", 8, "outputs")
		f.IntVar(&c.Batch, "batch", 1024, "samples")
		f.IntVar(&c.Steps, "steps", 20, "times all samples are learnt from")
		f.IntVar(&c.Shards, "shards", 8, "shards of the batch, whose gradients every device adds up")
		f.Float64Var(&c.Rate, "rate", 0.5, "rate of learning")
		f.Uint32Var(&c.Seed, "seed", 1, "what samples and networks are drawn from")
		return OrderOf(&c, tropical.NewTraining, notZero(f, "shards"))
	}, Growth{[]string{"batch"}, 1, 1 << 17}},
	{"conv", "convolve a batch of images with filters", conv.Funcs, func(f *Flags) Order {
		c := conv.Config{}
		f.IntVar(&c.N, "batch", 32, "images")
		f.IntVar(&c.C, "channels", 64, "channels of an image")
		f.IntVar(&c.H, "height", 56, "rows of an image")
		f.IntVar(&c.W, "width", 56, "columns of an image")
		f.IntVar(&c.K, "filters", 64, "filters, which are channels of the result")
		f.IntVar(&c.R, "kernel", 3, "rows and columns of a filter")
		f.IntVar(&c.Stride, "stride", 1, "step of the filter")
		f.IntVar(&c.Pad, "pad", 1, "zeros around an image")
		f.StringVar(&c.Split, "split", conv.Images, "divide images, or rows of all of them with a halo")
		f.Uint64Var(&c.Seed, "seed", 1, "what the entries are drawn from")
		return OrderOf(&c, conv.New, func() error { c.S = c.R; return nil })
	}, Growth{[]string{"batch"}, 1, 4096}},
	{"reduce", "reduce a vector to one number", reduce.Funcs, func(f *Flags) Order {
		c := reduce.Config{}
		f.StringVar(&c.Op, "op", "sum", "sum, average, max or min")
		f.IntVar(&c.N, "n", 1<<26, "elements")
		f.Uint64Var(&c.Seed, "seed", 1, "what the elements are drawn from")
		return OrderOf(&c, reduce.New)
	}, Growth{[]string{"n"}, 1, 1 << 28}},
	{"merkle", "hash leaves into the root of a tree", merkle.Funcs, func(f *Flags) Order {
		c := merkle.Config{}
		f.IntVar(&c.N, "leaves", 1<<20, "leaves of 32 bytes")
		mode := ""
		f.StringVar(&mode, "mode", "rfc6962", "rfc6962, or dup (an odd level repeats its last node, so two lists of leaves can have one root)")
		return OrderOf(&c, merkle.New, func() (err error) {
			c.Mode, err = merkle.ParseMode(mode)
			return err
		})
	}, Growth{[]string{"leaves"}, 1, 1 << 25}},
	{"automata", "run Conway's Life, or a game like it, on a torus", automata.Funcs, func(f *Flags) Order {
		c := automata.Config{}
		f.IntVar(&c.Rows, "rows", 8192, "rows of the torus")
		f.IntVar(&c.Cols, "cols", 8192, "columns of the torus; a multiple of 64 is fastest")
		f.StringVar(&c.Rule, "rule", "", "numbers of neighbours with which cells are born and survive, as B36/S23 (B3/S23, Life)")
		f.IntVar(&c.Steps, "steps", 64, "generations")
		f.IntVar(&c.K, "k", 0, "generations between exchanges of halo rows (chosen)")
		f.StringVar(&c.Pattern, "pattern", "", "glider, rpentomino, acorn or gosper (random)")
		f.Uint32Var(&c.Seed, "seed", 1, "what a random pattern is drawn from")
		return OrderOf(&c, automata.New)
	}, Growth{[]string{"rows", "cols"}, 2, 1 << 16}},
	{"landscape", "sample the energy landscape of a protein chain", landscape.Funcs, func(f *Flags) Order {
		c := landscape.Config{}
		of := structure{&c.Structure, &c.Select, &c.Given}
		return of.order(OrderOf(&c, landscape.New, of.flags(f, &c.Residues, 200)))
	}, Growth{[]string{"residues"}, 3, 4096}},
	{"elastic", "find the slowest motions of a protein's elastic network", elastic.Funcs, elasticFlags, Growth{[]string{"residues"}, 3, 2048}},
	{"phase", "compute phase states of a protein", phase.Funcs, phaseFlags, Growth{[]string{"residues"}, 3, 4096}},
	{"reservoir", "run spike patterns through an echo-state network", reservoir.Funcs, func(f *Flags) Order {
		c := reservoir.Config{Params: reservoir.Defaults()}
		f.IntVar(&c.Size, "neurons", c.Size, "neurons of the reservoir")
		f.IntVar(&c.Inputs, "channels", c.Inputs, "channels of input, or intervals in mode histogram")
		f.IntVar(&c.Steps, "steps", 100, "steps of a pattern; one in mode histogram")
		f.IntVar(&c.Batch, "batch", 1024, "patterns; with --strategy, of each replica")
		f.StringVar(&c.Mode, "mode", reservoir.Sequence, "how spikes become input: sequence, or histogram")
		f.StringVar(&c.Split, "split", reservoir.Patterns, "divide patterns, neurons, or rows that stay on their devices")
		strategy := ""
		f.StringVar(&strategy, "strategy", "", "carry the state from run to run in replicas, merged: eager, 'periodic 100ms', 'adaptive 0.05' or none")
		replicas := 0
		f.IntVar(&replicas, "replicas", 0, "replicas of the state, with --strategy (one for each device)")
		f.Float64Var(&c.Connectivity, "connectivity", c.Connectivity, "probability that two neurons are connected")
		f.Float64Var(&c.Noise, "noise", c.Noise, "largest number added to an activation")
		f.Uint32Var(&c.Seed, "seed", 1, "what weights, patterns and noise are drawn from")
		patterns := OrderOf(&c, reservoir.NewJob, func() error {
			if replicas != 0 {
				return fmt.Errorf("--replicas %d: it goes with --strategy, as --strategy eager", replicas)
			}
			if c.Mode == reservoir.Histogram && !f.Changed("steps") {
				c.Steps = 1
			}
			return nil
		})
		s := streamed{}
		stream := OrderOf(&s, streamed.job, func() (err error) {
			s = streamed{Params: c.Params, Replicas: replicas, Patterns: c.Batch, Steps: c.Steps}
			if c.Split != reservoir.Patterns || c.Mode != reservoir.Sequence {
				return fmt.Errorf("--strategy carries states of patterns dealt out in mode %s: leave --split and --mode out", reservoir.Sequence)
			}
			s.Strategy, err = replica.ParseStrategy(strategy)
			return err
		})
		return either(patterns, stream, func() bool { return strategy != "" })
	}, Growth{[]string{"batch"}, 1, 1 << 14}},
	{"fusion", "take records of three algebras through three stages", fusion.Funcs, func(f *Flags) Order {
		c := fusion.Config{}
		f.IntVar(&c.Records, "records", 1<<19, "records of 128 bytes")
		f.IntVar(&c.Micro, "micro", 0, "records a stage takes at a time (a 64th of all)")
		f.StringVar((*string)(&c.Mode), "mode", "", "data, pipeline or hybrid parallel (anywhere)")
		f.IntVar(&c.Copies, "copies", 0, "pipelines in mode hybrid (chosen)")
		f.BoolVar(&c.Bind, "bind", false, "bind every record after the stages with what it was before")
		f.Uint32Var(&c.Seed, "seed", 1, "what records and weights are drawn from")
		return OrderOf(&c, fusion.New)
	}, Growth{[]string{"records"}, 1, 1 << 22}},
	{"fisher", "compute the Fisher information of a logistic regression", fisher.Funcs, func(f *Flags) Order {
		c := fisher.Config{}
		f.IntVar(&c.Points, "points", 10_000, "points")
		f.IntVar(&c.Features, "features", 64, "features of a point")
		f.IntVar(&c.Shards, "shards", 8, "shards of points, which are all-reduced")
		f.IntVar(&c.Blocks, "blocks", 1, "blocks of features; more than one is hybrid")
		f.Uint32Var(&c.Seed, "seed", 1, "what points and model are drawn from")
		return OrderOf(&c, fisher.New, notZero(f, "shards", "blocks"))
	}, Growth{[]string{"points"}, 1, 1 << 22}},
	{"bregman", "compute Bregman divergences of pairs of vectors", fisher.Funcs, func(f *Flags) Order {
		c := fisher.DivergenceConfig{}
		f.StringVar(&c.Function, "function", fisher.Entropy, "convex function: entropy (Kullback-Leibler), burg (Itakura-Saito) or squares")
		f.IntVar(&c.Pairs, "pairs", 1<<20, "pairs of vectors")
		f.IntVar(&c.Dim, "dim", 8, "numbers of a vector")
		f.Uint32Var(&c.Seed, "seed", 1, "what vectors are drawn from")
		return OrderOf(&c, fisher.NewDivergences)
	}, Growth{[]string{"pairs"}, 1, 1 << 23}},
	{"enumerative", "count solutions of problems of enumerative geometry", enumerative.Funcs, func(f *Flags) Order {
		c := enumerative.Config{}
		f.StringVar(&c.Problem, "problem", enumerative.Degree, "degree of a Grassmannian, (spaces on a) hypersurface, schubert (classes), or curves (in a plane)")
		f.IntVar(&c.K, "k", 8, "dimension of subspaces, one more than that of spaces on a hypersurface (hypersurface 2, schubert 3)")
		f.IntVar(&c.N, "n", 24, "dimension of the space they are in (hypersurface 4, schubert 6)")
		f.IntVar(&c.Degree, "degree", 0, "degree of the hypersurface (the one with finitely many spaces) or of curves (100)")
		classes := ""
		f.StringVar(&classes, "classes", "", "partitions of Schubert classes, as '2,1 2,1 2,1', which is the default with schubert")
		integral := OrderOf(&c, enumerative.New, func() error { return enumerativeDefaults(f, &c, classes) })
		return either(integral, curvesOrder(f, &c), func() bool { return c.Problem == enumerative.Curves })
	}, Growth{[]string{"n"}, 10, 40}},
	{"clifford", "multiply, turn or normalize multivectors of a geometric algebra", clifford.Funcs, func(f *Flags) Order {
		c := clifford.Config{}
		f.StringVar(&c.Op, "op", clifford.Product, "product, rotor (turns all by one) or normalize")
		f.IntVar(&c.P, "p", 3, "vectors that square to one")
		f.IntVar(&c.Q, "q", 0, "vectors that square to minus one; with p at most 6")
		f.IntVar(&c.Count, "count", 1<<20, "multivectors")
		f.Uint64Var(&c.Seed, "seed", 1, "what multivectors and rotor are drawn from")
		return OrderOf(&c, clifford.New)
	}, Growth{[]string{"count"}, 1, 1 << 24}},
	{"relativity", "follow orbits or light, boost events or move bodies", relativity.Funcs, func(f *Flags) Order {
		c := relativity.Config{}
		f.StringVar(&c.Problem, "problem", relativity.Orbits, "orbits, light, boosts, or bodies that attract one another")
		f.IntVar(&c.Count, "count", 4096, "orbits, rays of light, events or bodies")
		f.IntVar(&c.Steps, "steps", 0, "steps of bodies (16), of half a turn of light (1024) or of a turn of an orbit (4096), or most for all turns with a tolerance")
		f.IntVar(&c.Turns, "turns", 0, "periapses at which an orbit ends (1)")
		f.Float64Var(&c.Tolerance, "tolerance", 0, "error that a step of an orbit may have (fixed steps)")
		f.Uint32Var(&c.Seed, "seed", 1, "what particles are drawn from")
		return OrderOf(&c, relativity.New)
	}, Growth{[]string{"count"}, 1, 1 << 22}},
	{"network", "rank, convolve or cluster the nodes of a graph", network.Funcs, networkFlags, Growth{[]string{"nodes"}, 1, 1 << 22}},
	{"autodiff", "take derivatives of expressions at many points", autodiff.Funcs, func(f *Flags) Order {
		c := autodiff.Config{}
		f.StringVar(&c.Problem, "problem", "", "rosenbrock, helmholtz (energy of a mixed fluid) or expression (rosenbrock, or expression with --expr)")
		f.StringVar(&c.Expr, "expr", "", "expression, as 'sin(x*y)+exp(z)'; several with ; between them")
		f.IntVar(&c.Dims, "dims", 0, "variables of rosenbrock or helmholtz (8)")
		f.IntVar(&c.Count, "count", 1<<17, "points")
		f.IntVar(&c.Directions, "directions", autodiff.MaxDirections, "derivatives of a pass over the points, 1 to 64")
		f.Float64Var(&c.Low, "low", 0, "least value of an expression's variables")
		f.Float64Var(&c.High, "high", 0, "largest value of an expression's variables (1 where low is 0)")
		f.BoolVar(&c.Generate, "generate", false, "let GPUs compile the expression, however few points there are")
		f.Uint32Var(&c.Seed, "seed", 1, "what points and fluid are drawn from")
		return OrderOf(&c, autodiff.New, notZero(f, "directions"), func() error {
			if !f.Changed("problem") {
				if c.Problem = autodiff.Rosenbrock; f.Changed("expr") {
					c.Problem = autodiff.Expression
				}
			}
			return nil
		})
	}, Growth{[]string{"count"}, 1, 1 << 21}},
}

// enumerativeDefaults completes a problem by what flags leave open: 27 lines on a cubic surface,
// and a product of three Schubert classes.
func enumerativeDefaults(f *Flags, c *enumerative.Config, classes string) (err error) {
	k, n := f.Changed("k"), f.Changed("n")
	switch {
	case c.Problem == enumerative.Hypersurface && !k:
		c.K = 2
		if !n {
			c.N = 4
		}
	case c.Problem == enumerative.Schubert && !k && !n:
		c.K, c.N = 3, 6
		if !f.Changed("classes") {
			classes = "2,1 2,1 2,1"
		}
	}
	c.Classes, err = enumerative.ParseClasses(classes)
	return err
}

func networkFlags(f *Flags) Order {
	c := network.Config{}
	f.StringVar(&c.Problem, "problem", network.PageRank, "pagerank, layers (of graph convolution), closeness or medoids")
	f.StringVar(&c.Graph, "graph", "", "karate, miserables, davis, or a file: MatrixMarket, METIS, or edges, a line for each with the numbers of two nodes, from 0 on (R-MAT, or points)")
	f.StringVar((*string)(&c.Repeated), "repeated", "", "edges that are listed more than once: sum (of their weights), last or error (sum)")
	f.BoolVar(&c.Undirected, "undirected", false, "let edges of the graph count both ways for pagerank; of two directions with different weights the larger weight counts")
	f.IntVar(&c.Nodes, "nodes", 1<<16, "nodes of R-MAT (closeness and medoids 2048 points in space)")
	f.IntVar(&c.Edges, "edges", 0, "edges of R-MAT for each node (16)")
	f.IntVar(&c.Steps, "steps", 0, "steps of pagerank (64) or medoids (8)")
	f.Float64Var(&c.Damping, "damping", 0, "probability to follow an edge (0.85)")
	f.Float64Var(&c.Tolerance, "tolerance", 0, "residual that ranks may have (1e-4)")
	f.IntVar(&c.Features, "features", 0, "features of a node (64)")
	f.IntVar(&c.Layers, "layers", 0, "layers of graph convolution (2)")
	f.IntVar(&c.K, "k", 0, "medoids (8)")
	f.Uint32Var(&c.Seed, "seed", 1, "what edges, points and features are drawn from")
	o := OrderOf(&c, network.New, func() error {
		switch {
		case f.Changed("nodes"):
		case c.Graph != "":
			c.Nodes = 0
		case c.Problem == network.Closeness || c.Problem == network.Medoids:
			c.Nodes = 2048
		}
		return nil
	})
	o.reads = func() string {
		if slices.Contains(network.Shipped(), c.Graph) {
			return ""
		}
		return c.Graph
	}
	return o
}

// curvesOrder is the order of curves.
func curvesOrder(f *Flags, c *enumerative.Config) Order {
	curves := enumerative.CurveConfig{}
	return OrderOf(&curves, enumerative.NewCurves, func() error {
		for _, name := range []string{"k", "n", "classes"} {
			if f.Changed(name) {
				return fmt.Errorf("--%s: curves have a --degree alone", name)
			}
		}
		if curves.Degree = c.Degree; !f.Changed("degree") {
			curves.Degree = 100
		}
		return nil
	})
}

// streamed is the configuration of a job that carries a state, which has a replica on each device where their number
// is left open.
type streamed reservoir.StreamConfig

func (c streamed) job() (workload.Job, error) {
	return reservoir.NewStreamJob(reservoir.StreamConfig(c))
}

func (c streamed) Bytes() float64 { return reservoir.StreamConfig(c).Bytes() }

func (c streamed) Validate() error {
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	return reservoir.StreamConfig(c).Validate()
}

// either is the second of two orders where the flags ask for that, and the first otherwise.
func either(first, second Order, wantsSecond func() bool) Order {
	chosen := func() Order {
		if wantsSecond() {
			return second
		}
		return first
	}
	return Order{
		Bytes: func() float64 { return chosen().Bytes() },
		Check: func() error { return chosen().Check() },
		Build: func(ctx context.Context) (workload.Job, error) { return chosen().Build(ctx) },
	}
}

// notZero refuses a zero that a workload would take for its default. Help does not say
// that 0 is anything but none.
func notZero(f *Flags, names ...string) func() error {
	return func() error {
		for _, name := range names {
			if f.Lookup(name).String() == "0" {
				return fmt.Errorf("--%s 0: it must be at least 1", name)
			}
		}
		return nil
	}
}

// allSizes is a flag that sets all sizes of a product.
type allSizes struct{ c *product.Config }

func (a allSizes) Set(v string) error {
	x, err := text.ParseWhole(v)
	if errors.Is(err, strconv.ErrRange) {
		return err
	} else if err != nil {
		return errors.New("it must be a whole number")
	}
	a.c.M, a.c.K, a.c.N = int(x), int(x), int(x)
	return nil
}

func (a allSizes) String() string { return "" } // the flags of each say what it is
func (a allSizes) Type() string   { return "int" }

// matrixFlags adds the flags of a product of matrices. --size sets all three sizes.
func matrixFlags(f *Flags, size int) *product.Config {
	c := &product.Config{}
	f.IntVar(&c.M, "m", size, "rows of A and C")
	f.IntVar(&c.K, "k", size, "columns of A, rows of B")
	f.IntVar(&c.N, "n", size, "columns of B and C")
	f.Var(allSizes{c}, "size", "s", "rows and columns of all matrices")
	f.Uint64Var(&c.Seed, "seed", 1, "what the entries are drawn from")
	return c
}
