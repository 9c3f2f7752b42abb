package catalog

import (
	"context"
	"maps"
	"math"
	"math/bits"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft/workload"
)

// Growth says how to make a workload's job larger.
type Growth struct {
	Flags []string // that grow together, in proportion
	Power float64  // the work grows with the first flag to this power
	Most  int      // the largest value of the first flag
}

// By grows sizes so that the work becomes more times as much, with the first flag at
// most at most. It reports whether the first flag grew.
func (g Growth) By(sizes map[string]int, more float64, most int) bool {
	first := sizes[g.Flags[0]]
	for name, n := range g.to(sizes, min(float64(first)*math.Pow(more, 1/g.Power), float64(most))) {
		sizes[name] = max(n, sizes[name])
	}
	return sizes[g.Flags[0]] > first
}

// Times returns the sizes for more times the work.
func (g Growth) Times(sizes map[string]int, more float64) map[string]int {
	return g.to(sizes, float64(sizes[g.Flags[0]])*math.Pow(more, 1/g.Power))
}

// to returns sizes with the first flag at first and the others in proportion. Sizes that
// are multiples of 64 stay so, as automata needs them. Counts, with which the work grows in
// proportion, are below 512 multiples of a sixteenth to an eighth of them alone.
func (g Growth) to(sizes map[string]int, first float64) map[string]int {
	out := maps.Clone(sizes)
	for _, name := range g.Flags {
		n := int(math.Ceil(float64(sizes[name]) * first / float64(sizes[g.Flags[0]])))
		if sizes[name]%64 == 0 {
			round := 64
			if g.Power == 1 {
				round = 1 << min(max(bits.Len(uint(n))-4, 0), 6)
			}
			n = (n + round - 1) / round * round
		}
		out[name] = n
	}
	return out
}

// Sized makes a workload's job with some sizes set. It adds to sizes the flags of its
// growth that are not there, at their defaults.
func (w Entry) Sized(ctx context.Context, sizes map[string]int) (workload.Job, error) {
	o, err := w.order(sizes)
	if err != nil {
		return nil, err
	}
	return o.Job(ctx)
}

// Defaults returns the flags of growth at their defaults.
func (w Entry) Defaults() (map[string]int, error) {
	sizes := make(map[string]int)
	_, err := w.order(sizes)
	return sizes, err
}

// SizedAt returns the sizes of a job whose first flag of growth has a value, with the
// others in proportion to their defaults.
func (w Entry) SizedAt(first int) (map[string]int, error) {
	sizes, err := w.Defaults()
	if err != nil {
		return nil, err
	}
	return w.Growth.to(sizes, float64(first)), nil
}

// order is Sized before the job is made.
func (w Entry) order(sizes map[string]int) (Order, error) {
	f := pflag.NewFlagSet(w.Name, pflag.ContinueOnError)
	o := w.Flags(f)
	for _, name := range w.Growth.Flags {
		if n, ok := sizes[name]; ok {
			if err := f.Set(name, strconv.Itoa(n)); err != nil {
				return o, err
			}
			continue
		}
		n, err := f.GetInt(name)
		if err != nil {
			return o, err
		}
		sizes[name] = n
	}
	return o, nil
}

// Part makes a job like one that flags describe, with about a part of its work: the flags of growth are
// smaller and the others are the same.
func (w Entry) Part(ctx context.Context, given *pflag.FlagSet, part float64) (workload.Job, error) {
	f := pflag.NewFlagSet(w.Name, pflag.ContinueOnError)
	o := w.Flags(f)
	var err error
	f.VisitAll(func(flag *pflag.Flag) {
		// One without a value of its own sets others, as --size does.
		if g := given.Lookup(flag.Name); g.Changed && g.Value.String() != "" && err == nil {
			err = f.Set(flag.Name, g.Value.String())
		}
	})
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int)
	for _, name := range w.Growth.Flags {
		if sizes[name], err = given.GetInt(name); err != nil {
			return nil, err
		}
	}
	for name, n := range w.Growth.Times(sizes, part) {
		if err := f.Set(name, strconv.Itoa(n)); err != nil {
			return nil, err
		}
	}
	return o.Job(ctx)
}
