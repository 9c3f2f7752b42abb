package cut

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Cores of a virtual machine are not cores: for a while two of them share one, and
// the guest does not see that. Tasks as they are cut, on 16 cores of which a quarter is half as
// fast at any time, reach nearly all that those can do. Time is virtual.
func TestUnevenCores(t *testing.T) {
	const cores, millis, seeds = 16, 250, 20
	for _, c := range []struct {
		name  string
		items int64 // of each core
		grain int64
		reach float64
	}{{"fine", 1 << 20, 1, 0.985}, {"few grains", 336, 12, 0.96}} {
		for _, spell := range []time.Duration{30 * time.Millisecond, 400 * time.Millisecond, 4 * time.Second} {
			reached := 0.0
			for seed := range uint64(seeds) {
				u := newUneven(cores, spell, 4*millis*time.Millisecond, seed)
				items := sched.Items{Extent: cores * c.items}
				var ranges []sched.Range
				for i := range int64(cores) {
					ranges = append(ranges, shrinking(items, sched.Range{Lo: i * c.items, Hi: (i + 1) * c.items}, leastOneCore, c.grain)...)
				}
				startOrder(items, ranges)
				var b graph.Builder
				each := float64(millis) * 1e6 / float64(c.items)
				for _, r := range ranges {
					b.Add(graph.Task{
						Name: fmt.Sprintf("%d-%d", r.Lo, r.Hi), Steps: []graph.Step{{Kernel: anyKernel}},
						Work: graph.Work{Ops: each * float64(r.Len())},
					})
				}
				g, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				res, err := sim.Run(sim.Config{Machine: u.machine, Jobs: []sim.Job{{Graph: g}}, Policy: "finish", Faults: u.faults, Unchecked: true})
				if err != nil {
					t.Fatal(err)
				}
				reached += float64(u.needs(cores*millis*time.Millisecond)) / float64(res.Runs[0].Ended) / seeds
			}
			t.Logf("%s, slow for some %v: %.1f %% of what the cores can do", c.name, spell, 100*reached)
			if reached < c.reach {
				t.Errorf("%s, slow for some %v: %.1f %% of what the cores can do, want %.1f", c.name, spell, 100*reached, 100*c.reach)
			}
		}
	}
}

var anyKernel = &graph.Kernel{Name: "any", Impls: []graph.Impl{{Dialect: graph.Abstract}}}

// uneven is a machine whose cores do 10⁹ operations a second, or half as many.
type uneven struct {
	machine *machine.Machine
	faults  sim.Faults
}

func newUneven(cores int, spell, until time.Duration, seed uint64) uneven {
	const slow = 0.25 // of the time
	r := rand.New(rand.NewPCG(seed, 0))
	u := uneven{machine: &machine.Machine{HostBPS: 1e12}}
	for i := range cores {
		d := machine.Device{Name: fmt.Sprintf("cpu:%d", i), Kind: machine.CPU, Backend: "cpu", HostMemory: true}
		d.Rates.Ops[graph.FP32] = 1e9
		u.machine.Devices = append(u.machine.Devices, d)
		is := r.Float64() < slow
		for at := time.Duration(0); at < until; is = !is {
			f, part := 1., 1-slow
			if is {
				f, part = 2, slow
			}
			u.faults = append(u.faults, sim.Fault{At: at, Kind: sim.Slow, Device: machine.DeviceID(i), Factor: f, Silent: true})
			at += time.Duration(2 * part * r.ExpFloat64() * float64(spell))
		}
	}
	slices.SortStableFunc(u.faults, func(a, b sim.Fault) int { return cmp.Compare(a.At, b.At) })
	return u
}

// needs is how long all cores, never idle, take for what a fast one does in work.
func (u uneven) needs(work time.Duration) time.Duration {
	speed := make([]float64, len(u.machine.Devices))
	sum, at := 0.0, time.Duration(0)
	for _, f := range u.faults {
		did := time.Duration(sum * float64(f.At-at))
		if did >= work {
			break
		}
		work -= did
		sum, at = sum-speed[f.Device]+1/f.Factor, f.At
		speed[f.Device] = 1 / f.Factor
	}
	return at + time.Duration(float64(work)/sum)
}
