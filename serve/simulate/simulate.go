// Package simulate predicts how a server holds up on a machine that is only described: the server's own batching runs in
// virtual time, with requests that arrive at a pace and batches that take as long as the simulator predicts.
package simulate

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/serve/internal/batch"
	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/load"
	"github.com/weft-run/weft/workload/reservoir"
)

// Cost is the time that a batch takes on a device where it is alone.
type Cost struct {
	Whole time.Duration
	Busy  time.Duration // the part in which the device computes; the rest is copies, which overlap with other batches
}

// Batch simulates a batch of n inputs on a device that has the weights.
func Batch(m *machine.Machine, on machine.DeviceID, model *reservoir.Model, n int) (Cost, error) {
	g, err := model.BatchGraph(m, n)
	if err != nil {
		return Cost{}, err
	}
	c := sim.Config{Machine: m, Policy: "finish", Unchecked: true}
	var bind []sim.Binding
	for id := range graph.DataID(g.NumData()) {
		if d := g.Data(id); d.Input && d.Name != "inputs" {
			bind = append(bind, sim.Binding{Data: id, Resident: len(c.Resident)})
			c.Resident = append(c.Resident, graph.Data{Name: d.Name, Bytes: d.Bytes})
		}
	}
	for i := range 2 { // the first brings the weights
		c.Jobs = append(c.Jobs, sim.Job{Name: "batch", At: time.Duration(i) * time.Hour, Graph: g, Bind: bind, Rather: []machine.DeviceID{on}})
	}
	r, err := sim.Run(c)
	if err != nil {
		return Cost{}, err
	}
	for _, run := range r.Runs {
		if run.Err != nil {
			return Cost{}, run.Err
		}
	}
	last := r.Runs[1]
	out := Cost{Whole: last.Ended - last.Submitted, Busy: last.Report.Devices[on].Busy}
	if out.Busy <= 0 || out.Busy > out.Whole {
		return out, fmt.Errorf("a batch of %d on %s: %v of %v are computed", n, m.DeviceName(on), out.Busy, out.Whole)
	}
	return out, nil
}

// Result says what became of the requests that arrived after the warm-up.
type Result struct {
	Devices int // that were used
	Made    int // that the profile is made for

	Arrived  uint64
	Answered uint64
	Refused  uint64 // at once, because the deadline would not be met
	Expired  uint64 // later, because it was not met
	Failed   uint64

	Latency     load.Histogram // of answered requests
	Utilisation float64        // of the devices, 0 to 1
	Batch       float64        // mean number of requests in a batch
}

// virtual is a server in virtual time.
type virtual struct {
	m       *batch.Machine
	model   *batch.Model
	devices []virtualDevice
	widths  []int // of batches; a batch is padded to the next
	ends    batchEnds
	from    time.Duration // when counting begins
	until   time.Duration // when the last request arrives
	result  Result
	batches int
	items   int
	busy    time.Duration
}

// virtualDevice computes one batch at a time, those it was given first before others.
type virtualDevice struct {
	cost []Cost // by width
	free time.Duration
}

// batchEnd is the end of a batch.
type batchEnd struct {
	at    time.Duration
	batch *batch.Batch
	order int
}

type batchEnds []batchEnd

func (e batchEnds) Len() int { return len(e) }
func (e batchEnds) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), e[i].order-e[j].order) < 0
}
func (e batchEnds) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *batchEnds) Push(x any)   { *e = append(*e, x.(batchEnd)) }
func (e *batchEnds) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// Run runs a server with the settings of a profile and one model on a described machine.
func Run(c serve.Config, m *machine.Machine, model *reservoir.Model, p load.Pace) (*Result, error) {
	v, err := newVirtual(c, m, model)
	if err != nil {
		return nil, fmt.Errorf("simulate %s on %s: %w", c.Profile, m.Name, err)
	}
	v.run(p, time.Duration(c.Batch.Deadline))
	return &v.result, nil
}

