package gemm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-run/weft/internal/rounding"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [checkProduct] for a matrix that is not the product.
var errWrong = errors.New("not the product")

// rounds is the number of times Check adds up every group of columns with other random
// signs. Errors that cancel by chance do so with probability one half at most each time.
const rounds = 10

// checkTerms is the number of terms that Check adds up, about a second of one core. Check
// divides columns into as many groups as that allows: the fewer columns a group has, the
// smaller are the errors that show among their rounding.
const checkTerms = 1 << 30

// leastGroup is the fewest columns of a group, by which the check stays cheaper than
// the product.
const leastGroup = 16

// groupOf returns the number of columns of a product that are added up at a time.
func groupOf(m, k, n int) int {
	groups := int(checkTerms / (rounds * float64(m) * float64(k)))
	return min(max((n+max(groups, 1)-1)/max(groups, 1), leastGroup), n)
}

// checkProduct tests whether c, m × n, is a·b but for rounding, in less time than the product
// takes (Freivalds, "Probabilistic machines can use less running time", 1977): it cuts
// the columns into groups, and for random vectors x of ±1 compares the sums of a group,
// c·x with a·(b·x), in float64. It returns an error that is [errWrong] and names the
// element, and the size above which an error of one element shows for certain. Several
// in one row and group cancel with probability 2⁻¹⁰ at most.
//
// A sum of float32 terms of random signs is off by about Unit |aᵢ| |bⱼ| ÷ √6 in the
// standard deviation, a group of them by as much of |aᵢ| |b| with b's Frobenius norm over
// the group. Four times Unit |aᵢ| |b| is ten deviations. A row and group that differs
// by more is computed again, element by element, with what [rounding.Dot] allows each:
// operands whose errors do not look random, that overflow or are not numbers pass if
// they are right. How much more than expected those that pass are off by is then what
// is expected of rows after them. The seed decides the vectors.
func checkProduct(c, a, b []float32, m, k, n int, seed uint64) (above float64, err error) {
	width := groupOf(m, k, n)
	random := rand.New(rand.NewPCG(seed, 0))
	x, bx := make([]float64, rounds*width), make([]float64, rounds*k)
	scales := make([]float64, m) // of the part a row is in; how much rows are off by at most
	for i := range scales {
		scales[i] = 1
	}
	limits := make([]float64, m)
	for first := 0; first < n; first += width {
		cols := min(width, n-first)
		for i := range x {
			x[i] = float64(random.IntN(2)*2 - 1)
		}
		size := mix(bx, x, b, k, n, first, cols)
		err := workload.Sweep(m, func(lo, hi int) error {
			scale := &scales[lo]
			for i := lo; i < hi; i++ {
				row, got := a[i*k:][:k], c[i*n+first:][:cols]
				limit := 4*rounding.Unit*size*norm(row) + float64(2*k*cols)*rounding.Tiny
				off := differ(row, got, bx, x)
				if !(off <= *scale*limit) { // written so that a NaN is looked at
					if err := compare(got, row, b, i, n, first); err != nil {
						return err
					}
					if ratio := off / limit; ratio > *scale && !math.IsInf(ratio, 0) {
						*scale = 2 * ratio
					}
				}
				limits[i] = max(limits[i], *scale*limit)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	for _, l := range limits {
		above = max(above, 2*l) // an error, and as much rounding the other way
	}
	return above, nil
}

// mix sets bx to b·x for some columns of b and every round, a row of all rounds for
// each row of b, and returns the norm of those columns.
func mix(bx, x []float64, b []float32, k, n, first, cols int) (size float64) {
	clear(bx)
	for p := range k {
		to := bx[p*rounds:][:rounds]
		for j, v := range b[p*n+first:][:cols] {
			v := float64(v)
			size += v * v
			for r, sign := range x[j*rounds:][:rounds] {
				to[r] += sign * v
			}
		}
	}
	return math.Sqrt(size)
}

// differ returns the largest difference over all rounds between the mixed columns of a
// row and the same mix computed from the factors.
func differ(row, got []float32, bx, x []float64) (off float64) {
	var sums [rounds]float64
	for j, v := range got {
		v := float64(v)
		for r, sign := range x[j*rounds:][:rounds] {
			sums[r] -= sign * v
		}
	}
	for p, v := range row {
		v, with := float64(v), (*[rounds]float64)(bx[p*rounds:])
		sums[0] += v * with[0]
		sums[1] += v * with[1]
		sums[2] += v * with[2]
		sums[3] += v * with[3]
		sums[4] += v * with[4]
		sums[5] += v * with[5]
		sums[6] += v * with[6]
		sums[7] += v * with[7]
		sums[8] += v * with[8]
		sums[9] += v * with[9]
	}
	for _, s := range sums {
		off = max(off, math.Abs(s)) // NaN if one is
	}
	return off
}

// compare computes some elements of a row of the product again.
func compare(got, row, b []float32, i, n, first int) error {
	column := make([]float32, len(row))
	for j, v := range got {
		for p := range column {
			column[p] = b[p*n+first+j]
		}
		if sum := rounding.Dot(row, column); !sum.Is(v) {
			return fmt.Errorf("gemm: element (%d, %d) is %v, want %v ± %.2g: %w", i, first+j, v, sum.Want, sum.Within, errWrong)
		}
	}
	return nil
}

// reference computes rows lo to hi of a·b in float64 with three plain loops, to
// compare [computeRows] with. c is m × n like the c of computeRows.
func reference(c []float64, a, b []float32, k, n, lo, hi int) {
	for i := lo; i < hi; i++ {
		row := c[i*n:][:n]
		clear(row)
		for p := range k {
			x := float64(a[i*k+p])
			for j, y := range b[p*n:][:n] {
				row[j] += x * float64(y)
			}
		}
	}
}

func norm(xs []float32) float64 {
	s := 0.0
	for _, x := range xs {
		s += float64(x) * float64(x)
	}
	return math.Sqrt(s)
}
