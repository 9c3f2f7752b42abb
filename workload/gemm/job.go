package gemm

import (
	"fmt"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/product"
	"github.com/weft-run/weft/workload"
)

// kind is the product of sums of products.
var kind = product.New(product.Kind{Name: "gemm", Unit: "GFLOP", Class: workload.RowExact, Check: check}, kernel,
	workload.PTX(ptx, "gemm_rows", 256, 128, 128), workload.PTX(ptx, "gemm_rows_small", 64, 64, 64), workload.Library("cublas.sgemm"),
	workload.SPIRV(spirv, "gemm_rows", 64, 8, 512), workload.SPIRV(spirv, "gemm_small", 64, 4, 256))

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return kind.Funcs() }

// Config says which product to compute.
type Config struct {
	M, K, N int // C is M × N
	Seed    uint64
}

// Validate reports sizes that make no product.
func (c Config) Validate() error {
	if err := product.Config(c).Validate(); err != nil {
		return fmt.Errorf("gemm: %w", err)
	}
	return nil
}

// Bytes is the host memory that the job takes: A, B, C and, for CPUs, B packed into
// whole panels.
func (c Config) Bytes() float64 { return product.Config(c).Bytes() }

// job is one product C = A·B, of class R. Rows of C are dealt out; B is read by all.
type job struct{ workload.Product }

// New makes the operands: uniform in (-1, 1), by logical index, so they do not
// depend on who computes.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	j, err := kind.New(product.Config(c))
	if err != nil {
		return nil, err
	}
	return &job{j}, nil
}

// check multiplies with random vectors in float64 (Freivalds).
func check(p product.Numbers) ([]workload.Miss, error) {
	above, err := checkProduct(p.C, p.A, p.B, p.M, p.K, p.N, p.Seed)
	return []workload.Miss{
		{What: fmt.Sprintf("one element off by more than %.2g", above), Chance: 0},
		{What: "a row or tile with several such elements", Chance: math.Ldexp(1, -rounds)},
	}, err
}