// newVirtual makes a server as weft serve makes it: the batches of a reservoir go to whichever of
// the devices has them done first, as many at a time as all of them take.
func newVirtual(c serve.Config, m *machine.Machine, model *reservoir.Model) (*virtual, error) {
	v := &virtual{m: batch.New()}
	for n := 1; ; n = min(2*n, c.Batch.Size) {
		if v.widths = append(v.widths, n); n == c.Batch.Size {
			break
		}
	}
	made, err := strconv.Atoi(c.Runtime["max_devices"])
	if err != nil {
		return nil, fmt.Errorf("max_devices: %w", err)
	}
	for id := range m.Devices {
		if m.Devices[id].HostMemory && gpus(m) > 0 {
			continue // they are for the server itself
		}
		var d virtualDevice
		for _, n := range v.widths {
			cost, err := Batch(m, machine.DeviceID(id), model, n)
			if err != nil {
				return nil, err
			}
			d.cost = append(d.cost, cost)
		}
		v.devices = append(v.devices, d)
	}
	last := len(v.widths) - 1
	slices.SortStableFunc(v.devices, func(a, b virtualDevice) int { return cmp.Compare(a.cost[last].Whole, b.cost[last].Whole) })
	v.devices = v.devices[:min(len(v.devices), made)]
	any := &batch.Device{Devices: len(v.devices)}
	any.Slots, any.Parallel = infer.Places(m, c.Batch.Depth, len(v.devices))
	v.m.AddDevice(any)
	v.m.MaxWaiting = c.Batch.Queue
	v.model = &batch.Model{MaxBatch: c.Batch.Size, MaxWaiting: c.Batch.Queue, MaxWait: time.Duration(c.Batch.Wait)}
	v.m.AddModel(v.model, batch.Cost{Fixed: v.devices[0].cost[0].Whole}, any)
	for i, n := range v.widths { // as the warm-up does
		v.m.Measured(v.model, any, n, v.devices[0].cost[i].Whole)
	}
	v.result.Devices, v.result.Made = len(v.devices), made
	return v, nil
}

// gpus counts the devices of a machine that have memory of their own.
func gpus(m *machine.Machine) (n int) {
	for i := range m.Devices {
		if !m.Devices[i].HostMemory {
			n++
		}
	}
	return n
}

// run has requests arrive, and counts what becomes of those after the warm-up.
func (v *virtual) run(p load.Pace, deadline time.Duration) {
	rnd := rand.New(rand.NewPCG(p.Seed, 0))
	v.from, v.until = p.WarmUp, p.WarmUp+p.Duration
	gap := func() time.Duration {
		x := 1.0
		if p.Arrivals == load.Poisson {
			x = rnd.ExpFloat64()
		}
		return time.Duration(x / p.Rate * 1e9)
	}
	next := gap()
	for {
		at, what := next, "arrival"
		if next >= v.until {
			at, what = 0, ""
		}
		sooner := func(t time.Duration, w string) {
			if what == "" || t < at {
				at, what = t, w
			}
		}
		if len(v.ends) > 0 {
			sooner(v.ends[0].at, "end")
		}
		if t, ok := v.m.Next(); ok {
			sooner(t, "tick")
		}
		switch what {
		case "":
			v.finish(p)
			return
		case "arrival":
			it := &batch.Item{Owner: at, Examples: 1, Deadline: at + deadline}
			if at >= v.from {
				v.result.Arrived++
			}
			v.perform(at, v.m.Add(at, v.model, it, nil))
			next += gap()
		case "end":
			e := heap.Pop(&v.ends).(batchEnd)
			v.perform(at, v.m.Ended(at, e.batch, false, nil))
		case "tick":
			v.perform(at, v.m.Tick(at, nil))
		}
	}
}

// perform does what the machine decided.
func (v *virtual) perform(now time.Duration, list []batch.Decision) {
	for _, d := range list {
		if d.Kind == batch.Start {
			v.begin(now, d.Batch)
			continue
		}
		arrived := d.Item.Owner.(time.Duration)
		if arrived < v.from {
			continue
		}
		switch d.Kind {
		case batch.Done:
			v.result.Answered++
			v.result.Latency.Add(now - arrived)
		case batch.Refuse:
			v.result.Refused++
		case batch.Expire:
			v.result.Expired++
		case batch.Fail:
			v.result.Failed++
		}
	}
}

// begin gives a batch to the device that has it done first. Its copies overlap with what the device
// computes before.
func (v *virtual) begin(now time.Duration, b *batch.Batch) {
	w, _ := slices.BinarySearch(v.widths, b.Examples())
	best, end := 0, time.Duration(0)
	for i := range v.devices {
		c := v.devices[i].cost[w]
		if t := max(now+c.Whole-c.Busy, v.devices[i].free) + c.Busy; i == 0 || t < end {
			best, end = i, t
		}
	}
	d := &v.devices[best]
	d.free = end
	// The part of it that lies in the time that counts.
	if span := min(end, v.until) - max(end-d.cost[w].Busy, v.from); span > 0 {
		v.busy += span
	}
	if now >= v.from {
		v.batches++
		v.items += b.Examples()
	}
	heap.Push(&v.ends, batchEnd{end, b, v.batches})
}

// finish derives the means.
func (v *virtual) finish(p load.Pace) {
	v.result.Utilisation = v.busy.Seconds() / (p.Duration.Seconds() * float64(len(v.devices)))
	v.result.Batch = float64(v.items) / float64(max(v.batches, 1))
}
