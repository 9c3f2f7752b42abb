package tropical

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/product"
)

// ErrWrong is returned by [Job.Check] for a matrix that is not the product.
var ErrWrong = errors.New("not the max-plus product")

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
type Job struct{ product.Job }

// New makes the operands: uniform in (-1, 1), by logical index, so they do not
// depend on who computes.
func New(c Config) (*Job, error) {
	j, err := kind.New(c)
	if err != nil {
		return nil, err
	}
	return &Job{j}, nil
}

// Hosted is the job in its form for CPUs alone.
func (j *Job) Hosted() workload.Job { return &Job{j.Packed()} }

// Class is X: a maximum is never rounded, so the cut cannot be seen.
func (j *Job) Class() workload.Class { return workload.Exact }

// Check compares C with the definition, bit for bit. A product of more than
// 2²⁸ terms is compared in 16 random columns of every row and 16 random rows of
// every column, so a task that was left out or that read the wrong slice shows,
// while a single wrong element may not. The error is [ErrWrong] and names the
// element.
func (j *Job) Check() error {
	const most, sampled = 1 << 28, 16
	rows, cols := upTo(j.M), upTo(j.N)
	if float64(j.M)*float64(j.K)*float64(j.N) <= most {
		return j.compare(rows, cols)
	}
	r := rand.New(rand.NewPCG(j.Seed, 0))
	if err := j.compare(rows, r.Perm(j.N)[:min(sampled, j.N)]); err != nil {
		return err
	}
	return j.compare(r.Perm(j.M)[:min(sampled, j.M)], cols)
}

// upTo returns the numbers below n.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// compare checks the elements of C in the given rows and columns.
func (j *Job) compare(rows, cols []int) error {
	k, n := j.K, j.N
	column := make([]float32, k)
	for _, col := range cols {
		for p := range column {
			column[p] = j.B[p*n+col]
		}
		for _, row := range rows {
			want := float32(math.Inf(-1))
			for p, x := range j.A[row*k:][:k] {
				if s := x + column[p]; s > want {
					want = s
				}
			}
			if got := j.C[row*n+col]; math.Float32bits(got) != math.Float32bits(want) {
				return fmt.Errorf("tropical: element (%d, %d) is %v, want %v: %w", row, col, got, want, ErrWrong)
			}
		}
	}
	return nil
}
