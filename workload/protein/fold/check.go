package fold

import (
	"fmt"
	"math"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload"
)

const (
	checkSteps    = 100 // that the reference takes
	checkReplicas = 4   // of a group, by the reference

	// tailSteps is the most steps that are taken again, on one core, by the portable kernel. Devices
	// other than processors round differently, and the difference grows with the steps: from a straight
	// chain, whose bends are the least stable, to millionths of an angstrom in this many steps, while
	// roundedBy angstrom are allowed. After more steps a comparison would tell nothing.
	tailSteps = 1000
	roundedBy = 1e-3
)

// Check compares results with the reference, which is independent of the kernels: the energies and
// observables of all replicas after the last round, and the first of its last thousand steps for some
// replicas. The portable kernel then takes all of those steps again for one group of replicas. They
// must agree bit by bit, or within a thousandth of an angstrom if a device of another backend than
// cpu took part. Every exchange of temperatures is decided again from the energies, and what was made
// of the results by [Run.Heat] is compared with its definition.
func (r *Run) Check() error {
	last := r.Rounds() - 1
	if err := workload.Sweep(r.c.Replicas, func(lo, hi int) error {
		for k := lo; k < hi; k++ {
			if err := r.checkFrame(r.Frame(last, k), r.positions(k)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := r.checkExchanges(); err != nil {
		return err
	}
	if err := checkMelting(r.heat); err != nil {
		return err
	}
	return r.checkSteps(int(philox.Source{Seed: r.c.Seed}.Uint32(uint64(last), 0, 0)) % r.groups)
}

// checkSteps takes the steps of the last launch of a group again.
func (r *Run) checkSteps(which int) error {
	n := 3 * r.model.Beads()
	tail := r.tail()
	m := motion{r.c.TimeStep, r.c.Friction, r.c.Seed, uint64(r.c.Steps - tail), tail}
	begin := func() (*group, [lanes]uint64) {
		state := append([][lanes]float64(nil), r.last[2*n*which:2*n*(which+1)]...)
		var replica [lanes]uint64
		for l := range lanes {
			replica[l] = uint64(min(which*lanes+l, r.c.Replicas-1))
			for k := n; k < 2*n; k++ {
				state[k][l] *= r.ladder[which][rungScale][l]
			}
		}
		g := &group{portable: true}
		g.bind(r.tables, state[:n], state[n:])
		return g, replica
	}
	temperature := r.ladder[which][rungTemperature]
	few, replica := begin()
	part := m
	part.steps = min(m.steps, checkSteps)
	x, v := make([]float64, n), make([]float64, n)
	var wants [lanes][]float64
	for l := range min(checkReplicas, r.c.Replicas-which*lanes) {
		for k := range x {
			x[k], v[k] = few.x[k][l], few.v[k][l]
		}
		wants[l] = r.reference(x, v, part, temperature[l], int(replica[l]))
	}
	if err := few.advance(part, temperature, replica, nil); err != nil {
		return err
	}
	for l, want := range wants {
		for k := range want {
			if got := few.x[k][l]; !(math.Abs(got-want[k]) <= 1e-6) {
				return fmt.Errorf("fold: replica %d, bead %d after %d of the last steps: at %v, by the reference %v: %w", replica[l], k/3, part.steps, got, want[k], errWrong)
			}
		}
	}
	by := 0.0
	if r.other[0] != 0 {
		by = roundedBy
	}
	all, _ := begin()
	if err := all.advance(m, temperature, replica, nil); err != nil {
		return err
	}
	state := r.state[2*n*which : 2*n*(which+1)]
	for k := range n {
		if !within(all.x[k], state[k], by) || !within(all.v[k], state[n+k], by) {
			return fmt.Errorf("fold: replicas %d to %d, bead %d after the last round: at %v, by the portable kernel %v: %w", replica[0], replica[lanes-1], k/3, state[k], all.x[k], errWrong)
		}
	}
	return nil
}

// within reports whether numbers differ by so much at most.
func within(a, b [lanes]float64, by float64) bool {
	for l := range lanes {
		if !(math.Abs(a[l]-b[l]) <= by) {
			return false
		}
	}
	return true
}

// reference takes steps by the BAOAB scheme as they are written in books.
func (r *Run) reference(x, v []float64, m motion, temperature float64, replica int) []float64 {
	f := make([]float64, len(x))
	r.model.Forces(f, x)
	c1 := math.Exp(-m.gamma * m.dt)
	c2 := math.Sqrt((1 - c1*c1) * temperature)
	for s := range m.steps {
		step := m.first + uint64(s)
		for k := range x {
			v[k] += m.dt / 2 * f[k]
			x[k] += m.dt / 2 * v[k]
		}
		for i := range len(x) / 3 {
			w := philox.Block([4]uint32{uint32(i), uint32(replica), uint32(step), uint32(step >> 32)}, [2]uint32{m.seed, stream})
			sin, cos := math.Sincos(2 * math.Pi * philox.Unit(w[1]))
			size := math.Sqrt(-2 * math.Log(philox.Unit(w[0])))
			noise := [3]float64{size * cos, size * sin, math.Sqrt(-2*math.Log(philox.Unit(w[2]))) * math.Cos(2*math.Pi*philox.Unit(w[3]))}
			for k, g := range noise {
				v[3*i+k] = c1*v[3*i+k] + c2*g
			}
		}
		for k := range x {
			x[k] += m.dt / 2 * v[k]
		}
		r.model.Forces(f, x)
		for k := range x {
			v[k] += m.dt / 2 * f[k]
		}
	}
	return append([]float64(nil), x...)
}

// Misses lists errors that Check may not see.
func (r *Run) Misses() []workload.Miss {
	tail := r.tail()
	return []workload.Miss{
		{What: fmt.Sprintf("a wrong replica in the last %d steps", tail), Chance: 1 - 1/float64(r.groups)},
		{What: "a wrong step before them", Chance: 1},
	}
}
