package network

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// The problems.
const (
	PageRank  = "pagerank"
	Layers    = "layers"
	Closeness = "closeness"
	Medoids   = "medoids"
)

var problems = []string{PageRank, Layers, Closeness, Medoids}

// Problems are the names a Config may have as its Problem.
func Problems() []string { return slices.Clone(problems) }

var (
	// ErrGraph is wrapped by errors about graphs and their files.
	ErrGraph = errors.New("bad graph")
	// errWrong is returned by the checks of jobs for results that are wrong.
	errWrong = errors.New("not the numbers of the graph")
	// ErrUnfinished is wrapped by the error about too few steps.
	ErrUnfinished = errors.New("too few steps")
)

// Limits: what launches and memory allow.
const (
	maxSteps    = 1 << 12
	maxFeatures = 1 << 10
	maxLayers   = 64
	// maxDense is the most nodes for which all distances are computed.
	maxDense = 1 << 15
)

// Config describes the computation.
type Config struct {
	Problem string // one of Problems
	// Graph is a file or one of Shipped; "" means R-MAT, and points in space for distances.
	Graph string
	// Repeated says what becomes of edges that the file lists more than once; "" means [RepeatedSum].
	Repeated Repeated
	// Undirected says that edges of the file count both ways for PageRank, as they do for all
	// other problems.
	Undirected bool
	Nodes      int // of R-MAT, or points
	Edges      int // of R-MAT for each node; 0 means 16
	// Steps is the largest number of steps of k-medoids and of a run of PageRank; 0 means 8 and 64.
	// Rank runs Steps steps again and again until the residual is below Tolerance.
	Steps int
	// Damping of PageRank is the probability to follow an edge; 0 means 0.85.
	Damping float64
	// Tolerance is the residual at which PageRank is done; 0 means 1e-4.
	Tolerance float64
	// Features of a node for layers, and the number of these; 0 means 64 and 2.
	Features, Layers int
	K                int // medoids; 0 means 8
	Seed             uint32
}

func (c Config) withDefaults() Config {
	or := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	switch c.Problem {
	case PageRank:
		or(&c.Steps, 64)
		if c.Damping == 0 {
			c.Damping = 0.85
		}
		if c.Tolerance == 0 {
			c.Tolerance = 1e-4
		}
	case Layers:
		or(&c.Features, 64)
		or(&c.Layers, 2)
	case Medoids:
		or(&c.Steps, 8)
		or(&c.K, 8)
	}
	if c.Graph == "" && !c.dense() {
		or(&c.Edges, 16)
	}
	return c
}

// dense says that all distances are computed.
func (c Config) dense() bool { return c.Problem == Closeness || c.Problem == Medoids }

// Validate returns an error for a configuration that cannot be computed. New checks files.
func (c Config) Validate() error {
	c = c.withDefaults()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("network: %w: %s", workload.ErrConfig, fmt.Sprintf(format, args...))
	}
	most := MaxNodes
	if c.dense() {
		most = maxDense
	}
	switch {
	case !slices.Contains(problems, c.Problem):
		return bad("no problem %q: there is %s", c.Problem, strings.Join(problems, ", "))
	case (c.Graph == "") == (c.Nodes == 0):
		return bad("%d nodes and graph %q: name one of the two", c.Nodes, c.Graph)
	case c.Repeated != "" && c.Graph == "":
		return bad("repeated edges by %q: only graphs in files have them", c.Repeated)
	case validRepeated(c.Repeated) != nil:
		return validRepeated(c.Repeated)
	case c.Graph == "" && (c.Nodes < 2 || c.Nodes > most):
		return bad("%d nodes: there must be 2 to %d", c.Nodes, most)
	case c.Edges != 0 && (c.Graph != "" || c.dense()):
		return bad("%d edges for each node: only graphs that are drawn have them", c.Edges)
	case c.Graph == "" && !c.dense() && (c.Edges < 1 || c.Edges > MaxEdges/c.Nodes):
		return bad("%d edges for each of %d nodes: there must be 1 to %d", c.Edges, c.Nodes, MaxEdges/c.Nodes)
	case c.Problem == PageRank || c.Problem == Medoids:
		if c.Steps < 1 || c.Steps > maxSteps {
			return bad("%d steps: there must be 1 to %d", c.Steps, maxSteps)
		}
	case c.Steps != 0:
		return bad("%d steps of %s: it has none", c.Steps, c.Problem)
	}
	return c.validRest(bad)
}

