package tropical

import (
	"fmt"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/product"
	"github.com/weft-run/weft/workload"
)

// kind is the product of maxima of sums.
var kind = product.New(product.Kind{Name: "tropical", Unit: "Gop", Class: workload.Exact, Zero: float32(math.Inf(-1)), Check: check}, kernel,
	workload.PTX(ptx, "tropical_rows", 256, 128, 128), workload.PTX(ptx, "tropical_rows_small", 64, 64, 64),
	workload.SPIRV(spirv, "tropical_rows", 64, 8, 512))

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
		return fmt.Errorf("tropical: %w", err)
	}
	return nil
}

// Bytes is the host memory that the job takes: A, B, C and, for CPUs, B packed into
// whole panels.
func (c Config) Bytes() float64 { return product.Config(c).Bytes() }

// job is one max-plus product C of A and B, of class X: a maximum is never rounded, so the
// cut cannot be seen. Rows of C are dealt out; B is read by all.
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
