package phase

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for states that differ from the definition.
var errWrong = errors.New("not the phase states")

// checkTerms is the number of terms of products that Check computes again, about two seconds of
// one core. Up to 400 residues it computes all.
const checkTerms = 1 << 26

// sample says which states Check compares: each of each row, one at random in every stretch of
// equally many.
type sample struct{ each, of int }

func (s sample) column(row, k int, places philox.Source) int {
	lo, hi := k*s.of/s.each, (k+1)*s.of/s.each
	return lo + int(places.Uint32(uint64(row), 0, uint32(k)))%(hi-lo)
}

// Check compares states with the definition, term by term: of up to 400 residues all, of more
// some of every row. It uses angles and complex exponentials where kernels use neither.
func (j *job) Check() error {
	n := j.structure.Len()
	j.picked = sample{each: min(max(checkTerms/n/n, 1), n), of: n}
	sums := make([]float64, n)
	psi := make([][]complex128, n)
	err := workload.Sweep(n, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			psi[i] = j.wave(i)
			for k := range n {
				if k != i {
					a, _ := j.alpha(i, k)
					sums[i] += a * a
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	sum := 0.0
	for _, s := range sums {
		sum += s
	}
	scale := 0.0
	if sum > 0 {
		scale = 1 / math.Sqrt(sum)
	}
	places := philox.Source{}
	return workload.Sweep(n, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			for k := range j.picked.each {
				if err := j.checkState(i, j.picked.column(i, k, places), psi, scale); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (j *job) distance(i, k int) float64 {
	x, y, z := j.beads[3*i]-j.beads[3*k], j.beads[3*i+1]-j.beads[3*k+1], j.beads[3*i+2]-j.beads[3*k+2]
	return math.Sqrt(x*x + y*y + z*z)
}

// wave is row i of ψ.
func (j *job) wave(i int) []complex128 {
	n := j.structure.Len()
	out := make([]complex128, n)
	squares := 0.0
	for k := range out {
		out[k] = 1
		if k != i {
			d, s := j.distance(i, k), math.Abs(float64(i-k))
			out[k] = 0
			if d < farthest {
				out[k] = complex(math.Exp(-d/3.8)/(1+s), 0) * complex(1, math.Sin(2*math.Pi*s/float64(n)+d/38))
			}
		}
		squares += real(out[k])*real(out[k]) + imag(out[k])*imag(out[k])
	}
	for k := range out {
		out[k] *= complex(0x1p480/math.Sqrt(squares), 0) // so that products do not vanish
	}
	return out
}

// alpha returns α before scaling, and its error due to the rounding of the argument of its
// cosine.
func (j *job) alpha(i, k int) (value, off float64) {
	d := j.distance(i, k)
	e := 332.0636*math.Exp(-d/10)/d + 2*(math.Pow(3.8/d, 12)-math.Pow(3.8/d, 6))
	if d >= 2.5 && d <= 3.5 {
		e += 2 * (5*math.Pow(2.9/d, 12) - 6*math.Pow(2.9/d, 10))
	}
	omega := 2 * math.Pi * math.Log1p(d/3.8)
	most := math.Abs(e) * math.Exp(-d/10-math.Abs(e)/(0.001987*300))
	return most * math.Abs(math.Cos(omega*j.c.Time)), most * omega * j.c.Time * 0x1p-49
}

// torsion is the angle of a pair that τ depends on, in degrees, and whether there is one.
func (j *job) torsion(i, k int) (angle float64, ok bool) {
	i, k = min(i, k), max(i, k)
	vector := func(from, to int) (v [3]float64) {
		for c := range v {
			v[c] = j.beads[3*to+c] - j.beads[3*from+c]
		}
		return v
	}
	outer := func(a, b [3]float64) [3]float64 {
		return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
	}
	length := func(a [3]float64) float64 { return math.Sqrt(a[0]*a[0] + a[1]*a[1] + a[2]*a[2]) }
	axis := vector(i+1, k)
	a, b := outer(vector(i+1, i), axis), outer(axis, vector(k, k+1))
	if length(a) < 1e-10 || length(b) < 1e-10 {
		return 0, false
	}
	return math.Atan2(length(outer(a, b)), a[0]*b[0]+a[1]*b[1]+a[2]*b[2]) * 180 / math.Pi, true
}

// affinities are χ of pairs of residues as the source of the definition lists them: a pair has the value of
// the first row that fits it in either order, where ... is any residue.
var affinities = []struct {
	one, other string
	value      float64
}{
	{"GLY", "...", 1.2}, {"PRO", "...", 0.8},
	{"ALA", "ALA", 1.1}, {"VAL", "VAL", 0.9}, {"ILE", "ILE", 0.9}, {"LEU", "LEU", 0.9},
	{"GLU", "LYS", 1.3}, {"ASP", "ARG", 1.3}, {"...", "...", 1},
}

// affinity is χ of two residues by name, from the list and not from the kernels' kinds.
func affinity(a, b string) float64 {
	for _, row := range affinities {
		for _, pair := range [][2]string{{a, b}, {b, a}} {
			if (row.one == "..." || row.one == pair[0]) && (row.other == "..." || row.other == pair[1]) {
				return row.value
			}
		}
	}
	return 1
}

// checkState compares one state.
func (j *job) checkState(i, k int, psi [][]complex128, scale float64) error {
	n := j.structure.Len()
	got := j.states[i*n+k]
	if i == k {
		if got != 1 {
			return fmt.Errorf("phase: state %d, %d is %v, want 1: %w", i, k, got, errWrong)
		}
		return nil
	}
	factor := 1.0
	if max(i, k) < n-1 {
		angle, ok := j.torsion(i, k)
		switch {
		case math.Abs(angle-60) < 1e-9 || math.Abs(angle-120) < 1e-9:
			return nil // either
		case !ok || angle < 60:
			factor = 1.2
		case angle > 120:
			factor = 0.8
		}
	}
	factor *= affinity(j.structure.Residues[i].Name, j.structure.Residues[k].Name)
	var product complex128
	terms := 0.0 // their sizes
	for l, a := range psi[i] {
		term := cmplx.Conj(a) * psi[k][l]
		product += term
		terms += math.Abs(real(term)) + math.Abs(imag(term))
	}
	d := j.distance(i, k)
	phase := cmplx.Phase(product) + math.Mod(math.Pi*math.Abs(float64(i-k))/d, 2*math.Pi) + 2*math.Pi*math.Log1p(d/3.8)*j.c.Time
	alpha, off := j.alpha(i, k)
	want := complex(alpha*scale*factor, 0) * cmplx.Exp(complex(0, phase))
	// The phase of a product is off by the rounding of its terms over its size, where those
	// below the normal numbers may be zero, and alpha by that of an energy of up to some hundred
	// units.
	rounding := 1e-11 + 1e-14*j.c.Time + float64(n)*(0x1p-52*terms+0x1p-1022)/max(cmplx.Abs(product), 0x1p-1022)
	within := cmplx.Abs(want)*rounding + off*scale*factor + 1e-300
	if !(cmplx.Abs(got-want) <= within) {
		return fmt.Errorf("phase: state %d, %d is %v, by the definition %v ± %.2g: %w", i, k, got, want, within, errWrong)
	}
	return nil
}

// Misses lists errors that Check may not see.
func (j *job) Misses() []workload.Miss {
	return []workload.Miss{
		{What: "one wrong state", Chance: 1 - float64(j.picked.each)/float64(j.picked.of)},
		{What: "one wrong row", Chance: 0},
	}
}
