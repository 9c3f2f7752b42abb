package vulkan

import (
	"math/bits"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// variant is one implementation and launch shape of a kernel.
type variant struct {
	impl   *graph.Impl
	module *module
	// group is the invocations of a group where the shader leaves that open and
	// neither the implementation nor the step names it; 0 where one does.
	group uint32
}

// is reports whether a decision is for this variant.
func (v *variant) is(t driver.Tuned) bool {
	return v.impl.Entry == t.Entry && v.threads() == t.Block && v.module.id == t.Hash
}

// threads is the invocations of a group, 0 where the step names them.
func (v *variant) threads() int {
	if v.group > 0 {
		return int(v.group)
	}
	return int(v.impl.Block[0])
}

// groups are the sizes tried for shaders that leave theirs open, as far as the
// device has them.
var groups = []uint32{64, 128, 256, 32}

// measureRuns is the number of times each variant of a kernel is measured for a size
// class before the fastest is kept. A variant that takes hopeless times as long as
// another is dropped after its first time.
const (
	measureRuns = 3
	hopeless    = 1.5
)

// timing holds the measured times of a kernel's variants for steps of one size class.
// The device's build guards it.
type timing struct {
	decided bool
	best    int
	runs    []int
	fastest []time.Duration
}

// measurement is a launch whose duration is measured.
type measurement struct {
	kernel  *kernel
	class   int
	variant int
}

// measurementOf returns what the time of a launch decides: nothing unless all its steps
// are run by one variant at one size, because only the time of all steps together is
// measured.
func measurementOf(steps []prepared) *measurement {
	if len(steps) == 0 {
		return nil
	}
	first := steps[0].measures
	for _, p := range steps[1:] {
		if first == nil || p.measures == nil || *p.measures != *first {
			return nil
		}
	}
	return first
}

// classOf is the size class of a step: the binary logarithm of its items.
func classOf(l graph.Launch) int {
	items := uint64(1)
	for _, n := range l.Grid {
		high, low := bits.Mul64(items, uint64(max(n, 1)))
		if high > 0 {
			return 64
		}
		items = low
	}
	return bits.Len64(items) - 1
}

// timing returns the measured times of a kernel at a size class. The caller holds
// build.
func (d *device) timing(k *kernel, class int) *timing {
	t := k.timings[class]
	if t == nil {
		n := len(k.variants)
		t = &timing{runs: make([]int, n), fastest: make([]time.Duration, n)}
		known, _ := d.tuned.Of(k.name, class)
		t.best = slices.IndexFunc(k.variants, func(v variant) bool { return v.is(known) })
		if t.decided = t.best >= 0 || n == 1; t.best < 0 {
			t.best = 0
		}
		k.timings[class] = t
	}
	return t
}

// pick returns the variant to run: the fastest, or the one measured least.
func (t *timing) pick() int {
	if t.decided {
		return t.best
	}
	return slices.Index(t.runs, slices.Min(t.runs))
}

// without rules a variant out, which the device's limits forbid, also where an
// earlier run had decided for it: the others are measured then.
func (t *timing) without(variant int) {
	t.decided = false
	t.runs[variant], t.fastest[variant] = measureRuns, 1<<62
	t.decide()
}

// clone returns a copy of the times at this moment.
func (t *timing) clone() timing {
	return timing{t.decided, t.best, slices.Clone(t.runs), slices.Clone(t.fastest)}
}

// decide keeps the fastest once all have been tried, or only one is left.
func (t *timing) decide() {
	if slices.Min(t.runs) == 0 {
		return
	}
	t.best = slices.Index(t.fastest, slices.Min(t.fastest))
	left := 0
	for i, took := range t.fastest {
		if float64(took) > hopeless*float64(t.fastest[t.best]) {
			t.runs[i] = measureRuns
		} else {
			left++
		}
	}
	t.decided = left == 1 || slices.Min(t.runs) >= measureRuns
}

// measured takes the time of a launch that ended well.
func (d *device) measured(tr *measurement, took time.Duration) {
	d.build.Lock()
	defer d.build.Unlock()
	t := tr.kernel.timings[tr.class]
	if t.decided {
		return
	}
	if i := tr.variant; t.runs[i] == 0 || took < t.fastest[i] {
		t.fastest[i] = took
	}
	t.runs[tr.variant]++
	if t.decide(); t.decided {
		best := &tr.kernel.variants[t.best]
		d.tuned.Take(driver.Tuned{
			Kernel: tr.kernel.name, Hash: best.module.id, Class: tr.class, Entry: best.impl.Entry, Block: best.threads(), NS: float64(t.fastest[t.best]),
		})
	}
}

// Tuning returns the decisions taken so far, in a fixed order. Their hash is that
// of the variant's shader.
func (d *device) Tuning() []driver.Tuned {
	d.build.Lock()
	defer d.build.Unlock()
	return d.tuned.List()
}

// Tune takes decisions of an earlier run, for kernels that have not run yet.
func (d *device) Tune(ts []driver.Tuned) {
	d.build.Lock()
	defer d.build.Unlock()
	d.tuned.Take(ts...)
}

// variants lists the launch shapes of an implementation whose shader was loaded.
func (d *device) variants(impl *graph.Impl, m *module) (out []variant) {
	if !m.open[0] || impl.Block[0] != 0 || impl.Per[0] != 0 {
		return []variant{{impl, m, 0}}
	}
	for _, g := range groups {
		if g <= d.limits.groupSize[0] && g <= d.limits.invocations {
			out = append(out, variant{impl, m, g})
		}
	}
	return out
}

// shape returns the launch of a step with the variant.
func (v *variant) shape(l graph.Launch) graph.Launch {
	named := l.Block[0] != 0
	l = v.impl.Shape(l)
	if v.group > 0 && !named {
		l.Grid[0], l.Block[0] = (l.Grid[0]-1)/v.group+1, v.group
	}
	return l
}
