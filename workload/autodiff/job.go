package autodiff

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// The problems.
const (
	// Rosenbrock is a valley in any number of dimensions.
	Rosenbrock = "rosenbrock"
	// Helmholtz is the Helmholtz energy of a mixed fluid.
	Helmholtz = "helmholtz"
	// Expression is one of the user.
	Expression = "expression"
)

var problems = []string{Rosenbrock, Helmholtz, Expression}

// Problems are the names a Config may have as its Problem.
func Problems() []string { return slices.Clone(problems) }

// errWrong is returned by [job.Check] for values and derivatives that are not those.
var errWrong = errors.New("not the derivatives")

const (
	maxNumbers    = 1 << 28 // of points or derivatives
	maxComponents = 64      // of a mixed fluid, whose pairs are all in its expression
)

// Config describes the computation.
type Config struct {
	Problem string // one of Problems
	// Expr is the expression, or several with semicolons between them; for Expression alone.
	Expr string
	// Dims is the number of variables; 0 means 8. Expressions have their own.
	Dims  int
	Count int // points
	// Directions is the most directions of a pass: 1 is plain forward mode. 0 means 64.
	Directions int
	// Low and High bound the interval from which the variables of an expression are drawn; both 0
	// mean 0 and 1.
	Low, High float64
	// Generate has GPUs run CUDA C or GLSL that is generated for the program, where NVRTC or
	// glslc is there to compile it, however small the job is. Without it, source is generated
	// for jobs of at least 2³² operations.
	Generate bool
	Seed     uint32
}

func (c Config) withDefaults() Config {
	if c.Directions == 0 {
		c.Directions = MaxDirections
	}
	if c.Dims == 0 && c.Problem != Expression {
		c.Dims = 8
	}
	if c.Low == 0 && c.High == 0 && c.Problem == Expression {
		c.High = 1
	}
	return c
}

// Validate returns an error for a configuration that cannot be computed.
func (c Config) Validate() error {
	f, err := c.function()
	if err == nil {
		err = enough(f, c.Count, len(f.variables))
	}
	return err
}

// function returns the function that the problem computes. It errs if anything but Count is wrong.
func (c Config) function() (*Function, error) {
	c = c.withDefaults()
	if err := c.valid(); err != nil {
		return nil, err
	}
	var variables []string
	exprs := make([]Expr, 1)
	switch c.Problem {
	case Rosenbrock:
		variables, exprs[0] = rosenbrock(c.Dims)
	case Helmholtz:
		variables, exprs[0] = newMixture(c.Dims, c.Seed).helmholtz()
	default:
		var err error
		if variables, exprs, err = parse(c.Expr, nil); err != nil {
			return nil, err
		}
	}
	return newFunction(variables, exprs)
}

// enough errs for a number of points that is too small or too large.
func enough(f *Function, count, directions int) error {
	if most := maxNumbers / max(len(f.variables), len(f.exprs)*directions); count < 1 || count > most {
		return fmt.Errorf("autodiff: %d points: %w: there must be 1 to %d of %s with %s", count, workload.ErrConfig, most, text.Count(len(f.variables), "variable"), text.Count(len(f.exprs), "expression"))
	}
	return nil
}

