package fold

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/workload/protein"

	"github.com/weft-run/weft/workload"
)

// profileBins is into how many bins the share of native contacts is counted.
const profileBins = 30

// Profile is the free energy along the share of native contacts at a temperature: minus the
// temperature times the logarithm of how often it is seen, from the lowest on.
type Profile struct {
	Temperature float64   `json:"temperature"`
	Q           []float64 `json:"q"` // middles of the bins that were seen
	Free        []float64 `json:"free_energy"`
}

// Profile returns the free energy at a temperature of the ladder or in between, from the
// rounds of equilibrium. Replicas that exchange temperatures have the weights that [Run.Heat]
// gives their energies; without exchange all have the same temperature.
func (r *Run) Profile(temperature float64) (*Profile, error) {
	ladder := r.at(r.Rounds() - 1)
	low, high := ladder[0], ladder[len(ladder)-1]
	if !(temperature >= low && temperature <= high) {
		return nil, fmt.Errorf("fold: temperature %v: %w: the replicas have %v to %v", temperature, workload.ErrConfig, low, high)
	}
	from := r.equilibrium().from
	weight := func(float64) float64 { return 0 }
	if r.c.exchanges() {
		all, temperatures, err := usable(r.energies(from, 1, func(int, int) int { return 0 }), ladder)
		if err != nil {
			return nil, err
		}
		weight = density(all[0], temperatures, nil).weight(temperature)
	}
	logs := make([]float64, profileBins)
	for b := range logs {
		logs[b] = math.Inf(-1)
	}
	for i := from; i < r.Rounds(); i++ {
		for k := range r.c.Replicas {
			f := r.Frame(i, k)
			if !(math.Abs(f.Energy) <= maxEnergy) { // as usable has it
				continue
			}
			b := min(int(f.Q*profileBins), profileBins-1)
			logs[b] = addLogs(logs[b], weight(f.Energy))
		}
	}
	p, most := &Profile{Temperature: temperature}, math.Inf(-1)
	for _, l := range logs {
		most = max(most, l)
	}
	for b, l := range logs {
		if !math.IsInf(l, -1) {
			p.Q, p.Free = append(p.Q, (float64(b)+0.5)/profileBins), append(p.Free, temperature*(most-l))
		}
	}
	return p, nil
}

// addLogs is the logarithm of the sum of two numbers whose logarithms are given.
func addLogs(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// contactFrames is about the number of frames in which contacts are counted.
const contactFrames = 1000

// Reached is the share of frames in which two beads are in contact.
type Reached struct {
	I      int     `json:"i"`
	J      int     `json:"j"`
	Share  float64 `json:"share"`  // of the frames
	Native bool    `json:"native"` // it is a contact of the native structure
}

// Contacts are the contacts at the lowest temperature in the rounds of equilibrium: all
// native ones, which are formed as Q counts them, and others that are within the distance that
// native contacts have at most, in some frame.
func (r *Run) Contacts() []Reached {
	n, from := r.model.Beads(), r.equilibrium().from
	count := make(map[[2]int]int)
	native := make(map[[2]int]bool, len(r.model.Contacts))
	for _, c := range r.model.Contacts {
		native[[2]int{c.I, c.J}], count[[2]int{c.I, c.J}] = true, 0
	}
	x, frames := make([]float64, 3*n), 0
	for f := from; f < r.Rounds(); f += (r.Rounds()-from)/contactFrames + 1 {
		frames++
		for k := range x {
			x[k] = float64(r.trace[3*n*f+k])
		}
		for c := range protein.Near(x, protein.ContactDistance) {
			if at := [2]int{c.I, c.J}; !native[at] && r.model.Interact(c.I, c.J) {
				count[at]++
			}
		}
		for _, c := range r.model.Contacts {
			if distance(x, c.I, c.J) < protein.Formed*c.Distance {
				count[[2]int{c.I, c.J}]++
			}
		}
	}
	out := make([]Reached, 0, len(count))
	for at, seen := range count {
		out = append(out, Reached{at[0], at[1], float64(seen) / float64(frames), native[at]})
	}
	slices.SortFunc(out, func(a, b Reached) int { return cmp.Or(a.I-b.I, a.J-b.J) })
	return out
}

// distance returns the distance of two beads.
func distance(x []float64, i, j int) float64 {
	d2 := 0.0
	for c := range 3 {
		d := x[3*i+c] - x[3*j+c]
		d2 += d * d
	}
	return math.Sqrt(d2)
}

// BestPositions are the coordinates of [Run.Best] of all rounds so far, moved and turned to
// where they are nearest to the native structure; nil before the first round.
func (r *Run) BestPositions() []float64 {
	n := 3 * r.model.Beads()
	if math.IsInf(r.best[n], 1) {
		return nil
	}
	return protein.Superposed(r.best[:n], r.model.Native)
}
