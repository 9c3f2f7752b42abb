package fisher

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// The convex functions whose divergences [Divergences] computes. Each is a sum over the
// numbers of a vector, and so is its divergence.
const (
	// Entropy is Σ x ln x: the divergence is Σ p ln(p/q) − p + q, which for distributions is the
	// Kullback-Leibler divergence.
	Entropy = "entropy"
	// Burg is −Σ ln x: the divergence is Σ p/q − ln(p/q) − 1, that of Itakura and Saito.
	Burg = "burg"
	// Squares is Σ x²: the divergence is the square of the distance.
	Squares = "squares"
)

var functions = []string{Entropy, Burg, Squares}

// Functions are the names a DivergenceConfig may have as its Function.
func Functions() []string { return slices.Clone(functions) }

// Limits: launches, and the loop of a shader.
const (
	maxNumbers = 1 << 28
	maxDim     = 1 << 12
)

// DivergenceConfig says which divergences are computed.
type DivergenceConfig struct {
	Function string // one of Functions
	Pairs    int
	Dim      int // numbers of a vector
	Seed     uint32
}

// Validate returns an error for a configuration that cannot be computed.
func (c DivergenceConfig) Validate() error {
	switch {
	case !slices.Contains(functions, c.Function):
		return fmt.Errorf("bregman: no function %q: %w: there is %s", c.Function, workload.ErrConfig, strings.Join(functions, ", "))
	case c.Dim < 1 || c.Dim > maxDim:
		return fmt.Errorf("bregman: vectors of %s: %w: there must be 1 to %d", text.Count(c.Dim, "number"), workload.ErrConfig, maxDim)
	case c.Pairs < 1 || c.Pairs > maxNumbers/c.Dim:
		return fmt.Errorf("bregman: %s of vectors of %s: %w: there must be 1 to %d", text.Count(c.Pairs, "pair"), text.Count(c.Dim, "number"), workload.ErrConfig, maxNumbers/c.Dim)
	}
	return nil
}

// Bytes is the host memory that the job takes: both vectors of each pair, and its divergence.
func (c DivergenceConfig) Bytes() float64 { return 8 * float64(c.Pairs) * (2*float64(c.Dim) + 1) }

// divergenceJob is one set of pairs of vectors.
type divergenceJob struct {
	workload.Declared
	c    DivergenceConfig
	p, q []float64
	out  []float64 // after a run
}

// streamPairs is the stream of random numbers after the streams of Job.
const streamPairs = streamTheta + 1

// NewDivergences draws pairs of vectors of numbers from 0 to 1, by logical index. In one pair of
// four both are close to one another, and of p, where the function allows it, one number of 64
// is zero.
// The job is a [workload.Job].
func NewDivergences(c DivergenceConfig) (*divergenceJob, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := newDivergences(c, make([]float64, c.Pairs*c.Dim), make([]float64, c.Pairs*c.Dim))
	draw := philox.Source{Seed: c.Seed, Stream: streamPairs}
	for i := range j.p {
		words := draw.Block(uint64(i), 0, 0)
		j.p[i], j.q[i] = philox.Unit(words[0]), philox.Unit(words[1])
		switch {
		case i/c.Dim%4 == 0:
			j.p[i] = j.q[i] * (1 + 1e-6*philox.Symmetric(words[0]))
		case words[2]%64 == 0 && c.Function != Burg:
			j.p[i] = 0
		}
	}
	return j, nil
}

func newDivergences(c DivergenceConfig, p, q []float64) *divergenceJob {
	return (&divergenceJob{c: c, p: p, q: q, out: make([]float64, c.Pairs)}).declare()
}

// Divergences returns the divergence of each vector of p from the one of q in its place, on the
// devices of a runtime that was opened with [Funcs] among its kernels. Vectors have dim numbers
// each, one vector after another. A number of either that is beyond 2⁵⁰⁰ in size, not a number,
// or below zero unless the function is [Squares], makes the divergence NaN. Two zeros add nothing to
// it. A zero in q alone makes it infinite, and so does, for [Burg], a zero in p alone. Vectors that
// are not pairs are an error that wraps [workload.ErrConfig].
func Divergences(ctx context.Context, rt *weft.Runtime, function string, dim int, p, q []float64) ([]float64, error) {
	if dim < 1 || len(p) != len(q) || len(p)%dim != 0 {
		return nil, fmt.Errorf("bregman: %d and %d numbers in vectors of %d: %w: give as many vectors p as q, each with all its numbers", len(p), len(q), dim, workload.ErrConfig)
	}
	c := DivergenceConfig{Function: function, Pairs: len(p) / dim, Dim: dim}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := newDivergences(c, p, q)
	if _, err := workload.Call(ctx, rt, j, "fisher"); err != nil {
		return nil, err
	}
	return j.out, nil
}

// pairsPerItem is the number of pairs of an item of the Go kernel.
const pairsPerItem = 256

// divergencesOnDevices computes divergences. Its arguments are the vectors p, the vectors q and the
// divergences.
var divergencesOnDevices = workload.With(graph.GoKernel("bregman.divergences", pairsPerItem),
	workload.PTX(ptx, "bregman_divergences", 128, 128), workload.SPIRV(spirv, "bregman_divergences", 64, 64))

// divergenceParams are the parameters of divergencesOnDevices.
type divergenceParams struct {
	function int // its place among functions
	dim, n   int
}

