package reservoir

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
)

// Kuramoto couples oscillators, each with every other of its set, as a stage before a
// reservoir: those that are close enough to each other fall into step, and spikes that
// were apart come together.
//
//	dθᵢ/dt = ωᵢ + (K/N) Σⱼ sin(θⱼ - θᵢ)
//
// Frequencies from a Lorentzian distribution of half width g stay apart below the critical
// coupling K = 2g; above it the order of a large set (see [Order]) becomes √(1 - 2g/K).
type Kuramoto struct {
	Coupling float64 // K, in radians a millisecond
	Step     float64 // milliseconds, in each of which the phases move on a straight line
	Steps    int
}

// Oscillators are a set of oscillators that are coupled with each other.
type Oscillators struct {
	Phase     []float64 // radians
	Frequency []float64 // radians a millisecond, by oscillator
}

// Order is the order parameter of phases: the length of the mean of their unit vectors, 1
// if all are equal, about 1/√N for N random ones.
func Order(phases []float64) float64 {
	var x, y float64
	for _, p := range phases {
		sin, cos := math.Sincos(p)
		x, y = x+cos, y+sin
	}
	return math.Hypot(x, y) / float64(max(len(phases), 1))
}

// maxSets is the most tasks, each of some sets.
const maxSets = 64

// Couple takes sets of oscillators through time, on the CPU devices of a runtime that was
// opened with [Funcs] among its kernels, and sets their phases to those at the end. All
// sets have the same number of oscillators. It returns a pattern for each set, in their
// order, which [Of] takes: an oscillator spikes on its channel when its phase reaches a
// multiple of 2π from below. A set in which none does has no spikes. The same phases and
// frequencies give the same bits on any number of devices.
func (k Kuramoto) Couple(ctx context.Context, rt *weft.Runtime, sets []Oscillators) ([]Pattern, error) {
	if len(sets) == 0 {
		return nil, nil
	}
	if err := k.check(sets); err != nil {
		return nil, err
	}
	n := len(sets[0].Phase)
	words := k.Steps * ((n + 63) / 64)
	phase, frequency := make([]float64, 0, n*len(sets)), make([]float64, 0, n*len(sets))
	for _, s := range sets {
		phase, frequency = append(phase, s.Phase...), append(frequency, s.Frequency...)
	}
	spikes := make([]uint64, words*len(sets))
	g, err := k.graph(n, words, len(sets))
	if err != nil {
		return nil, fmt.Errorf("reservoir: %w", err)
	}
	if _, err := rt.Run(ctx, g, weft.Bind("frequencies", frequency), weft.Bind("phases", phase), weft.Bind("spikes", spikes)); err != nil {
		return nil, fmt.Errorf("reservoir: couple oscillators: %w", err)
	}
	patterns := make([]Pattern, len(sets))
	for i, s := range sets {
		copy(s.Phase, phase[i*n:])
		patterns[i] = k.pattern(spikes[i*words : (i+1)*words])
	}
	return patterns, nil
}

// check returns ErrParams for what cannot be coupled.
func (k Kuramoto) check(sets []Oscillators) error {
	const most = 1 << 20
	n := len(sets[0].Phase)
	switch {
	case !finite(k.Coupling) || !(k.Step > 0) || !finite(k.Step) || k.Steps < 1 || k.Steps > most:
		return fmt.Errorf("reservoir: couple oscillators by %v in %d steps of %v ms: %w: have 1 to %d steps of a time above zero", k.Coupling, k.Steps, k.Step, ErrParams, most)
	case n == 0 || float64(len(sets))*float64(k.Steps)*float64(n+63)/64 > 1<<28 || float64(len(sets))*float64(n) > 1<<28:
		return fmt.Errorf("reservoir: couple %d sets of %d oscillators in %d steps: %w: have at least one oscillator, and fewer steps at a time", len(sets), n, k.Steps, ErrParams)
	}
	for i, s := range sets {
		if len(s.Phase) != n || len(s.Frequency) != n {
			return fmt.Errorf("reservoir: set %d has %d phases and %d frequencies: %w: all have %d", i, len(s.Phase), len(s.Frequency), ErrParams, n)
		}
		for j := range s.Phase {
			if !finite(s.Phase[j]) || !finite(s.Frequency[j]) {
				return fmt.Errorf("reservoir: set %d: oscillator %d has phase %v and frequency %v: %w", i, j, s.Phase[j], s.Frequency[j], ErrParams)
			}
		}
	}
	return nil
}

// kuramotoKernel takes sets of oscillators through all steps: an item is a set. It is for
// CPU cores: with the means of sines and cosines the sum over pairs is one over
// oscillators, too little work for a GPU.
var kuramotoKernel = graph.GoKernel("reservoir.kuramoto", 1)

