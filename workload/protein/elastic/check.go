package elastic

import (
	"errors"
	"fmt"
	"math"

	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for results that differ from the Lanczos method's.
var errWrong = errors.New("not the modes of the network")

// countRows is the most rows of a matrix for which Check counts eigenvalues: it takes the third
// power of them, for 1500 about a second.
const countRows = 1500

// drawnFrom is the number of products of numbers above which Check looks at random sums of vectors in place
// of each one: they take some ten seconds of one core. Tests set it.
var drawnFrom = 2e10

// draws is the number of sums that are drawn.
const draws = 4

// isDrawn reports whether Check looks at random sums of the vectors, given their number, in place of each one.
func (j *job) isDrawn(vectors int) bool {
	return float64(vectors)*(float64(j.matrix.Nonzeros())+float64(j.matrix.Rows())*float64(vectors)) > drawnFrom
}

// Check sees that the vectors are orthogonal and of length one, that the matrix in their basis
// is the tridiagonal one, and that the modes are eigenvectors. Up to 1500 rows it counts, by
// elimination, that no smaller eigenvalue is missing. That fewer modes converged than were
// asked for, or that the network is not rigid, is no error of a result: see [job.Unfinished].
// Where there are very many vectors or entries, four sums of all vectors with random factors stand for
// them: a wrong one would have to be missed by all four.
func (j *job) Check() error {
	spaces, _ := j.spaces()
	vector := func(k int) []float64 {
		x := make([]float64, j.matrix.Rows())
		for i := range x {
			x[i] = j.basis[j.at(k, i)]
		}
		return x
	}
	var vectors [][]float64
	for k := range j.zeros {
		vectors = append(vectors, vector(k))
	}
	var work []func(y []float64) error
	var firsts []int // vector of each space
	for _, s := range spaces {
		first := len(vectors)
		firsts = append(firsts, first)
		for k := range s.diagonal {
			vectors = append(vectors, vector(s.first+k))
			work = append(work, func(y []float64) error { return j.checkStep(&s, vectors[first:first+len(s.diagonal)], k, y) })
		}
	}
	for k := range vectors {
		work = append(work, func([]float64) error { return orthogonal(vectors, k) })
	}
	if j.isDrawn(len(vectors)) {
		if err := j.checkDrawn(spaces, firsts, vectors); err != nil {
			return err
		}
		work = nil
	}
	err := workload.Sweep(len(work), func(lo, hi int) error {
		y := make([]float64, j.matrix.Rows())
		for _, check := range work[lo:hi] {
			if err := check(y); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	modes, err := j.Modes()
	if errors.Is(err, errWrong) {
		return err
	}
	return j.checkModes(modes)
}

// checkDrawn does for sums of vectors with random factors what checkStep and orthogonal do for each.
// firsts are the numbers of the first vectors of the spaces.
func (j *job) checkDrawn(spaces []space, firsts []int, vectors [][]float64) error {
	rows, root := j.matrix.Rows(), math.Sqrt(float64(len(vectors)))
	z, y := make([]float64, rows), make([]float64, rows)
	for draw := range draws {
		w := network.Start(len(vectors), j.c.Seed+uint32(draw)+1)
		add(z, vectors, w)
		for k, v := range vectors {
			if off := product(v, z) - w[k]; !(math.Abs(off) <= 1e-12*root) {
				return fmt.Errorf("elastic: vectors are %.3g off orthonormal, of which %d is one: %w", off, k, errWrong)
			}
		}
		for i := range spaces {
			s := &spaces[i]
			own, f := vectors[firsts[i]:firsts[i]+len(s.diagonal)], w[firsts[i]:firsts[i]+len(s.diagonal)]
			if s.next != 0 { // the last is alone in that the matrix leads out of the space
				f[len(f)-1] = 0
				if err := j.checkStep(s, own, len(own)-1, y); err != nil {
					return err
				}
			}
			add(z, own, f)
			j.matrix.Mul(y, z)
			for k, v := range own {
				by := s.diagonal[k] * f[k]
				if k > 0 {
					by += s.beside[k-1] * f[k-1]
				}
				if k < len(s.beside) {
					by += s.beside[k] * f[k+1]
				}
				take(y, v, by)
			}
			if off := length(y); !(off <= 1e-11*j.size*root) {
				return fmt.Errorf("elastic: vectors %d to %d: the matrix is %.3g off the tridiagonal one: %w", s.first-j.zeros, s.first+len(own)-1-j.zeros, off, errWrong)
			}
		}
	}
	return nil
}

// add sets z to the sum of vectors, each times a factor.
func add(z []float64, vectors [][]float64, f []float64) {
	clear(z)
	for k, v := range vectors {
		take(z, v, -f[k])
	}
}

// product is the product of two vectors.
func product(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// checkStep sees that the product of a vector with the matrix is made of its neighbours in a
// space as the tridiagonal matrix says.
func (j *job) checkStep(s *space, vectors [][]float64, k int, y []float64) error {
	j.matrix.Mul(y, vectors[k])
	take(y, vectors[k], s.diagonal[k])
	if k > 0 {
		take(y, vectors[k-1], s.beside[k-1])
	}
	within := 1e-11 * j.size
	if k < len(s.beside) {
		take(y, vectors[k+1], s.beside[k])
	} else {
		within += s.next
	}
	if off := length(y); !(off <= within) {
		return fmt.Errorf("elastic: vector %d: the matrix is %.3g off the tridiagonal one: %w", s.first+k-j.zeros, off, errWrong)
	}
	return nil
}

// orthogonal errs unless a vector is of length one and orthogonal to those before.
func orthogonal(vectors [][]float64, k int) error {
	for l := range k + 1 {
		sum := product(vectors[k], vectors[l])
		if l == k {
			sum--
		}
		if !(math.Abs(sum) <= 1e-12) {
			return fmt.Errorf("elastic: vectors %d and %d are %.3g off orthonormal: %w", l, k, sum, errWrong)
		}
	}
	return nil
}

// checkModes sees that modes are eigenvectors, and the slowest.
func (j *job) checkModes(modes *Modes) error {
	y := make([]float64, j.matrix.Rows())
	for k, x := range modes.Vectors {
		j.matrix.Mul(y, x)
		take(y, x, modes.Values[k])
		if off := length(y); !(off <= 10*network.Tolerance*j.size) {
			return fmt.Errorf("elastic: mode %d is %.3g off an eigenvector: %w", k, off, errWrong)
		}
	}
	found := len(modes.Values)
	if found == 0 || j.matrix.Rows() > countRows {
		return nil
	}
	last := modes.Values[found-1]
	if below := j.below(last - 1e-8*j.size); below > j.zeros+found-1 {
		return fmt.Errorf("elastic: the network has %d modes below eigenvalue %.6g, found are %d: %w; try more steps", below-j.zeros, last, found-1, errWrong)
	}
	return nil
}

// below returns the number of eigenvalues below a number, by Sylvester's law: as many as the
// pivots that are negative when the matrix less that number is eliminated.
func (j *job) below(shift float64) int {
	n := j.matrix.Rows()
	a := make([][]float64, n)
	for i := range a {
		a[i] = make([]float64, n)
		columns, values := j.matrix.Row(i)
		for k, c := range columns {
			a[i][c] = values[k]
		}
		a[i][i] -= shift
	}
	negative := 0
	for p, top := range a { // of every row what is on the diagonal and right of it
		if top[p] < 0 {
			negative++
		}
		for i := p + 1; i < n; i++ {
			if f := top[i] / top[p]; f != 0 {
				row := a[i][i:]
				for c, v := range top[i:] {
					row[c] -= f * v
				}
			}
		}
	}
	return negative
}

// Misses lists errors that Check may not see.
func (j *job) Misses() []workload.Miss {
	missing := 0.0
	if j.matrix.Rows() > countRows || j.Unfinished() != nil {
		missing = 1
	}
	// An error of a hundred times the tolerance is missed by a sum in which its factor, which is uniform in
	// (-1, 1), is below a hundredth.
	wrong := 0.0
	if j.isDrawn(j.width) {
		wrong = math.Pow(0.01, draws)
	}
	return []workload.Miss{{What: "a wrong vector", Chance: wrong}, {What: "a mode that is missing", Chance: missing}}
}

// take takes f times x from y.
func take(y, x []float64, f float64) {
	for i, v := range x {
		y[i] -= f * v
	}
}

func length(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}
