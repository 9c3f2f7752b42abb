package gemm

import (
	"fmt"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/product"
	"github.com/weft-run/weft/workload"
)

// kind is the product of sums of products.
var kind = product.NewKind("gemm", "GFLOP", kernel,
	workload.PTX(ptx, "gemm_rows", 256, 128, 128), workload.PTX(ptx, "gemm_rows_small", 64, 64, 64), workload.Library("cublas.sgemm"),
	workload.SPIRV(spirv, "gemm_rows", 64, 8, 512), workload.SPIRV(spirv, "gemm_small", 64, 4, 256))

// Kernel computes rows of C; its arguments are rows of A, B, rows of C, its
// params the rows, K and N.
var Kernel = kind.Rows

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return kind.Funcs() }

// Config says which product to compute.
type Config = product.Config

// Job is one product C = A·B. Rows of C are dealt out; B is read by all.
type Job struct {
	product.Job
	above float64 // errors of one element show above this, by the last Check
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

// Class is R: rows do not depend on how they are dealt out.
func (j *Job) Class() workload.Class { return workload.RowExact }

// Check multiplies with random vectors in float64 (Freivalds).
func (j *Job) Check() (err error) {
	j.above, err = Check(j.C, j.A, j.B, j.M, j.K, j.N, j.Seed)
	return err
}

// Misses is what [Check] may not see.
func (j *Job) Misses() []workload.Miss {
	return []workload.Miss{
		{What: fmt.Sprintf("one element off by more than %.2g", j.above), Chance: 0},
		{What: "a row or tile with several such elements", Chance: math.Ldexp(1, -rounds)},
	}
}