var divergencesKernel = signature.Of(signature.Kernel{
	Name: "bregman.divergences", Does: "Bregman divergences of n pairs of vectors", Grid: "n", Per: []uint32{pairsPerItem},
	Args: []signature.Arg{signature.In("vectors p", graph.F8), signature.In("vectors q", graph.F8), signature.Out("divergences", graph.F8)},
}, func(_ *weft.Call, p divergenceParams) (n signature.Need, err error) {
	if p.function >= len(functions) {
		return n, fmt.Errorf("function is %d: it is 0 to %d, for %s", p.function, len(functions)-1, strings.Join(functions, ", "))
	}
	n.Items = signature.Parts(p.n, pairsPerItem)
	n.Elements[0], n.Elements[1], n.Elements[2] = signature.Product(p.n, p.dim), signature.Product(p.n, p.dim), int64(p.n)
	return n, signature.Positive([]string{"dim", "n"}, p.dim, p.n)
}, func(c *weft.Call, p divergenceParams, lo, hi int) {
	x, y, out := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1]), weft.View[float64](c.Args[2])
	term := terms[p.function]
	for i := lo * pairsPerItem; i < min(hi*pairsPerItem, p.n); i++ {
		sum := 0.
		from := y[i*p.dim : (i+1)*p.dim]
		for k, v := range x[i*p.dim : (i+1)*p.dim] {
			sum += term(v, from[k])
		}
		out[i] = sum
	}
})

// terms are the contributions of two numbers to a divergence, by function.
var terms = [...]func(p, q float64) float64{entropy, burg, squares}

// largest is the size of numbers up to which divergences are computed.
const largest = 0x1p500

// near is the size of s = (p − q) ÷ (p + q) up to which the series below are used: there the
// difference of a logarithm and its subtrahend would lose digits.
const near = 0.25

// beyond is (artanh s − s) ÷ s³ for z = s², |s| < near: Σ zᵏ ÷ (2k + 3).
func beyond(z float64) float64 {
	sum := 1. / 29
	for k := 27.; k >= 3; k -= 2 {
		sum = float64(sum*z) + 1/k
	}
	return sum
}

// logRatio is ln(p/q), also where p/q is too large or too small for a number.
func logRatio(p, q float64) float64 {
	switch t := p / q; {
	case t < 0x1p-1000:
		return math.Log(p*0x1p500/(q*0x1p-500)) - 1000*math.Ln2
	case t > 0x1p1000:
		return math.Log(p*0x1p-500/(q*0x1p500)) + 1000*math.Ln2
	default:
		return math.Log(t)
	}
}

// entropy is p ln(p/q) − p + q. With s it is (p + q)(s artanh s + artanh s − s).
func entropy(p, q float64) float64 {
	if !(p >= 0 && q >= 0 && p <= largest && q <= largest) {
		return math.NaN()
	}
	switch d, all := p-q, p+q; {
	case p == 0:
		return q
	case q == 0:
		return math.Inf(1)
	case math.Abs(d) < near*all:
		s := d / all
		z := s * s
		b := beyond(z)
		return all * z * (1 + float64(z*b) + float64(s*b))
	default:
		return float64(p*logRatio(p, q)) - d
	}
}

// burg is p/q − ln(p/q) − 1. With s it is 2s ÷ (1 − s) − 2 artanh s.
func burg(p, q float64) float64 {
	if !(p >= 0 && q >= 0 && p <= largest && q <= largest) {
		return math.NaN()
	}
	switch d, all := p-q, p+q; {
	case all == 0:
		return 0
	case p == 0 || q == 0:
		return math.Inf(1)
	case math.Abs(d) < near*all:
		s := d / all
		z := s * s
		return 2 * z * (1/(1-s) - float64(s*beyond(z)))
	default:
		return p/q - logRatio(p, q) - 1
	}
}

// squares is (p − q)².
func squares(p, q float64) float64 {
	if !(math.Abs(p) <= largest && math.Abs(q) <= largest) {
		return math.NaN()
	}
	d := p - q
	return d * d
}

// declare says what the job is. A pair does not depend on others, and so rows are exact.
func (j *divergenceJob) declare() *divergenceJob {
	ops := 40. // of a logarithm or a series
	if j.c.Function == Squares {
		ops = 3
	}
	j.Declared = workload.Declare(workload.Declaration{
		Name:  fmt.Sprintf("bregman %s of %s of vectors of %d", j.c.Function, text.Count(j.c.Pairs, "pair"), j.c.Dim),
		Class: workload.RowExact, Of: "pairs", Extent: int64(j.c.Pairs),
		Ports:  []workload.Port{workload.In("p", j.p, j.c.Dim), workload.In("q", j.q, j.c.Dim), workload.Out("divergences", j.out, 1)},
		Kernel: divergencesOnDevices, Params: func(lo, hi int64) any {
			return divergenceParams{slices.Index(functions, j.c.Function), j.c.Dim, int(hi - lo)}
		},
		Ops: ops * float64(j.c.Dim), Unit: graph.FP64,
	})
	return j
}

// Operands are the vectors in the job's own memory. Between runs a caller may set them.
func (j *divergenceJob) Operands() (p, q []float64) { return j.p, j.q }

// Result is the divergences after a run.
func (j *divergenceJob) Result() []float64 { return j.out }

// Summary is the sum of all divergences.
func (j *divergenceJob) Summary() string {
	sum := 0.
	for _, d := range j.out {
		sum += d
	}
	return fmt.Sprintf("sum of divergences %.9g", sum)
}

// Rate is pairs a second, and the memory that they take.
func (j *divergenceJob) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f M/s, %.2f GB/s", float64(j.c.Pairs)/d.Seconds()/1e6, j.c.Bytes()/d.Seconds()/1e9)
}