// kuramotoParams are its parameters.
type kuramotoParams struct {
	n, words, steps int
	coupling, step  float64
}

// graph has some sets in each task.
func (k Kuramoto) graph(n, words, sets int) (*graph.Graph, error) {
	var b graph.Builder
	frequencies := b.Data(graph.Data{Name: "frequencies", Bytes: int64(8 * n * sets), Input: true})
	phases := b.Data(graph.Data{Name: "phases", Bytes: int64(8 * n * sets), Input: true, Output: true})
	spikes := b.Data(graph.Data{Name: "spikes", Bytes: int64(8 * words * sets), Output: true})
	for _, s := range cutRows(sets, min(sets, maxSets)) {
		count := s.Hi - s.Lo
		use := func(d graph.DataID, each int, access graph.Access) graph.Use {
			return graph.Use{Data: d, Offset: int64(8 * each * s.Lo), Bytes: int64(8 * each * count), Access: access}
		}
		updates := float64(count) * float64(n) * float64(k.Steps)
		b.Add(graph.Task{
			Name:      fmt.Sprintf("oscillators %d-%d", s.Lo, s.Hi),
			Work:      graph.Work{Ops: 50 * updates, Bytes: 32 * updates},
			Workspace: int64(16 * n * count),
			Uses:      []graph.Use{use(frequencies, n, graph.Read), use(phases, n, graph.ReadWrite), use(spikes, words, graph.Write)},
			Steps: []graph.Step{graph.Step{Kernel: kuramotoKernel, Launch: graph.Grid(int64(count))}.With(
				kuramotoParams{n, words, k.Steps, k.Coupling, k.Step})},
		})
	}
	return b.Build()
}

// kuramotoNeed returns the need of the kernel for as many sets as there are phases.
func kuramotoNeed(c *weft.Call, p kuramotoParams) (n signature.Need, err error) {
	if err := signature.Positive([]string{"n", "words", "steps"}, p.n, p.words, p.steps); err != nil {
		return n, err
	}
	if want := signature.Product(p.steps, int(signature.Parts(p.n, 64))); int64(p.words) != want {
		return n, fmt.Errorf("%d words of spikes for %d steps of %d oscillators, which take %d", p.words, p.steps, p.n, want)
	}
	sets := len(c.Args[1]) / 8 / p.n
	if sets == 0 {
		return n, fmt.Errorf("phases of less than a set of %d oscillators", p.n)
	}
	n.Items = int64(sets)
	n.Elements[0], n.Elements[1] = signature.Product(sets, p.n), signature.Product(sets, p.n)
	n.Elements[2], n.Elements[3] = signature.Product(sets, p.words), signature.Product(2, sets, p.n)
	return n, nil
}

func kuramoto(c *weft.Call, p kuramotoParams, lo, hi int) {
	frequency, phase := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1])
	spikes, unit := weft.View[uint64](c.Args[2]), weft.View[float64](c.Args[3])
	across := p.words / p.steps
	for set := lo; set < hi; set++ {
		theta, omega := phase[set*p.n:(set+1)*p.n], frequency[set*p.n:(set+1)*p.n]
		sin, cos := unit[2*set*p.n:(2*set+1)*p.n], unit[(2*set+1)*p.n:(2*set+2)*p.n]
		for step := range p.steps {
			if c.Stopped() {
				return
			}
			var x, y float64 // means of cosines and sines
			for i, t := range theta {
				sin[i], cos[i] = math.Sincos(t)
				x, y = x+cos[i], y+sin[i]
			}
			x, y = x/float64(p.n), y/float64(p.n)
			row := spikes[set*p.words+step*across:][:across]
			clear(row)
			for i, t := range theta {
				// The mean of sin(θⱼ - θᵢ), by the sine of a difference.
				pull := float64(y*cos[i]) - float64(x*sin[i])
				next := t + float64(p.step*(omega[i]+float64(p.coupling*pull)))
				if math.Floor(next/(2*math.Pi)) > math.Floor(t/(2*math.Pi)) {
					row[i/64] |= 1 << (i % 64)
				}
				theta[i] = next
			}
		}
	}
}

// pattern makes spikes of a bit for every step and oscillator.
func (k Kuramoto) pattern(words []uint64) Pattern {
	p := Pattern{Duration: k.Step * float64(k.Steps)}
	across := len(words) / k.Steps
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			p.Spikes = append(p.Spikes, Spike{
				Channel: i%across*64 + bits.TrailingZeros64(w),
				Time:    k.Step * (float64(i/across) + 0.5),
			})
		}
	}
	return p
}