// valid checks everything but the expression and the number of points.
func (c Config) valid() error {
	least, most := 2, maxVariables
	if c.Problem == Helmholtz {
		least, most = 1, maxComponents
	}
	switch {
	case !slices.Contains(problems, c.Problem):
		return fmt.Errorf("autodiff: no problem %q: %w: there is %s", c.Problem, workload.ErrConfig, strings.Join(problems, ", "))
	case c.Problem == Expression && strings.TrimSpace(c.Expr) == "":
		return fmt.Errorf("autodiff: no expression: %w: give one, as sin(x*y)+exp(z)", workload.ErrConfig)
	case c.Problem != Expression && c.Expr != "":
		return fmt.Errorf("autodiff: an expression for problem %s: %w: only problem %s has one", c.Problem, workload.ErrConfig, Expression)
	case c.Problem != Expression && (c.Low != 0 || c.High != 0):
		return fmt.Errorf("autodiff: bounds for problem %s: %w: only problem %s has them", c.Problem, workload.ErrConfig, Expression)
	case c.Problem == Expression && c.Dims != 0:
		return fmt.Errorf("autodiff: %s of an expression: %w: leave the dimension out; the expression names its variables", text.Count(c.Dims, "dimension"), workload.ErrConfig)
	case c.Problem != Expression && (c.Dims < least || c.Dims > most):
		return fmt.Errorf("autodiff: %s: %w: %s has %d to %d", text.Count(c.Dims, "dimension"), workload.ErrConfig, c.Problem, least, most)
	case c.Directions < 1 || c.Directions > MaxDirections:
		return fmt.Errorf("autodiff: %d directions of a pass: %w: there must be 1 to %d", c.Directions, workload.ErrConfig, MaxDirections)
	case !(c.Low <= c.High) || math.IsInf(c.Low, 0) || math.IsInf(c.High, 0):
		return fmt.Errorf("autodiff: variables from %v to %v: %w: both must be finite, the first not above the second", c.Low, c.High, workload.ErrConfig)
	}
	return nil
}

// Bytes is the host memory that the job takes: points, results and the program.
func (c Config) Bytes() float64 {
	f, err := c.function()
	if err != nil {
		return 0
	}
	p, err := f.program(c.withDefaults().Directions)
	if err != nil {
		return 0
	}
	n, m := float64(len(f.variables)), float64(len(f.exprs))
	return 8*float64(c.Count)*(n+m+m*n) + float64(4*len(p.code)+8*len(p.numbers))
}

// job is the values and derivatives of a function at points.
type job struct {
	workload.Declared
	name       string
	f          *Function
	p          *program
	count      int
	directions [][]float64
	kernels    []*graph.Kernel // of each pass
	// slope adds the gradient to d by a closed form, where there is one.
	slope func(d, x []float64)

	points, values, derivatives []float64
	unseen                      float64 // share of numbers that the last Check could not tell
}

// Streams of random numbers.
const (
	streamPoints = iota
	streamMixture
)

// New draws points by logical index, and takes all derivatives there.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	f, err := c.function()
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	low, high := c.Low, c.High
	var slope func(d, x []float64)
	switch c.Problem {
	case Rosenbrock:
		low, high, slope = -2, 2, rosenbrockSlope
	case Helmholtz:
		high, slope = 1, newMixture(c.Dims, c.Seed).slope
	}
	points := make([]float64, c.Count*len(f.variables))
	draw := philox.Source{Seed: c.Seed, Stream: streamPoints}
	for i := 0; i < len(points); i += 4 {
		block := draw.Block(uint64(i/4), 0, 0)
		for k := range min(4, len(points)-i) {
			at := philox.Unit(block[k])
			points[i+k] = low*(1-at) + high*at
		}
	}
	p, err := f.program(c.Directions)
	if err != nil {
		return nil, err
	}
	j := newJob(f, p, units(len(f.variables)), points)
	if j.name, j.slope = c.Problem, slope; c.Generate {
		j.kernelsFor(true)
	}
	return j.declare(), nil
}

// newJob is a job for points.
func newJob(f *Function, p *program, directions [][]float64, points []float64) *job {
	count := len(points) / len(f.variables)
	j := &job{name: Expression, f: f, p: p, count: count, directions: directions, points: points}
	j.values, j.derivatives = make([]float64, count*p.outputs), make([]float64, count*p.outputs*p.columns)
	j.kernelsFor(p.ops*float64(count) >= generateOps)
	return j.declare()
}

// kernelsFor takes the kernels of passes, generated ones or those that run the program.
func (j *job) kernelsFor(generate bool) {
	j.kernels = nil
	for i := range j.p.passes {
		j.kernels = append(j.kernels, j.p.kernel(i, generate))
	}
}

