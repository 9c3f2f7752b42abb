package cut

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// small is a Knowledge of devices with some memory of their own each, with fast links.
func small(n int, bytes int64) *Knowledge {
	v := cores(n, time.Microsecond)
	for i := range v.Machine.Devices {
		d := &v.Machine.Devices[i]
		d.Kind, d.HostMemory, d.MemBytes = machine.Discrete, false, bytes
		v.Machine.Links = append(v.Machine.Links, machine.Link{A: machine.Host, B: machine.DeviceID(i), Kind: machine.PCIe, BPS: 1e12})
		v.Devices[i].MemBytes = bytes
	}
	return v
}

// kilobytes is work of 1024 items, each with a kilobyte of its own, that takes a second on a core.
// Its items say nothing of their memory.
func kilobytes() Divisible {
	return Divisible{Items: sched.Items{Extent: 1024}, Whole: work(1e9), Graph: func(ranges []sched.Range) (*graph.Graph, error) {
		var b graph.Builder
		x := b.Data(graph.Data{Name: "x", Bytes: 1 << 20, Output: true})
		for _, r := range ranges {
			task := work(1e9 * float64(r.Len()) / 1024)
			task.Steps[0].Launch = graph.Grid(r.Len())
			task.Uses = []graph.Use{{Data: x, Offset: r.Lo << 10, Bytes: r.Len() << 10, Access: graph.Write}}
			b.Add(task)
		}
		return b.Build()
	}}
}

// Work is cut finer than for speed alone where its tasks do not fit in memory, on one device and,
// where several are compared with one, for that one.
func TestPlanFitsMemory(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		for _, kib := range []int64{4096, 300, 100} {
			w := kilobytes()
			p, err := small(n, kib<<10).Plan(w)
			if err != nil {
				t.Errorf("%d devices of %d KiB: %v", n, kib, err)
				continue
			}
			covered := int64(0)
			for _, r := range p.Ranges {
				covered += r.Len()
				if r.Len() > kib {
					t.Errorf("%d devices of %d KiB: a task of %d KiB", n, kib, r.Len())
				}
			}
			if covered != w.Items.Extent || p.Graph.NumTasks() != len(p.Ranges) {
				t.Errorf("%d devices of %d KiB: %d items in %d ranges, %d tasks", n, kib, covered, len(p.Ranges), p.Graph.NumTasks())
			}
			if n == 1 && kib == 4096 && len(p.Ranges) != 1 {
				t.Errorf("what fits is cut into %d tasks on one device", len(p.Ranges))
			}
		}
	}
}

// What does not fit however it is cut is an error about the tasks as they would be.
func TestPlanTooLarge(t *testing.T) {
	w := kilobytes()
	w.Items.Align = 512
	_, err := small(1, 100<<10).Plan(w)
	if !errors.Is(err, engine.ErrOutOfMemory) || !strings.Contains(err.Error(), "needs 1MiB") {
		t.Error(err)
	}
}

// A set of devices that the work does not fit on is not compared with others.
func TestPlanWithoutSet(t *testing.T) {
	w, built := kilobytes(), 0
	graphOf := w.Graph
	w.Graph = func(ranges []sched.Range) (*graph.Graph, error) {
		if built++; built > 1 { // all but the first, which is for both
			ranges = []sched.Range{{Lo: 0, Hi: 1024}}
		}
		return graphOf(ranges)
	}
	p, err := small(2, 600<<10).Plan(w)
	if err != nil || built < 2 || len(devicesOf(p.Partition)) != 2 {
		t.Errorf("built %d times: %+v, %v", built, p, err)
	}
}
