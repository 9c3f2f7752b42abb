package machine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// maxTrials is the most works, each on some devices, that a History remembers runs of.
	// Beyond it, the one that was not run for longest is dropped.
	maxTrials = 1024
	// trialDecay is the factor by which the weight of a run shrinks when the next ends. Times
	// of runs that disturb themselves have a long tail, so that many are needed for a mean.
	trialDecay = 0.9
	// trialSkip is the number of runs at first that are left out once there are others: they
	// touch fresh memory and cold code, and are cut by guesses.
	trialSkip = 2
	// trialDoubt is the relative error of a mean of one run, of which nothing shows it.
	trialDoubt = 0.3
)

// Trials summarises the durations of the last runs of some work on a set of devices.
type Trials struct {
	// Runs is the number of runs that are remembered. The first two are left out once there are others.
	Runs int
	// Mean is their mean duration, in which later runs weigh more, and Doubt its standard
	// error.
	Mean, Doubt time.Duration
	// Since is the number of runs of the same work on other sets of devices after them.
	Since int
}

// trial is the record from which Trials are computed.
type trial struct {
	name  string
	size  float64
	last  uint64    // when it was last observed, by the history's clock
	seen  int64     // runs ever
	since int64     // runs on other devices after the last
	took  []float64 // the last runs, in nanoseconds, oldest first
}

// Trials returns what runs of some work on some devices took. name says which work and
// devices, size how large it is.
func (h *History) Trials(name string, size float64) Trials {
	t := h.trial(name, size)
	if t == nil {
		return Trials{}
	}
	return t.sum()
}

// ObserveTrial learns that work of a size was run on some devices and took so long. others
// names the same work on the devices that it was not run on. A duration of zero or less is
// ignored.
func (h *History) ObserveTrial(name string, size float64, took time.Duration, others ...string) {
	if took <= 0 || badRate(size) {
		return
	}
	h.clock++
	for _, o := range others {
		if t := h.trial(o, size); t != nil {
			t.since++
		}
	}
	t := h.trial(name, size)
	if t == nil {
		if len(h.trials) == maxTrials {
			oldest := 0
			for i := range h.trials {
				if h.trials[i].last < h.trials[oldest].last {
					oldest = i
				}
			}
			h.trials = slices.Delete(h.trials, oldest, oldest+1)
		}
		h.trials = append(h.trials, trial{name: name, size: size})
		t = &h.trials[len(h.trials)-1]
	}
	if len(t.took) == maxRecent || t.seen > 0 && t.seen <= trialSkip {
		t.took = t.took[:copy(t.took, t.took[1:])]
	}
	t.took = append(t.took, float64(took))
	t.last, t.since = h.clock, 0
	t.seen++
}

// trial returns the memory of some work on some devices, nil if there is none.
func (h *History) trial(name string, size float64) *trial {
	for i := range h.trials {
		if t := &h.trials[i]; t.size == size && t.name == name {
			return t
		}
	}
	return nil
}

// sum makes a mean of the runs. What a run takes once in a while, because something came
// between, is part of what runs take; one wild sample is not (see shape.settle).
func (t *trial) sum() Trials {
	out := Trials{Runs: len(t.took), Since: int(t.since)}
	sorted := slices.Clone(t.took)
	slices.Sort(sorted)
	n := len(sorted)
	mid := math.Log(sorted[n/2]*sorted[(n-1)/2]) / 2
	weight, mean, kept := 0.0, 0.0, 0
	each := func(do func(w, x float64)) {
		w := 1.0
		for i := n - 1; i >= 0; i-- {
			if math.Abs(math.Log(t.took[i])-mid) <= wild {
				do(w, t.took[i])
			}
			w *= trialDecay
		}
	}
	each(func(w, x float64) { weight, mean, kept = weight+w, mean+w*x, kept+1 })
	if kept == 0 { // two camps far apart, and no telling which is the wild one
		out.Mean = nanoseconds(math.Exp(mid))
		out.Doubt = out.Mean
		return out
	}
	mean /= weight
	out.Mean, out.Doubt = nanoseconds(mean), nanoseconds(mean*trialDoubt)
	if kept > 1 {
		squares := 0.0
		each(func(w, x float64) { squares += w * w * (x - mean) * (x - mean) })
		out.Doubt = nanoseconds(math.Sqrt(squares*float64(kept)/float64(kept-1)) / weight)
	}
	return out
}

type savedTrial struct {
	Name  string    `json:"name"`
	Size  float64   `json:"size"`
	Last  uint64    `json:"last"`
	Seen  int64     `json:"seen"`
	Since int64     `json:"since,omitempty"`
	Took  []float64 `json:"took"`
}

func (h *History) saveTrials() (out []savedTrial) {
	for i := range h.trials {
		t := &h.trials[i]
		out = append(out, savedTrial{t.name, t.size, t.last, t.seen, t.since, t.took})
	}
	return out
}

// loadTrials takes over what saveTrials returned.
func (h *History) loadTrials(in []savedTrial) error {
	h.trials = nil
	if len(in) > maxTrials {
		return fmt.Errorf("more than %d trials", maxTrials)
	}
	for i := range in {
		s := &in[i]
		outside := func(ns float64) bool { return !(ns >= 1 && ns < math.MaxInt64) }
		switch n := len(s.Took); {
		case badRate(s.Size) || s.Last == 0 || s.Since < 0 || max(s.Since, s.Seen) > 1<<62:
			return fmt.Errorf("trial %d: bad size or time", i)
		case n == 0 || n > maxRecent || int64(n) > s.Seen || slices.ContainsFunc(s.Took, outside):
			return fmt.Errorf("trial %d: bad samples", i)
		case h.trial(s.Name, s.Size) != nil:
			return errors.New("a trial is there twice")
		}
		h.trials = append(h.trials, trial{s.Name, s.Size, s.Last, s.Seen, s.Since, s.Took})
		h.clock = max(h.clock, s.Last)
	}
	return nil
}
