package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weft-run/weft/machine"
)

// Model predicts durations from recorded runs. It is a Predictor:
//
//	runs of the workload on this very machine  ─► the curve through them        (measured)
//	trials of the job on this very machine     ─► as many times the roofline    (measured)
//	runs of the workload on another machine    ─► scaled by the rates of both
//	runs of other workloads                    ─► the roofline, as far off as theirs
//	no runs                                    ─► the roofline
//
// and for several devices the ratio of two simulations of the job, on all devices and on
// one, so that what devices wait for and send one another is in the number. Intervals are
// what predictions of the same kind were off by when runs that were recorded were left out.
//
// A Model does not change and may be used concurrently if the functions of its works may.
type Model struct {
	recordings []*recorded
	works      map[string]Work
	seen       []score   // of all curves
	elsewhere  []float64 // errors of predictions from another machine, on logarithms
	others     []float64 // errors of predictions from other workloads
	tried      *tried    // nil for none
}

// recorded is a recording with what was learned from it.
type recorded struct {
	*Recording
	stable []Need    // of the points that count
	took   []float64 // their seconds
	curves map[string]*curve
	// efficiency is by which factor a workload was slower than the roofline, as the median
	// of logarithms, by workload.
	efficiency map[string]float64
}

// Learn makes a model of recordings, of which only stable points count. Recordings of one
// label and the same devices are one. works are jobs that
// can be simulated, by the names of their needs.
func Learn(recordings []*Recording, works map[string]Work) *Model {
	m := &Model{works: works}
	for _, r := range merged(recordings) {
		m.recordings = append(m.recordings, learned(r))
	}
	for _, r := range m.recordings {
		for _, name := range r.workloads() {
			if c := r.curves[name]; c != nil {
				m.seen = append(m.seen, c.seen...)
			}
		}
	}
	for i, r := range m.recordings {
		for k := range r.stable {
			n, y := &r.stable[k], math.Log(r.took[k])
			if p, ok := m.fromElsewhere(n, r.Machine, i); ok {
				m.elsewhere = append(m.elsewhere, y-p)
			}
			if p, ok := m.fromOthers(n, r.Machine, i, n.Workload); ok {
				m.others = append(m.others, y-p)
			}
		}
	}
	return m
}

// merged takes recordings of one label and the same devices together.
func merged(recordings []*Recording) (out []*Recording) {
	for _, r := range recordings {
		at := slices.IndexFunc(out, func(o *Recording) bool {
			return o.Label == r.Label && slices.EqualFunc(o.Machine.Devices, r.Machine.Devices, func(a, b machine.Device) bool {
				return a.Model == b.Model && a.ComputeUnits == b.ComputeUnits
			})
		})
		if at < 0 {
			out = append(out, r)
			continue
		}
		all := *out[at]
		all.Points = slices.Concat(all.Points, r.Points)
		out[at] = &all
	}
	return out
}

// learned makes curves of a recording.
func learned(r *Recording) *recorded {
	out := &recorded{Recording: r, curves: make(map[string]*curve), efficiency: make(map[string]float64)}
	all, off := make(map[string]*series), make(map[string][]float64)
	for i := range r.Points {
		p := &r.Points[i]
		if !p.Stable() {
			continue
		}
		n := p.Need()
		out.stable, out.took = append(out.stable, n), append(out.took, p.Median())
		if all[p.Workload] == nil {
			all[p.Workload] = new(series)
		}
		all[p.Workload].add(&n, p.Median())
		if roof := partsOf(&n, r.Machine).total(); roof > 0 {
			off[p.Workload] = append(off[p.Workload], math.Log(p.Median()/roof))
		}
	}
	for name, s := range all {
		if len(s.x) >= leastPoints {
			out.curves[name] = s.fit()
		}
		if len(off[name]) > 0 {
			out.efficiency[name] = middle(off[name])
		}
	}
	return out
}

