package sched

import (
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// rehearsing returns a rehearsal of a graph of independent tasks, one for each size, that
// read or write data of so many bytes. Device d is of class d, and a task costs what costs has.
func rehearsing(t *testing.T, access graph.Access, sizes []int64, at []machine.DeviceID, costs ...time.Duration) *rehearsal {
	t.Helper()
	m, _ := machine.Named("8xh100")
	m.Devices = m.Devices[:len(costs)]
	m.Links = slices.DeleteFunc(m.Links, func(l machine.Link) bool { return max(int(l.A), int(l.B)) >= len(costs) })
	var b graph.Builder
	for _, bytes := range sizes {
		x := b.Data(graph.Data{Bytes: bytes, Input: access == graph.Read})
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: planKernel}}, Uses: []graph.Use{{Data: x, Access: access}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	flows[g.Flow()] = g
	run := runOf(m, g.Flow())
	run.At = at
	for d := range run.Devices {
		run.Devices[d].Class = int32(d)
	}
	for s := range run.Costs {
		run.Costs[s] = slices.Clone(costs)
	}
	r := &rehearsal{}
	r.survey(run)
	if !r.prepare(m, machine.NewRoofline(m)) {
		t.Fatal("too many kinds of copies")
	}
	r.reset()
	return r
}

// TestRehearsalHolds: by the rule that goes by what devices hold, a task goes to the
// device whose memory has what it reads, and is given its bytes.
func TestRehearsalHolds(t *testing.T) {
	const ms = time.Millisecond
	sizes := []int64{100, 200, 300}
	r := rehearsing(t, graph.Read, sizes, []machine.DeviceID{2, 1, 0}, ms, ms, ms)
	for task, bytes := range sizes {
		for d := range r.devices {
			want := int64(0)
			if int(d) == 2-task {
				want = bytes
			}
			if got := r.held(int32(task), r.mem[d]); got != want {
				t.Errorf("device %d holds %d bytes of what task %d reads, want %d", d, got, task, want)
			}
		}
		if got := r.holder(int32(task)); int(got) != 2-task {
			t.Errorf("task %d goes to device %d, and what it reads is on %d", task, got, 2-task)
		}
	}
}

// TestRehearsalFrees: the memory of what a task wrote and nothing reads, and of what it
// read last, is free when it has ended. Two tasks are in flight at a time.
func TestRehearsalFrees(t *testing.T) {
	const each, cost = 100, 5 * time.Millisecond
	sizes := []int64{each, each, each, each, each, each}
	for access, at := range map[graph.Access][]machine.DeviceID{
		graph.Read: slices.Repeat([]machine.DeviceID{machine.Host}, len(sizes)), graph.Write: nil,
	} {
		r := rehearsing(t, access, sizes, at, cost)
		for _, c := range []struct {
			room int64
			fits bool
		}{{2 * each, true}, {2*each - 1, false}} {
			r.of.Devices[0].FreeBytes = c.room
			if _, ok := r.run(rule{on: make([]int32, len(sizes))}, never); ok != c.fits {
				t.Errorf("access %v with room for %d bytes: done %v, want %v", access, c.room, ok, c.fits)
			}
		}
	}
}

// TestRehearsalSurvey: a task takes what its class costs times Device.Slow, and cannot
// run where the class cannot or the device accepts nothing. Work spreads over the others
// by their rates.
func TestRehearsalSurvey(t *testing.T) {
	const ms = time.Millisecond
	r := rehearsing(t, graph.Write, []int64{8, 8, 8}, nil, 3*ms, ms, -1, 3*ms)
	r.of.Devices[1].Accepts = false
	r.of.Devices[3].Slow = 2
	r.survey(r.of)
	for d, want := range []time.Duration{3 * ms, -1, -1, 6 * ms} {
		if got := r.runs(0, int32(d)); got != want {
			t.Errorf("on device %d a task takes %v, want %v", d, got, want)
		}
	}
	if got := r.spread.Round(time.Microsecond); got != 3*2*ms {
		t.Errorf("all tasks take %v on all devices, want 6 ms", got)
	}
	if got := r.longest(); got != 3*ms {
		t.Errorf("the longest chain takes %v, want 3 ms", got)
	}
}

// TestRehearsalAlone: the device that takes everything is the fastest of those that can
// run all tasks.
func TestRehearsalAlone(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		costs [3]time.Duration
		want  int32
	}{
		{[3]time.Duration{3 * ms, 2 * ms, 4 * ms}, 1},
		{[3]time.Duration{2 * ms, 2 * ms, 2 * ms}, 0},
		{[3]time.Duration{-1, 3 * ms, 2 * ms}, 2},
		{[3]time.Duration{3 * ms, -1, 4 * ms}, 0},
		{[3]time.Duration{-1, -1, -1}, -1},
	} {
		r := rehearsing(t, graph.Read, []int64{8, 8}, []machine.DeviceID{machine.Host, machine.Host}, c.costs[:]...)
		if got := r.alone(); !slices.Equal(got, []int32{c.want, c.want}) {
			t.Errorf("with costs of %v the tasks go to %d, want %d", c.costs, got, c.want)
		}
	}
}

// TestRehearsalSteals: a device without work takes a task that it ends before the device
// that has it would, and none that it ends no sooner. Two of the three tasks are issued
// at once and cannot be taken.
func TestRehearsalSteals(t *testing.T) {
	const cost = 5 * time.Millisecond
	for _, c := range []struct {
		thief time.Duration // what a task takes there
		on    int32         // where the last task runs
		took  time.Duration
	}{
		{cost, 1, 2 * cost}, {3*cost - 1, 1, 3*cost - 1}, {3 * cost, 0, 3 * cost}, {4 * cost, 0, 3 * cost}, {-1, 0, 3 * cost},
	} {
		r := rehearsing(t, graph.Read, []int64{8, 8, 8}, []machine.DeviceID{0, 0, 0}, cost, c.thief)
		r.copies.took = make([]copyCost, len(r.copies.took)) // copies take no time
		took, ok := r.run(rule{on: []int32{0, 0, 0}, holding: true}, never)
		if on := r.tasks[2].on; !ok || on != c.on || took != c.took {
			t.Errorf("a task takes %v on the thief: it runs on %d and all in %v (%v), want %d and %v", c.thief, on, took, ok, c.on, c.took)
		}
	}
}

// TestRehearsalCredit: a device is given tasks up to Depth in number and Ahead in time,
// never fewer than two, but no second one where it uses host memory and what it has
// takes longAlone.
func TestRehearsalCredit(t *testing.T) {
	const depth, ahead = 4, time.Millisecond
	for _, c := range []struct {
		mem     int32
		flight  int32
		backlog time.Duration
		want    bool
	}{
		{1, 0, time.Hour, true},
		{1, 1, time.Hour, true},
		{1, 2, ahead, false},
		{1, 2, ahead - 1, true},
		{1, depth - 1, 0, true},
		{1, depth, 0, false},
		{hostMemory, 0, time.Hour, true},
		{hostMemory, 1, longAlone, false},
		{hostMemory, 1, longAlone - 1, true},
		{hostMemory, 2, longAlone - 1, false},
		{hostMemory, 2, ahead - 1, true},
	} {
		r := &rehearsal{of: &Run{Depth: depth, Ahead: ahead}, mem: []int32{c.mem}, state: []rehearsedDevice{{flight: c.flight, backlog: c.backlog}}}
		if got := r.credit(0); got != c.want {
			t.Errorf("memory %d, %d tasks of %v in flight: %v, want %v", c.mem, c.flight, c.backlog, got, c.want)
		}
	}
}