func (c Config) validRest(bad func(format string, args ...any) error) error {
	switch {
	case c.Problem == PageRank && !(c.Damping > 0 && c.Damping < 1):
		return bad("damping %v: it must be above 0 and below 1", c.Damping)
	case c.Problem == PageRank && !(c.Tolerance > 0 && !math.IsInf(c.Tolerance, 1)):
		return bad("tolerance %v: it must be positive", c.Tolerance)
	case c.Problem != PageRank && (c.Damping != 0 || c.Tolerance != 0 || c.Undirected):
		return bad("%s has no damping, tolerance or directions", c.Problem)
	case c.Problem == Layers && (c.Features < 1 || c.Features > maxFeatures || c.Layers < 1 || c.Layers > maxLayers):
		return bad("%d layers of %d features: there must be 1 to %d of 1 to %d", c.Layers, c.Features, maxLayers, maxFeatures)
	case c.Problem != Layers && (c.Features != 0 || c.Layers != 0):
		return bad("%s has no layers and features", c.Problem)
	case c.Problem == Medoids && (c.K < 1 || c.Graph == "" && c.K > c.Nodes):
		return bad("%d medoids of %d nodes: there must be 1 to %d", c.K, c.Nodes, max(c.Nodes, 1))
	case c.Problem != Medoids && c.K != 0:
		return bad("%s has no medoids", c.Problem)
	}
	return nil
}

// Bytes is the most host memory that the job takes. The size of a graph in a file is taken from its
// header, or estimated by the size of the file.
func (c Config) Bytes() float64 {
	c = c.withDefaults()
	n, edges := float64(c.Nodes), float64(c.Nodes)*float64(c.Edges)
	// While a graph is made, its edges are in a list of 8 bytes each and in rows of 4, and later in three
	// graphs, of which one has rows turned round and one has them in order.
	list := 12.
	if c.Graph != "" {
		n, edges = promised(c.Graph)
		list += 6 + 8 // of the file, and of a weight, which repeated edges have too
	}
	switch c.Problem {
	case PageRank:
		blocks := min(n, fewBlocks+2+(edges+rowWork*n)/blockWork*2)
		each := 6.
		if c.Graph != "" { // which may have weights
			each = 12
		}
		return max(each*edges+56*n+24*blocks, list*edges+20*n)
	case Layers:
		return 16*edges + n*(16+4*float64(c.Features)*float64(c.Layers+1)) + 4*float64(c.Layers)*float64(c.Features)*float64(c.Features)
	}
	return 4*n*n + 64*n + 4*edges
}

// graph reads or draws the graph.
func (c Config) graph() (*Graph, error) {
	if c.Graph == "" {
		return RMAT(c.Nodes, c.Edges, c.Seed)
	}
	g, err := Open(c.Graph, c.Repeated)
	if err == nil && c.dense() && g.Rows() > maxDense {
		err = fmt.Errorf("network: %s has %d nodes: %w: distances are computed of %d at most", c.Graph, g.Rows(), workload.ErrConfig, maxDense)
	}
	return g, err
}

// New reads or draws a graph or points, and draws the features, weights or first medoids that the job
// needs. The job is a [workload.Job].
func New(c Config) (workload.Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	switch c = c.withDefaults(); c.Problem {
	case PageRank:
		return newRankJob(c)
	case Layers:
		return newLayersJob(c)
	}
	return newDistanceJob(c)
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = append([]signature.Kernel{rankKernel, gatherKernel, transformKernel}, distanceKernels...)

// Streams of random numbers.
const (
	streamEdges = iota
	streamFeatures
	streamWeights
	streamPoints
)