// workloads returns the names of those with stable points, in order.
func (r *recorded) workloads() (names []string) {
	for i := range r.stable {
		names = append(names, r.stable[i].Workload)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// middle returns the median.
func middle(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// Predict implements Predictor for count GPUs of a catalogue.
func (m *Model) Predict(need Need, gpu GPU, count int) Estimate {
	on, notes := MachineOf(gpu, count)
	e := m.OnMachine(need, on)
	if e.Fits && !e.Measured {
		e.Why += "; assumed of " + gpu.Name + ": " + strings.Join(notes, ", ")
	}
	return e
}

// Speedup returns how many times faster a job is on count GPUs than on a reference machine,
// and 0 where it does not fit on either.
func (m *Model) Speedup(need Need, gpu GPU, count int, reference *machine.Machine) float64 {
	here, there := m.Predict(need, gpu, count), m.OnMachine(need, reference)
	if !here.Fits || !there.Fits {
		return 0
	}
	return there.Median / here.Median
}

// OnMachine predicts a job on the devices of a machine together.
func (m *Model) OnMachine(need Need, on *machine.Machine) Estimate {
	if runs := need.Runs; runs > 1 { // what was recorded is one
		need.Flops, need.Bytes, need.Launches, need.Serial, need.Runs = need.Flops/runs, need.Bytes/runs, need.Launches/runs, need.Serial/runs, 1
		e := m.OnMachine(need, on)
		e.Median, e.Low, e.High = e.Median*runs, e.Low*runs, e.High*runs
		return e
	}
	asked := on
	on, why := able(&need, on)
	if why != "" {
		return Estimate{Why: why}
	}
	if why := tooLarge(&need, on); why != "" {
		return Estimate{Why: why}
	}
	p := partsOf(&need, on)
	e := Estimate{Fits: true, Bottleneck: p.bottleneck()}
	if c := m.curveOf(&need, on); c != nil {
		x := sizeOf(&need)
		y, half := c.at(x, termsOf(&need)), width(m.seen, c.reach(x) > 0)*c.scale(x, -1)
		e.set(y, half, half)
		e.Measured = true
		e.Why = fmt.Sprintf("%d sizes of %s measured there", len(c.s.x), need.Workload)
		if d := c.reach(x); d > 0 {
			e.Why += fmt.Sprintf(", the nearest %.3g times as large or small", math.Exp(d))
		}
		return e.spilling(&need, on)
	}
	if y, half, why, ok := m.tried.from(&need, asked, on); ok {
		e.set(y, half, half)
		e.Measured, e.Why = true, why
		return e.spilling(&need, on)
	}
	one := fastest(&need, on)
	y, below, above, why := m.alone(&need, one)
	if len(on.Devices) > 1 {
		ratio, how := m.together(&need, on, one)
		y += math.Log(ratio)
		why += "; " + how
	}
	e.set(y, below, above)
	e.Why = why
	return e.waiting(&need, on).spilling(&need, on)
}

// set sets the seconds of a prediction from logarithms: the median is y, and nine times of ten the time
// lies between y-below and y+above.
func (e *Estimate) set(y, below, above float64) {
	e.Median, e.Low, e.High = math.Exp(y), math.Exp(y-below), math.Exp(y+above)
}

// tooLarge says why a job cannot run on a machine at all, or nothing.
func tooLarge(n *Need, on *machine.Machine) string {
	if on.HostBytes > 0 && n.HostBytes > on.HostBytes {
		return fmt.Sprintf("it needs %s of host memory and there are %s", sizeText(n.HostBytes), sizeText(on.HostBytes))
	}
	least, most := n.least(), int64(0)
	for i := range on.Devices {
		most = max(most, on.Devices[i].MemBytes)
	}
	if most > 0 && least > most {
		return fmt.Sprintf("one task needs %s of device memory and the largest device has %s", sizeText(least), sizeText(most))
	}
	return ""
}

// spilling adds what moving to host memory and back costs a job that has more alive than
// devices can hold: every byte beyond that goes there and comes back once at least.
func (e Estimate) spilling(n *Need, on *machine.Machine) Estimate {
	room, link := int64(0), 0.0
	for i := range on.Devices {
		if on.Devices[i].HostMemory || on.Devices[i].MemBytes == 0 {
			return e
		}
		room += on.Devices[i].MemBytes
		_, bps, _ := on.Path(machine.Host, machine.DeviceID(i))
		link += bps
	}
	over := n.PeakBytes - room
	if over <= 0 || link == 0 {
		return e
	}
	more := 2 * float64(over) / link
	e.Median, e.Low, e.High = e.Median+more, e.Low+more, e.High+more*2
	e.Why += fmt.Sprintf("; %s more than devices hold move to host memory and back", sizeText(over))
	if more > e.Median/2 {
		e.Bottleneck = "link"
	}
	return e
}

// same returns the recording of a machine with the same devices.
func (m *Model) same(on *machine.Machine) *recorded {
	for _, r := range m.recordings {
		if len(r.Machine.Devices) != len(on.Devices) {
			continue
		}
		equal := true
		for i := range on.Devices {
			equal = equal && sameModel(&r.Machine.Devices[i], &on.Devices[i])
		}
		if equal {
			return r
		}
	}
	return nil
}

// sameModel reports whether a device that was opened is of the model that a catalogue or
// a machine file names: all words of the model's name are words of the device's, without
// the maker's, forms are the same, and memories are within 15 %. "SXM" is in no device's own
// name and is the form of those that have no other.
func sameModel(opened, named *machine.Device) bool {
	if opened.Kind != named.Kind {
		return false
	}
	if opened.Model == named.Model {
		return opened.ComputeUnits == named.ComputeUnits || named.ComputeUnits == 0
	}
	have, want := words(opened.Model), words(named.Model)
	for _, form := range []string{"pcie", "nvl", "ti", "super", "laptop"} {
		if slices.Contains(have, form) != slices.Contains(want, form) {
			return false
		}
	}
	for _, w := range want {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return len(want) > 0 && math.Abs(float64(opened.MemBytes-named.MemBytes)) <= 0.15*float64(named.MemBytes)
}

// words returns the words of a model's name that tell it from others.
func words(model string) (out []string) {
	for _, w := range strings.FieldsFunc(strings.ToLower(model), func(r rune) bool { return strings.ContainsRune(" -_()/", r) }) {
		switch {
		case w == "nvidia" || w == "geforce" || w == "amd" || w == "radeon" || strings.HasPrefix(w, "sxm") || strings.HasPrefix(w, "hbm"):
		case strings.HasSuffix(w, "gb") || w == "40" || w == "80" || w == "32": // memory, which is compared by itself
		default:
			out = append(out, w)
		}
	}
	return out
}

// off is the expected error of a job without measurements, as factors of its roofline time:
// the median is usual, and nine of ten are between least and most. The roofline is
// optimistic, because its rates are those of dense arithmetic, which few kernels reach.
type off struct{ least, usual, most float64 }

// offOf returns these factors, taken from recorded runs of the workloads on processors and on a GPU.
func offOf(on *machine.Machine) off {
	if on.Devices[0].HostMemory {
		return off{1, 3, 40}
	}
	return off{0.7, 1.3, 10}
}

// curveOf returns the curve of a workload on a machine, nil if it was not measured there. It
// returns nil for steps that follow one another on a device with its own memory, too:
// operations do not determine their time, and runs were recorded with one number of chains.
func (m *Model) curveOf(n *Need, on *machine.Machine) *curve {
	r := m.same(on)
	if r == nil || n.Serial > 0 && ownMemory(on) != nil {
		return nil
	}
	return r.curves[n.Workload]
}

// enoughErrors is the number of predictions of a kind that must have been compared with runs
// for their errors to make an interval.
const enoughErrors = 20

// fewErrors is the factor by which predictions are assumed to be off if fewer were compared.
const fewErrors = 10

// alone predicts a job on one device that its workload was not measured on, on logarithms.
func (m *Model) alone(n *Need, on *machine.Machine) (y, below, above float64, why string) {
	if c := m.curveOf(n, on); c != nil {
		x := sizeOf(n)
		half := width(m.seen, c.reach(x) > 0) * c.scale(x, -1)
		return c.at(x, termsOf(n)), half, half, fmt.Sprintf("%d sizes of %s measured on one", len(c.s.x), n.Workload)
	}
	if y, ok := m.fromElsewhere(n, on, -1); ok {
		half := spreadOf(m.elsewhere)
		return y, half, half, "never measured there: scaled from another machine by the rates of both"
	}
	if y, ok := m.fromOthers(n, on, -1, n.Workload); ok {
		half := spreadOf(m.others)
		return y, half, half, "this workload was never measured: the rates of the machine, as far off as for other workloads"
	}
	o := offOf(on)
	y = math.Log(max(partsOf(n, on).total(), 1e-12) * o.usual)
	return y, math.Log(o.usual / o.least), math.Log(o.most / o.usual), fmt.Sprintf("nothing was measured: %g times what the rates of the machine say, which is usual; %g times is not rare", o.usual, o.most)
}

// spreadOf returns a bound that nine of ten errors are within.
func spreadOf(errors []float64) float64 {
	if len(errors) < enoughErrors {
		return math.Log(fewErrors)
	}
	all := make([]score, len(errors))
	for i, e := range errors {
		all[i].value = math.Abs(e)
	}
	return max(width(all, false), errorFloor)
}

// fromElsewhere predicts a job by runs of its workload on another machine, on logarithms: the
// one whose roofline for the job is nearest, of the same kind of device if there is one.
// skip is the recording not to use.
func (m *Model) fromElsewhere(n *Need, on *machine.Machine, skip int) (y float64, ok bool) {
	there := partsOf(n, on)
	best := math.Inf(1)
	for i, r := range m.recordings {
		c := r.curves[n.Workload]
		if c == nil || i == skip || n.Serial > 0 && ownMemory(r.Machine) != nil {
			continue
		}
		here := partsOf(n, r.Machine)
		far := math.Abs(math.Log(max(here.total(), 1e-12) / max(there.total(), 1e-12)))
		if r.Machine.Devices[0].Kind != on.Devices[0].Kind {
			far += 1e3
		}
		if far < best {
			best, ok = far, true
			y = math.Log(scaled(math.Exp(c.at(sizeOf(n), termsOf(n))), here, there))
		}
	}
	return y, ok
}

// fromOthers predicts a job by how much slower than the roofline other workloads were on
// the same machine, or if it was never measured on all. skip is the recording of the run
// to be predicted, -1 for none; runs of the workload without are not looked at.
func (m *Model) fromOthers(n *Need, on *machine.Machine, skip int, without string) (y float64, ok bool) {
	var near, all []float64
	same := m.same(on)
	for i, r := range m.recordings {
		for _, name := range r.workloads() {
			e, ok := r.efficiency[name]
			if !ok || name == without {
				continue
			}
			all = append(all, e)
			if r == same || i == skip {
				near = append(near, e)
			}
		}
	}
	if len(near) >= 3 {
		all = near
	}
	if len(all) < 3 {
		return 0, false
	}
	return math.Log(max(partsOf(n, on).total(), 1e-12)) + middle(all), true
}

// fastest returns a machine of the one device whose roofline is lowest among those that the
// job fits on.
func fastest(n *Need, on *machine.Machine) *machine.Machine {
	var best *machine.Machine
	least := math.Inf(1)
	for i := range on.Devices {
		one := only(on, machine.DeviceID(i))
		if t := partsOf(n, one).total(); t < least && tooLarge(n, one) == "" {
			least, best = t, one
		}
	}
	return cmp.Or(best, on)
}

// only returns a machine with one of the devices and its link to the host.
func only(m *machine.Machine, id machine.DeviceID) *machine.Machine {
	out := *m
	out.Devices, out.Links = []machine.Device{m.Devices[id]}, nil
	for _, l := range m.Links {
		if l.A == machine.Host && l.B == id {
			l.A, l.B = l.B, l.A
		}
		if l.A == id && l.B == machine.Host {
			l.A = 0
			out.Links = append(out.Links, l)
		}
	}
	return &out
}

// sizeText writes bytes with a unit.
func sizeText(n int64) string {
	switch x := float64(n); {
	case x >= 1e12:
		return fmt.Sprintf("%.3g TB", x/1e12)
	case x >= 1e9:
		return fmt.Sprintf("%.3g GB", x/1e9)
	default:
		return fmt.Sprintf("%.3g MB", x/1e6)
	}
}
