package tropical

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-run/weft/internal/panel"
	"github.com/weft-run/weft/internal/product"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by the Check of a [job] for a matrix that is not the product.
var errWrong = errors.New("not the max-plus product")

const (
	// plainTerms is the number of terms that Check compares one by one, about a quarter
	// of a second. Of larger products it does so for sampled rows and columns.
	plainTerms = 1 << 28
	sampled    = 16
	// fullTerms is the number of terms that Check computes with vectors, about ten
	// seconds of one core. Of larger products it does so for as many columns.
	fullTerms = 1 << 39
)

// check compares C with the definition, bit for bit. Of a product of more than 2²⁸ terms
// it does so in 16 random rows and columns, and compares all elements with the product
// of the transposed matrices, by another inner loop where there is one: every element is
// then computed in another place of another tile. Of a product of more than 2³⁹ terms,
// that is done for random columns. The error is [errWrong] and names the element.
func check(p product.Numbers) ([]workload.Miss, error) {
	missed, err := numbers(p).check()
	return []workload.Miss{
		{What: "one wrong element", Chance: missed},
		{What: "one wrong row", Chance: 0},
	}, err
}

// numbers are the product to check.
type numbers product.Numbers

// check returns the chance that it missed one wrong element.
func (j numbers) check() (missed float64, err error) {
	rows, cols := upTo(j.M), upTo(j.N)
	terms := float64(j.M) * float64(j.K) * float64(j.N)
	if terms <= plainTerms {
		return 0, j.compare(rows, cols)
	}
	r := rand.New(rand.NewPCG(j.Seed, 0))
	if err := j.compare(rows, r.Perm(j.N)[:min(sampled, j.N)]); err != nil {
		return 0, err
	}
	if err := j.compare(r.Perm(j.M)[:min(sampled, j.M)], cols); err != nil {
		return 0, err
	}
	if terms > fullTerms {
		cols = r.Perm(j.N)[:max(int(float64(j.N)*fullTerms/terms), 1)]
	}
	return 1 - float64(len(cols))/float64(j.N), j.compareTransposed(cols)
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
func (j numbers) compare(rows, cols []int) error {
	k, n := j.K, j.N
	return workload.Sweep(len(cols), func(lo, hi int) error {
		column := make([]float32, k)
		for _, col := range cols[lo:hi] {
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
					return fmt.Errorf("tropical: element (%d, %d) is %v, want %v: %w", row, col, got, want, errWrong)
				}
			}
		}
		return nil
	})
}

// other is an inner loop other than the one in use, if there is one as fast as vectors.
func other() *panel.Kernel {
	kernels := panel.MaxPlus()
	for _, kn := range kernels[:len(kernels)-1] { // the last is no vectors
		if kn.Name != kernel.Name {
			return kn
		}
	}
	return kernels[0]
}

// compareTransposed checks all rows of some columns of C: they are rows of the product
// of B and A transposed.
func (j numbers) compareTransposed(cols []int) error {
	m, k, n := j.M, j.K, j.N
	kn := other()
	at := make([]float32, k*m)
	for i := range m {
		for p, v := range j.A[i*k:][:k] {
			at[p*m+i] = v
		}
	}
	packed := make([]float32, panel.Start(k, m, panel.Count(k, m)))
	panel.Pack(packed, at, k, m, 0, panel.Count(k, m))
	return workload.Sweep(len(cols), func(lo, hi int) error {
		bt, ct, scratch := make([]float32, (hi-lo)*k), make([]float32, (hi-lo)*m), make([]float32, panel.PackedScratch)
		for p := range k {
			row := j.B[p*n:][:n]
			for c, col := range cols[lo:hi] {
				bt[c*k+p] = row[col]
			}
		}
		kn.PackedRows(ct, bt, packed, k, m, 0, hi-lo, scratch)
		for c, col := range cols[lo:hi] {
			for row, want := range ct[c*m:][:m] {
				if got := j.C[row*n+col]; math.Float32bits(got) != math.Float32bits(want) {
					return fmt.Errorf("tropical: element (%d, %d) is %v, want %v: %w", row, col, got, want, errWrong)
				}
			}
		}
		return nil
	})
}
