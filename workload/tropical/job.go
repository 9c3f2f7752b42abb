package tropical

import (
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/product"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// kind is the product of maxima of sums.
var kind = product.NewKind("tropical", "Gop", kernel,
	workload.PTX(ptx, "tropical_rows", 256, 128, 128), workload.PTX(ptx, "tropical_rows_small", 64, 64, 64),
	workload.SPIRV(spirv, "tropical_rows", 64, 8, 512))

// Kernel computes rows of C; its arguments are rows of A, B, rows of C, its
// parameters graph.MatMul with the rows.
var Kernel = kind.Rows

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return kind.Funcs() }

// ErrConfig is wrapped by every error of Validate.
var ErrConfig = product.ErrConfig

// Config says which product to compute.
type Config struct {
	M, K, N int // C is M × N
	Seed    uint64
}

// Validate reports sizes that make no product.
func (c Config) Validate() error { return product.Config(c).Validate() }

// Bytes is the host memory that the job takes: A, B, C and, for CPUs, B packed into
// whole panels.
func (c Config) Bytes() float64 { return product.Config(c).Bytes() }

// Job is one max-plus product C of A and B. Rows of C are dealt out; B is read
// by all.
type Job struct {
	product product.Job
	missed  float64 // the chance that the last Check missed one wrong element
}

// New makes the operands: uniform in (-1, 1), by logical index, so they do not
// depend on who computes.
func New(c Config) (*Job, error) {
	j, err := kind.New(product.Config(c))
	if err != nil {
		return nil, err
	}
	return &Job{product: j}, nil
}

// Name says which product it is.
func (j *Job) Name() string { return j.product.Name() }

// Pieces are the rows of C.
func (j *Job) Pieces() sched.Pieces { return j.product.Pieces() }

// Grain is how many rows make what every task does anew cheap.
func (j *Job) Grain() int64 { return j.product.Grain() }

// Whole is the product as one task.
func (j *Job) Whole() graph.Task { return j.product.Whole() }

// Graph has a task for each range of rows, and for packing B as many.
func (j *Job) Graph(ranges []sched.Range) (*graph.Graph, error) { return j.product.Graph(ranges) }

// Bind ties A, B, C and the packed B to the job's memory.
func (j *Job) Bind() []weft.Binding { return j.product.Bind() }

// Operands are A and B in the job's own memory. Between runs a caller may set
// them to the numbers it wants multiplied.
func (j *Job) Operands() (a, b []float32) { return j.product.Operands() }

// Result is C after a run, in the job's own memory.
func (j *Job) Result() []float32 { return j.product.Result() }

// Rate is operations a second.
func (j *Job) Rate(d time.Duration) string { return j.product.Rate(d) }

// Hosted is the job in its form for CPUs alone.
func (j *Job) Hosted() workload.Job { return &Job{product: j.product.Packed()} }

// Class is X: a maximum is never rounded, so the cut cannot be seen.
func (j *Job) Class() workload.Class { return workload.Exact }