// declare says what the job is. A point does not depend on others, and so rows are exact.
func (j *job) declare() *job {
	p, variables := j.p, len(j.f.variables)
	out := p.outputs * p.columns
	j.Declared = workload.Declare(workload.Declaration{
		Name:  fmt.Sprintf("autodiff %s of %s in %s at %s", j.name, text.Count(len(j.f.exprs), "expression"), text.Count(variables, "variable"), text.Count(j.count, "point")),
		Class: workload.RowExact, Of: "points", Extent: int64(j.count),
		Ports: []workload.Port{
			workload.In("points", j.points, variables), workload.All("instructions", p.code), workload.All("numbers", p.numbers),
			workload.Out("values", j.values, p.outputs), workload.Out("derivatives", j.derivatives, out),
		},
		Ops: p.ops, Unit: graph.FP64,
		Task: func(t *graph.Task, lo, hi int64) {
			t.Work.Bytes = float64(8*(variables*len(p.passes)+p.outputs+out)) * float64(hi-lo)
			for i, ps := range p.passes {
				t.Steps = append(t.Steps, graph.Step{Kernel: j.kernels[i], Launch: graph.Grid(hi - lo)}.With(params{
					n: int(hi - lo), variables: variables, outputs: p.outputs, columns: p.columns, from: ps.from, to: ps.to, slots: ps.slots,
				}))
			}
		},
	})
	return j
}

// Points are the points in the job's own memory, a number for every variable. Between runs a
// caller may set them.
func (j *job) Points() []float64 { return j.points }

// Result is the values at points, and for each value the derivatives in the order of the
// variables, after a run.
func (j *job) Result() (values, derivatives []float64) { return j.values, j.derivatives }

// Rate is points and derivatives a second.
func (j *job) Rate(d time.Duration) string {
	n := float64(j.count) / d.Seconds()
	return fmt.Sprintf("%.2f M points/s, %.1f M derivatives/s", n/1e6, n*float64(j.p.outputs*j.p.columns)/1e6)
}

// NotFinite returns the number of points with a value or derivative that is not finite, and the
// index of the first of them, or −1.
func (j *job) NotFinite() (points, first int) {
	first = -1
	for i := range j.count {
		values, derivatives := j.at(i)
		if slices.ContainsFunc(values, notFinite) || slices.ContainsFunc(derivatives, notFinite) {
			if points++; first < 0 {
				first = i
			}
		}
	}
	return points, first
}

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// at is the results at a point.
func (j *job) at(i int) (values, derivatives []float64) {
	m, d := j.p.outputs, j.p.outputs*j.p.columns
	return j.values[i*m : (i+1)*m], j.derivatives[i*d : (i+1)*d]
}

// point writes a point's variables, the first few of many.
func (j *job) point(i int) string {
	n := len(j.f.variables)
	var words []string
	for k, v := range j.points[i*n : (i+1)*n] {
		if k == 4 {
			words = append(words, "…")
			break
		}
		words = append(words, fmt.Sprintf("%s = %.9g", j.f.variables[k], v))
	}
	return fmt.Sprintf("point %d (%s)", i, strings.Join(words, ", "))
}

// Summary returns the sums of finite values and of the squares of finite derivatives, and the
// first point where one is not finite.
func (j *job) Summary() string {
	values, squares := 0.0, 0.0
	for _, v := range j.values {
		if !notFinite(v) {
			values += v
		}
	}
	for _, d := range j.derivatives {
		if !notFinite(d) {
			squares += d * d
		}
	}
	out := fmt.Sprintf("sum %.9g of values, norm %.9g of derivatives", values, math.Sqrt(squares))
	if n, first := j.NotFinite(); n > 0 {
		out += fmt.Sprintf("; not finite at %s, the first of which is %s", text.Count(n, "point"), j.point(first))
	}
	return out
}
