package tropical

import (
	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/product"
	"github.com/weft-run/weft/workload"
)

// kind is the product of maxima of sums.
var kind = product.NewKind("tropical", "Gop", kernel,
	workload.PTX(ptx, "tropical_rows", 256, 128, 128), workload.PTX(ptx, "tropical_rows_small", 64, 64, 64),
	workload.SPIRV(spirv, "tropical_rows", 64, 8, 512))

// Kernel computes rows of C; its arguments are rows of A, B, rows of C, its
// params the rows, K and N.
var Kernel = kind.Rows

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return kind.Funcs() }

// Config says which product to compute.
type Config = product.Config

// Job is one max-plus product C of A and B. Rows of C are dealt out; B is read
// by all.
type Job struct {
	product.Job
	missed float64 // the chance that the last Check missed one wrong element
}

// New makes the operands: uniform in (-1, 1), by logical index, so they do not
// depend on who computes.
func New(c Config) (*Job, error) {
	j, err := kind.New(c)
	if err != nil {
		return nil, err
	}
	return &Job{Job: j}, nil
}

// Hosted is the job in its form for CPUs alone.
func (j *Job) Hosted() workload.Job { return &Job{Job: j.Packed()} }

// Class is X: a maximum is never rounded, so the cut cannot be seen.
func (j *Job) Class() workload.Class { return workload.Exact }
