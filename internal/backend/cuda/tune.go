package cuda

import (
	"slices"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
)

// trials is the number of times each variant of a kernel is measured for a size
// class before the fastest is kept.
const trials = 3

// timing holds the measured times of a kernel for tasks of one size class.
type timing struct {
	ns      float64 // moving average of what it takes; 0 unknown
	decided bool
	best    int
	runs    []int     // of each variant
	fastest []float64 // ns, of each variant
}

// saw takes a measurement of a whole launch.
func (t *timing) saw(ns float64) {
	if t.ns == 0 {
		t.ns = ns
		return
	}
	t.ns += 0.2 * (ns - t.ns)
}

// pick returns the variant to run, and whether to measure it.
func (t *timing) pick(n int) (variant int, measure bool) {
	if t.decided {
		return t.best, false
	}
	if len(t.runs) != n {
		t.runs, t.fastest = make([]int, n), make([]float64, n)
	}
	least := 0
	for i := range t.runs {
		if t.runs[i] < t.runs[least] {
			least = i
		}
	}
	return least, true
}

// measured takes the time of a variant and decides when all have been tried.
func (t *timing) measured(variant int, ns float64) (decided bool) {
	if t.decided || variant >= len(t.runs) {
		return false
	}
	if t.runs[variant] == 0 || ns < t.fastest[variant] {
		t.fastest[variant] = ns
	}
	t.runs[variant]++
	if slices.Min(t.runs) < trials {
		return false
	}
	t.best = slices.Index(t.fastest, slices.Min(t.fastest))
	t.decided = true
	return true
}

// of returns the variants a class chooses among.
func (k *kernel) of(class int) []*variant {
	if class >= classes {
		return k.variants
	}
	return k.shaped
}

// timing returns the measured times of a kernel at a size class.
func (d *device) timing(k *kernel, class int) *timing {
	t := k.classes[class]
	if t != nil {
		return t
	}
	t = &timing{}
	k.classes[class] = t
	d.mu.Lock()
	known, ok := d.tuning.Of(k.name, class)
	d.mu.Unlock()
	if ok && known.Hash == k.hash {
		t.best = slices.IndexFunc(k.of(class), func(v *variant) bool { return v.impl.Entry == known.Entry && int(v.block) == known.Block })
		t.decided = t.best >= 0
	}
	return t
}

// Tuning returns the decisions taken so far, in a fixed order.
func (d *device) Tuning() []driver.Tuned {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tuning.List()
}

// Tune takes decisions of an earlier run, for kernels that have not run yet.
func (d *device) Tune(ts []driver.Tuned) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tuning == nil {
		d.tuning = make(driver.Decisions)
	}
	d.tuning.Take(ts...)
}

// probe measures one launch at a time, by events before and after it.
type probe struct {
	events  [2]uintptr
	of      *op // nil: free
	kernel  *kernel
	timing  *timing
	variant int
}

// begin starts a measurement unless one is under way.
func (p *probe) begin(d *device, o *op, s *stream, k *kernel, t *timing, variant int) bool {
	if p.of != nil {
		return false
	}
	a := d.api
	for i := range p.events {
		if p.events[i] == 0 {
			if a.code(d.f, &a.eventCreate, d.f.at(0), 0) != 0 {
				return false
			}
			p.events[i] = uintptr(d.f.out[0])
		}
	}
	if a.code(d.f, &a.eventRecord, p.events[0], s.handle) != 0 {
		return false
	}
	*p = probe{p.events, o, k, t, variant}
	o.probed = true
	return true
}

func (p *probe) end(d *device, s *stream) {
	if d.api.code(d.f, &d.api.eventRecord, p.events[1], s.handle) != 0 {
		p.of.probed = false
		p.of = nil
	}
}

// read takes the measurement of an operation that is complete.
func (p *probe) read(d *device, o *op) {
	if p.of != o {
		return
	}
	p.of = nil
	a := d.api
	if o.err != nil || a.code(d.f, &a.eventElapsed, d.f.at(0), p.events[0], p.events[1]) != 0 {
		return
	}
	ns := float64(*(*float32)(unsafe.Pointer(&d.f.out[0]))) * 1e6
	if !p.timing.measured(p.variant, ns) {
		return
	}
	t := driver.Tuned{Kernel: p.kernel.name, Hash: p.kernel.hash, Class: slices.Index(p.kernel.classes[:], p.timing)}
	best := p.kernel.of(t.Class)[p.timing.best]
	t.Entry, t.Block = best.impl.Entry, int(best.block)
	t.NS = p.timing.fastest[p.timing.best]
	d.Tune([]driver.Tuned{t})
}

func (p *probe) close(d *device, f *frame) {
	for _, e := range p.events {
		if e != 0 {
			_ = d.api.do(f, &d.api.eventDestroy, e) // nothing waits for it any more
		}
	}
}
