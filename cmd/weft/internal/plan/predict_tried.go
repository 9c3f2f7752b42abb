package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/machine"
)

// tried holds trials: runs on one machine, made to plan a job, of the job itself or of smaller ones
// like it, ordered by size.
type tried struct {
	on     *machine.Machine
	points []Point
}

// Tried returns the model with trials on a machine: points of the job to be planned, or of smaller
// jobs of the same workload. They need not be stable, unlike recorded points. A recording of the
// workload on that machine takes precedence over trials.
func (m *Model) Tried(on *machine.Machine, trials []Point) *Model {
	out := *m
	out.tried = &tried{on: on, points: slices.Clone(trials)}
	slices.SortStableFunc(out.tried.points, func(a, b Point) int { return cmp.Compare(a.Ops+a.Bytes, b.Ops+b.Bytes) })
	return &out
}

const (
	// triedFloor is the least error expected of a prediction from trials, as a logarithm. It is large
	// because there are few runs and the machine may be busy with something else.
	triedFloor = 0.25
	// triedReach is the growth of that error per unit of the logarithm of job size over trial size.
	triedReach = 0.06
	// triedDrift limits extrapolation: a change of efficiency between two trials is assumed to continue
	// for at most this many times their distance, on logarithms.
	triedDrift = 2
)

// from predicts a job, on logarithms, by trials on a machine: its roofline time, multiplied by the
// ratio of measured time to roofline time in trials near its size. The error is the spread of their
// runs; beyond the largest trial it also grows with the change of that ratio between trials.
func (t *tried) from(n *Need, asked, on *machine.Machine) (y, half float64, why string, ok bool) {
	if t == nil || t.on != asked {
		return 0, 0, "", false
	}
	var x, off []float64
	noise, least, most := 0.0, math.Inf(1), 0.0
	for i := range t.points {
		p := &t.points[i]
		need := p.Need()
		roof := partsOf(&need, on).total()
		if p.Workload != n.Workload || roof <= 0 || len(x) > 0 && sizeOf(&need) <= x[len(x)-1] {
			continue
		}
		x, off = append(x, sizeOf(&need)), append(off, math.Log(p.Median()/roof))
		noise = max(noise, math.Log(slices.Max(p.Seconds)/slices.Min(p.Seconds)))
		least, most = min(least, p.Median()), max(most, p.Median())
	}
	roof := partsOf(n, on).total()
	if len(x) == 0 || roof <= 0 {
		return 0, 0, "", false
	}
	at := sizeOf(n)
	last := len(x) - 1
	factor := chord(x, off, at, false)
	reach := max(at-x[last], x[0]-at, 0)
	half = triedFloor + noise/2 + triedReach*reach
	for i := 1; i <= last; i++ {
		part := 0.5 // between two trials the error is at most half of their difference
		if reach > 0 {
			part = min(reach/(x[i]-x[i-1]), triedDrift)
		}
		half = max(half, triedFloor+noise/2+triedReach*reach+part*math.Abs(off[i]-off[i-1])*weightOf(i, last))
	}
	why = fmt.Sprintf("tried here: %.3g times what the rates of the machine say, by runs of %s", math.Exp(factor), secondsText(most))
	if least < most {
		why = fmt.Sprintf("tried here: %.3g times what the rates of the machine say, by runs of %s to %s", math.Exp(factor), secondsText(least), secondsText(most))
	}
	if reach > 0.01 && at > x[last] {
		why += fmt.Sprintf(", the largest %.3g times smaller", math.Exp(reach))
	}
	return math.Log(roof) + factor, half, why, true
}

// weightOf returns the weight of a change of efficiency between two trials in the error for larger
// jobs: 1 for the last change and 0.5 for earlier ones.
func weightOf(i, last int) float64 {
	if i == last {
		return 1
	}
	return 0.5
}

// secondsText writes a short time with a unit.
func secondsText(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g µs", s*1e6)
}
