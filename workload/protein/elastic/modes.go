package elastic

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/workload"
)

// Modes are eigenvectors of a network's matrix with the smallest eigenvalues that are not
// zero, in increasing order. Vectors are of length one, and their largest entry is positive.
type Modes struct {
	Values  []float64
	Vectors [][]float64
}

// Fluctuations returns the mean square fluctuation of each bead by some modes, in units of
// the temperature over the spring constant: the sum of the squares of its entries, each divided
// by its eigenvalue. B-factors are proportional to them.
func (m *Modes) Fluctuations(beads int) []float64 { return (*network.Modes)(m).Fluctuations(beads) }

// space is the subspace found from one vector: a tridiagonal matrix in a part of the basis.
type space struct {
	first            int // vector of the basis
	diagonal, beside []float64
	next             float64 // what would stand beside the last, or more
}

// spaces returns what a run found. Where a vector was zero, within rounding, a space is whole,
// and the one behind it begins with another vector. whole says that there is no more to find.
func (j *job) spaces() (out []space, whole bool) {
	sum := func(of []float64, step int) float64 {
		s := 0.0
		for _, v := range of[step*j.blocks : (step+1)*j.blocks] {
			s += v
		}
		return s
	}
	found, goingOn := 0, false
	for step := range j.steps {
		length2 := sum(j.squares, step)
		if length2 <= j.least() {
			goingOn = false
			continue
		}
		found++
		if !goingOn {
			out = append(out, space{first: j.zeros + step})
		}
		s := &out[len(out)-1]
		if goingOn {
			s.beside = append(s.beside, math.Sqrt(length2))
		}
		s.diagonal = append(s.diagonal, sum(j.diagonal, step))
		goingOn = true
	}
	whole = found >= j.matrix.Rows()-j.zeros
	if goingOn && !whole {
		out[len(out)-1].next = j.size // it was not computed any more
	}
	return out, whole
}

// Modes returns the slowest modes after a run. If not all of those that were asked for have
// converged, the error wraps ErrUnfinished, and the modes are those that have: eigenvalues
// whose vectors have a residual below 1e-10, relative to the largest eigenvalue there can be.
func (j *job) Modes() (*Modes, error) {
	spaces, whole := j.spaces()
	want := min(j.c.Modes, j.matrix.Rows()-j.zeros)
	type found struct {
		value, off float64
		in         *space
		vector     []float64 // in its space
	}
	var all []found
	for i := range spaces {
		s := &spaces[i]
		values, vectors, ok := network.Tridiagonal(s.diagonal, s.beside, want)
		if !ok {
			return nil, fmt.Errorf("elastic: %w: a number that is none", errWrong)
		}
		for k, v := range vectors {
			all = append(all, found{values[k], math.Abs(s.next * v[len(v)-1]), s, v})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.value, b.value) })
	out := &Modes{}
	for _, f := range all[:min(want, len(all))] {
		if f.off > network.Tolerance*j.size {
			break
		}
		x := make([]float64, j.matrix.Rows())
		for v, part := range f.vector {
			for i := range x {
				x[i] += part * j.basis[j.at(f.in.first+v, i)]
			}
		}
		network.Orient(x)
		out.Values, out.Vectors = append(out.Values, f.value), append(out.Vectors, x)
	}
	got := len(out.Values)
	if got > 0 && out.Values[0] <= 1e-9*j.size {
		return out, fmt.Errorf("elastic: %w: the %s at %g Å is not rigid, a mode costs nothing: raise the cutoff", workload.ErrConfig, j.c.Network, j.c.Cutoff)
	}
	// A space that is whole may lack modes of equal eigenvalues, which are in the next.
	if got < want || !whole && spaces[len(spaces)-1].next == 0 {
		return out, fmt.Errorf("elastic: %w: %d of %d modes converged after %d; %d should do", ErrUnfinished, got, want, j.steps, j.moreSteps())
	}
	return out, nil
}

// moreSteps returns a number of steps to try when the job's were too few: the usual one, or
// twice as many up to the number that finds all modes.
func (j *job) moreSteps() int {
	c := j.c
	c.Steps = 0
	if usual := c.steps(j.structure.Len()); j.steps < usual {
		return usual
	}
	return min(2*j.steps, 2*(j.matrix.Rows()-j.zeros), maxSteps)
}

// Unfinished returns the error of Modes if fewer modes than asked for converged in the last run, or if
// the network, because of its cutoff, has motions that cost no energy.
func (j *job) Unfinished() error {
	if _, err := j.Modes(); errors.Is(err, ErrUnfinished) || errors.Is(err, workload.ErrConfig) {
		return err
	}
	return nil
}
