package plan

import (
	"math"
	"slices"
)

// Judged is a prediction of a run that was recorded, made without knowing that run.
type Judged struct {
	Kind     Held    `json:"held"`
	Label    string  `json:"label"` // of the recording
	Workload string  `json:"workload"`
	Job      string  `json:"job"`
	Seconds  float64 `json:"seconds"` // what it took
	Median   float64 `json:"median"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Held says what a prediction was made without.
type Held string

const (
	// HeldSize leaves out one size that has smaller and larger neighbours.
	HeldSize Held = "size between others"
	// HeldEnd leaves out the smallest or largest size.
	HeldEnd Held = "smallest or largest size"
	// HeldHalf leaves out every other size of a workload at once.
	HeldHalf Held = "every other size"
	// HeldWorkload leaves out all runs of a workload, on every machine.
	HeldWorkload Held = "workload"
	// HeldMachine leaves out all runs of a machine.
	HeldMachine Held = "machine"
)

// Off is by which part of the real time the prediction was off.
func (j *Judged) Off() float64 { return math.Abs(j.Median/j.Seconds - 1) }

// Covered reports whether the real time is within the interval.
func (j *Judged) Covered() bool { return j.Low <= j.Seconds && j.Seconds <= j.High }

// HalfWidth is half the width of the interval, relative to the median.
func (j *Judged) HalfWidth() float64 { return (j.High - j.Low) / 2 / j.Median }

// Evaluate predicts every stable point of recordings without what each Held says, and
// returns the predictions in a fixed order. Points that were left out of a prediction are in
// no part of it: neither in the curve nor in the choice of its shape, nor in the interval.
func Evaluate(recordings []*Recording) (out []Judged) {
	whole := Learn(recordings, nil)
	unknown := make(map[string]*Model) // by workload that never ran
	for i, r := range whole.recordings {
		others := whole.withoutMachine(i)
		for _, name := range r.workloads() {
			points := r.seriesOf(name)
			if len(points) > leastPoints {
				out = append(out, whole.heldSizes(r, name, points)...)
				out = append(out, whole.heldHalf(r, name, points)...)
			}
			if unknown[name] == nil {
				unknown[name] = whole.withoutWorkload(name)
			}
			without := unknown[name]
			for _, k := range points {
				n := &r.stable[k]
				if y, ok := without.fromOthers(n, r.Machine, i, name); ok {
					out = append(out, r.judged(HeldWorkload, k, y, spreadOf(without.others)))
				}
				if y, ok := others.fromElsewhere(n, r.Machine, -1); ok {
					out = append(out, r.judged(HeldMachine, k, y, spreadOf(others.elsewhere)))
				}
			}
		}
	}
	return out
}

// seriesOf returns the positions of a workload's points, by size, each size once.
func (r *recorded) seriesOf(workload string) (at []int) {
	for i := range r.stable {
		if r.stable[i].Workload == workload {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(a, b int) int {
		switch x, y := sizeOf(&r.stable[a]), sizeOf(&r.stable[b]); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return slices.CompactFunc(at, func(a, b int) bool { return sizeOf(&r.stable[a]) == sizeOf(&r.stable[b]) })
}

// judged makes a prediction on logarithms into a Judged.
func (r *recorded) judged(kind Held, k int, y, half float64) Judged {
	n := &r.stable[k]
	return Judged{kind, r.Label, n.Workload, n.Name, r.took[k], math.Exp(y), math.Exp(y - half), math.Exp(y + half)}
}

// scoresBut returns the scores of all curves but one.
func (m *Model) scoresBut(r *recorded, workload string) (out []score) {
	for _, o := range m.recordings {
		for _, name := range o.workloads() {
			if c := o.curves[name]; c != nil && (o != r || name != workload) {
				out = append(out, c.seen...)
			}
		}
	}
	return out
}

// held predicts some points of a workload from the others.
func (m *Model) held(r *recorded, workload string, points, out []int, kind func(k int) Held) (judged []Judged) {
	rest := new(series)
	for _, k := range points {
		if !slices.Contains(out, k) {
			rest.add(&r.stable[k], r.took[k])
		}
	}
	if len(rest.x) < leastPoints {
		return nil
	}
	c := rest.fit()
	seen := append(m.scoresBut(r, workload), c.seen...)
	for _, k := range out {
		n := &r.stable[k]
		x := sizeOf(n)
		half := width(seen, c.reach(x) > 0) * c.scale(x, -1)
		judged = append(judged, r.judged(kind(k), k, c.at(x, termsOf(n)), half))
	}
	return judged
}

// heldSizes leaves one size out after another.
func (m *Model) heldSizes(r *recorded, workload string, points []int) (out []Judged) {
	for _, k := range points {
		out = append(out, m.held(r, workload, points, []int{k}, func(k int) Held {
			if k == points[0] || k == points[len(points)-1] {
				return HeldEnd
			}
			return HeldSize
		})...)
	}
	return out
}

// heldHalf leaves every other size out, but not the smallest and largest.
func (m *Model) heldHalf(r *recorded, workload string, points []int) []Judged {
	var out []int
	for i := 1; i < len(points)-1; i += 2 {
		out = append(out, points[i])
	}
	return m.held(r, workload, points, out, func(int) Held { return HeldHalf })
}

// withoutWorkload returns the model as if a workload had never run.
func (m *Model) withoutWorkload(name string) *Model {
	var rest []*Recording
	for _, r := range m.recordings {
		c := *r.Recording
		c.Points = slices.DeleteFunc(slices.Clone(c.Points), func(p Point) bool { return p.Workload == name })
		rest = append(rest, &c)
	}
	return Learn(rest, nil)
}

// withoutMachine returns the model without a recording.
func (m *Model) withoutMachine(i int) *Model {
	var rest []*Recording
	for k, r := range m.recordings {
		if k != i {
			rest = append(rest, r.Recording)
		}
	}
	return Learn(rest, nil)
}

// Summary holds the accuracy of a set of predictions.
type Summary struct {
	Predictions int `json:"predictions"`
	// Within is the part of them that was within 10 % of the real time, Covered the part
	// whose interval held it, and HalfWidth the median of the intervals' half widths.
	Within    float64 `json:"within_10_percent"`
	Covered   float64 `json:"covered"`
	HalfWidth float64 `json:"half_width"`
	Median    float64 `json:"median_off"` // by which part predictions were off
	Worst     float64 `json:"worst_off"`
}

// Summarise counts.
func Summarise(all []Judged) (s Summary) {
	if len(all) == 0 {
		return s
	}
	var off, half []float64
	for i := range all {
		j := &all[i]
		off, half = append(off, j.Off()), append(half, j.HalfWidth())
		if j.Off() <= 0.1 {
			s.Within++
		}
		if j.Covered() {
			s.Covered++
		}
	}
	n := float64(len(all))
	return Summary{len(all), s.Within / n, s.Covered / n, middle(half), middle(off), slices.Max(off)}
}
