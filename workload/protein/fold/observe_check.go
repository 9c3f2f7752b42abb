package fold

import (
	"fmt"
	"math"

	"github.com/weft-run/weft/workload/protein"
)

// checkFrame compares a frame's observables with the replica's positions. Rg and
// RMSD are compared as squares, which need no rotation: Rg² from moments, RMSD²
// from the largest eigenvalue of Horn's matrix.
func (r *Run) checkFrame(f Frame, x []float64) error {
	size, of := moment(x), moment(r.model.Native)
	apart := max(0, size+of-2*overlap(x, r.model.Native))
	for _, c := range []struct {
		what            string
		got, want, size float64
	}{
		{"energy", f.Energy, r.model.Energy(x), 0}, {"Q", f.Q, r.model.Q(x), 0},
		{"Rg²", f.Rg * f.Rg, size, size}, {"RMSD²", f.RMSD * f.RMSD, apart, size + of},
	} {
		if !(math.Abs(c.got-c.want) <= 1e-9*(100+math.Abs(c.want)+c.size)) {
			return fmt.Errorf("fold: replica %d: %s %v, by the reference %v: %w", f.Replica, c.what, c.got, c.want, errWrong)
		}
	}
	return r.checkGDTTS(f, x)
}

// checkGDTTS sees that a conformation is superposed on the native one by a turn alone, to where no turn
// comes nearer, and then counts the beads that [protein.GDTTS] is about. Beads at a limit may count or not.
func (r *Run) checkGDTTS(f Frame, x []float64) error {
	native := r.model.Native
	moved := protein.Superposed(x, native)
	n := len(x) / 3
	distance := func(a []float64, i int, b []float64, k int) float64 {
		return math.Hypot(math.Hypot(a[3*i]-b[3*k], a[3*i+1]-b[3*k+1]), a[3*i+2]-b[3*k+2])
	}
	low, high, mean := 0.0, 0.0, 0.0
	for i := range n {
		for _, k := range []int{0, n / 3, n / 2, n - 1} {
			if was, is := distance(x, i, x, k), distance(moved, i, moved, k); !(math.Abs(is-was) <= 1e-8*(1+was)) {
				return fmt.Errorf("fold: replica %d: superposed, beads %d and %d are %v apart, before %v: %w", f.Replica, i, k, is, was, errWrong)
			}
		}
		d := distance(moved, i, native, i)
		mean += d * d / float64(n)
		for limit := 1.0; limit < 10; limit *= 2 {
			if d < limit-1e-9 {
				low += 25 / float64(n)
			}
			if d < limit+1e-9 {
				high += 25 / float64(n)
			}
		}
	}
	size := moment(x) + moment(native)
	if least := size - 2*overlap(x, native); !(math.Abs(mean-least) <= 1e-9*(100+size)) {
		return fmt.Errorf("fold: replica %d: superposed, its beads are at a mean square distance of %v, and %v is the least: %w", f.Replica, mean, least, errWrong)
	}
	if got := protein.GDTTS(x, native); !(got >= low-1e-9 && got <= high+1e-9) {
		return fmt.Errorf("fold: replica %d: GDT-TS %v, want %v: %w", f.Replica, got, low, errWrong)
	}
	return nil
}

// centreOf is the mean of the beads.
func centreOf(x []float64) (c [3]float64) {
	for i, v := range x {
		c[i%3] += v * 3 / float64(len(x))
	}
	return c
}

// moment is the mean square distance of beads from their middle.
func moment(x []float64) float64 {
	c, sum := centreOf(x), 0.0
	for i, v := range x {
		sum += (v - c[i%3]) * (v - c[i%3])
	}
	return sum * 3 / float64(len(x))
}

// overlap is the mean product of the coordinates of two conformations about their middles, once one is
// turned to where that is largest. It is the largest root of the characteristic polynomial of Horn's
// matrix, whose coefficients are invariants of the matrix S of products (Theobald, Acta Cryst. A 61,
// 478, 2005), by Newton's method from above.
func overlap(x, y []float64) float64 {
	cx, cy := centreOf(x), centreOf(y)
	var s [3][3]float64
	for i := 0; i < len(x); i += 3 {
		for a := range 3 {
			for b := range 3 {
				s[a][b] += (x[i+a] - cx[a]) * (y[i+b] - cy[b]) * 3 / float64(len(x))
			}
		}
	}
	det, squares, fourth := 0.0, 0.0, 0.0 // of S; the traces of SᵀS and of its square
	for a := range 3 {
		det += s[0][a] * (s[1][(a+1)%3]*s[2][(a+2)%3] - s[1][(a+2)%3]*s[2][(a+1)%3])
		for b := range 3 {
			of := s[0][a]*s[0][b] + s[1][a]*s[1][b] + s[2][a]*s[2][b]
			fourth += of * of
			if a == b {
				squares += of
			}
		}
	}
	root := (moment(x) + moment(y)) / 2
	for range 200 {
		value := ((root*root-2*squares)*root-8*det)*root + 2*fourth - squares*squares
		slope := 4*(root*root-squares)*root - 8*det
		if !(value > 0 && slope > 0) {
			break
		}
		next := root - value/slope
		if !(next < root) {
			break
		}
		root = next
	}
	return root
}

// checkMelting sees that the temperature of the largest heat capacity is where the parabola through the
// highest of its points and the two next to it is level, and that a curve that is highest at an end says so.
func checkMelting(h *Heat) error {
	if h == nil {
		return nil
	}
	at, c := h.Temperatures, h.Capacity
	best := 0
	for i, v := range c {
		if v > c[best] {
			best = i
		}
	}
	want, edge := at[best], best == 0 || best == len(c)-1
	if !edge {
		first := (c[best] - c[best-1]) / (at[best] - at[best-1])
		second := ((c[best+1]-c[best])/(at[best+1]-at[best]) - first) / (at[best+1] - at[best-1])
		if second < 0 {
			want = (at[best-1]+at[best])/2 - first/(2*second)
		}
	}
	if h.Edge != edge || !(math.Abs(h.Melting-want) <= 1e-6*(at[len(at)-1]-at[0])) {
		return fmt.Errorf("fold: the heat capacity is largest at temperature %v, at an end: %v; want %v, %v: %w", h.Melting, h.Edge, want, edge, errWrong)
	}
	return nil
}
