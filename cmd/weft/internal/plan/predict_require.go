package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/machine"
)

// ErrUnknownWorkload is returned by Require for a workload that was never recorded.
var ErrUnknownWorkload = errors.New("the workload was never recorded")

// Load is a job as its user describes it, before there is a graph of it.
type Load struct {
	Workload   string
	Batch      int     // items that are computed together
	Complexity float64 // operations of an item
	Priority   Priority
	Latency    float64 // seconds that a batch may take; 0 any
	Throughput float64 // items a second that are expected; 0 any
}

// Priority says how surely a load is to have what it asks for.
type Priority int

const (
	NormalPriority Priority = iota // nine times of ten
	LowPriority                    // every other time
	HighPriority                   // 99 times of a hundred
)

// quantile returns the standard normal quantile of the chance that a priority stands for.
func (p Priority) quantile() float64 {
	switch p {
	case LowPriority:
		return 0
	case HighPriority:
		return 2.3263478740408408
	default:
		return 1.2815515655446004
	}
}

// Requirement is the demand of a load on one device.
type Requirement struct {
	Device machine.DeviceID
	Bytes  int64 // of memory
	// Units are the compute units (cores, multiprocessors) that it keeps busy: the fewest with
	// which latency and throughput are kept as surely as the priority asks for.
	Units int
	// Seconds is the time of a batch on all units of the device.
	Seconds Estimate
	// Confidence is the chance that a batch is done in time with these units.
	Confidence float64
	Need       Need
}

// Require predicts what a load needs of the device of a machine that it takes the smallest
// part of. Memory, memory traffic and launches follow from the operations as in recorded
// runs of the workload, and durations from those as OnMachine says. A device on which memory
// does not suffice, or on which even all units are too slow, is refused, and the error, which
// wraps ErrNoDevice, says why for each.
func (m *Model) Require(r Load, on *machine.Machine) (Requirement, error) {
	ops := float64(r.Batch) * r.Complexity
	if r.Batch < 1 || !(ops > 0) || !(r.Latency >= 0) || !(r.Throughput >= 0) || math.IsInf(ops, 0) || math.IsInf(r.Throughput, 0) || r.Priority < NormalPriority || r.Priority > HighPriority {
		return Requirement{}, fmt.Errorf("plan: bad load %+v: batch and complexity are above 0, latency and throughput not negative, and all but the latency are finite", r)
	}
	need, ok := m.needFor(r.Workload, ops)
	if !ok {
		return Requirement{}, fmt.Errorf("plan: %w: %q; weft bench predict --record --only %s does", ErrUnknownWorkload, r.Workload, r.Workload)
	}
	var best Requirement
	var part float64
	var reasons []error
	for i := range on.Devices {
		q, p, err := m.requireOn(&r, need, on, machine.DeviceID(i))
		if err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", on.Devices[i].Name, err))
		} else if best.Units == 0 || p < part {
			best, part = q, p
		}
	}
	if best.Units == 0 {
		return Requirement{}, fmt.Errorf("plan: %w: %s: %w", ErrNoDevice, r.Workload, errors.Join(reasons...))
	}
	return best, nil
}

// requireOn is the requirement on one device and the part of it.
func (m *Model) requireOn(r *Load, need Need, on *machine.Machine, id machine.DeviceID) (q Requirement, part float64, err error) {
	e := m.OnMachine(need, only(on, id))
	if !e.Fits {
		return q, 0, errors.New(e.Why)
	}
	if !e.valid() {
		return q, 0, fmt.Errorf("a batch of %.3g operations is too far from the recorded ones to be predicted", need.Flops)
	}
	if room := roomOf(on, id); room > 0 && need.PeakBytes > room {
		return q, 0, fmt.Errorf("a batch needs %s and there are %s", sizeText(need.PeakBytes), sizeText(room))
	}
	// A batch on a part of the device takes as much longer, and one comes each interval.
	allowed := math.Inf(1)
	if r.Latency > 0 {
		allowed = r.Latency
	}
	if r.Throughput > 0 {
		allowed = min(allowed, float64(r.Batch)/r.Throughput)
	}
	sure := e.Median * math.Exp(e.sigma()*r.Priority.quantile())
	units := cmp.Or(on.Devices[id].ComputeUnits, 1)
	if part = sure / allowed; part > 1 {
		return q, 0, fmt.Errorf("a batch takes up to %.3g s there and %.3g s are allowed", sure, allowed)
	}
	n := max(int(math.Ceil(part*float64(units)-1e-9)), 1)
	part = float64(n) / float64(units)
	return Requirement{Device: id, Bytes: need.PeakBytes, Units: n, Seconds: e, Need: need, Confidence: e.within(allowed * part)}, part, nil
}

// sigma returns the standard deviation of the logarithm of the time, if the interval is that
// of a normal distribution.
func (e *Estimate) sigma() float64 {
	return max(math.Log(e.High/e.Median)/z90, 1e-9)
}

// within returns the chance that the time is at most a number of seconds.
func (e *Estimate) within(seconds float64) float64 {
	return 0.5 * math.Erfc(-math.Log(seconds/e.Median)/e.sigma()/math.Sqrt2)
}

// Demand converts the requirement to a Demand for Reserve, on a machine with a number of
// devices.
func (q *Requirement) Demand(on *machine.Machine) Demand {
	d := Demand{Name: q.Need.Name, Bytes: q.Bytes, Seconds: make([]float64, len(on.Devices))}
	d.Utilisation = float64(q.Units) / float64(cmp.Or(on.Devices[q.Device].ComputeUnits, 1))
	d.Seconds[q.Device] = q.Seconds.Median / d.Utilisation
	return d
}

// needFor returns the need of a job of a workload with a number of operations, from recorded
// ones: memory, traffic and the rest are powers of the operations between two sizes, and
// beyond the ends as between the last two. Recordings that have a size agree on it.
func (m *Model) needFor(workload string, ops float64) (n Need, ok bool) {
	var all []Need
	for _, r := range m.recordings {
		for i := range r.stable {
			if r.stable[i].Workload == workload && r.stable[i].Flops > 0 {
				all = append(all, r.stable[i])
			}
		}
	}
	slices.SortFunc(all, func(a, b Need) int { return cmp.Compare(a.Flops, b.Flops) })
	all = slices.CompactFunc(all, func(a, b Need) bool { return a.Flops == b.Flops })
	if len(all) < leastPoints {
		return n, false
	}
	x := make([]float64, len(all))
	for i := range all {
		x[i] = math.Log(all[i].Flops)
	}
	follow := func(of func(n *Need) float64) float64 {
		y := make([]float64, len(all))
		for i := range all {
			y[i] = math.Log(max(of(&all[i]), 1e-3))
		}
		return math.Exp(chord(x, y, math.Log(ops), true))
	}
	n = Need{
		Name: fmt.Sprintf("%s of %.3g operations", workload, ops), Workload: workload, Flops: ops, Unit: all[0].Unit, Runs: 1,
		Bytes:    follow(func(n *Need) float64 { return n.Bytes }),
		Launches: follow(func(n *Need) float64 { return n.Launches }),
		Upload:   follow(func(n *Need) float64 { return n.Upload }),
		Download: follow(func(n *Need) float64 { return n.Download }),
	}
	const most = 1 << 62 // more than any memory, and a number of bytes still
	n.PeakBytes = int64(min(math.Ceil(follow(func(n *Need) float64 { return float64(n.PeakBytes) })), most))
	n.HostBytes = int64(min(n.Upload+n.Download, most))
	return n, true
}
