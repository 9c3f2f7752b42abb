package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// plain is a cost model one can do sums with: an operation takes a nanosecond,
// so does a byte copied.
type plain struct{}

func (plain) Task(t *graph.Task, _ machine.DeviceID) machine.Estimate {
	return machine.Estimate{Median: time.Duration(t.Work.Ops)}
}

func (plain) Copy(bytes int64, _, _ machine.DeviceID) machine.Estimate {
	return machine.Estimate{Median: time.Duration(bytes)}
}

func (plain) Epoch() uint64 { return 0 }

// testMachine has two GPUs of 1000 bytes and a CPU, all linked.
func testMachine() *machine.Machine {
	link := func(a, b machine.DeviceID) machine.Link {
		return machine.Link{A: a, B: b, Kind: machine.PCIe, BPS: 1e9}
	}
	gpu := func(i int) machine.Device {
		return machine.Device{Name: fmt.Sprintf("cuda:%d", i), Kind: machine.Discrete, Backend: "cuda", MemBytes: 1000}
	}
	return &machine.Machine{
		Devices: []machine.Device{gpu(0), gpu(1), {Name: "cpu", Backend: "cpu", HostMemory: true}},
		Links:   []machine.Link{link(machine.Host, 0), link(machine.Host, 1), link(0, 1)},
		HostBPS: 1e9,
	}
}

// lanesOf numbers lanes as the engine does.
func lanesOf(m *machine.Machine) []engine.LaneInfo {
	out := []engine.LaneInfo{{Device: machine.Host, Kind: engine.CopyIn}}
	for i := range m.Devices {
		for k := range max(m.Devices[i].Lanes, 1) {
			out = append(out, engine.LaneInfo{Device: machine.DeviceID(i), Kind: engine.Compute, Index: k})
		}
		out = append(out, engine.LaneInfo{Device: machine.DeviceID(i), Kind: engine.CopyIn}, engine.LaneInfo{Device: machine.DeviceID(i), Kind: engine.CopyOut})
	}
	return out
}

// Lanes of testMachine.
const (
	lane0, in0, out0 engine.Lane = 1, 2, 3
	lane1, in1, out1 engine.Lane = 4, 5, 6
	laneC            engine.Lane = 7
)

// rig drives hardware by hand.
type rig struct {
	t   *testing.T
	h   *hardware
	g   *graph.Graph
	seq map[engine.Lane]uint32
	log []string
	err error
}

// newRig makes a rig whose run 1 is the graph of the tasks given.
func newRig(t *testing.T, m *machine.Machine, check bool, build func(b *graph.Builder)) *rig {
	t.Helper()
	r := &rig{t: t, seq: make(map[engine.Lane]uint32)}
	var b graph.Builder
	build(&b)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r.g = g
	r.h = newHardware(hardwareOptions{Machine: m, Lanes: lanesOf(m), Cost: newLinkCost(m, plain{}), Check: check})
	r.h.Begin(1, g, nil)
	return r
}

// ops adds tasks that take the times given and use nothing.
func ops(times ...int) func(*graph.Builder) {
	return func(b *graph.Builder) {
		for i, n := range times {
			b.Add(graph.Task{Name: fmt.Sprint("t", i), Steps: []graph.Step{{Kernel: kernel}}, Work: graph.Work{Ops: float64(n)}})
		}
	}
}

func (r *rig) next(l engine.Lane) engine.Op {
	r.seq[l]++
	return engine.Op{Lane: l, Seq: r.seq[l]}
}

func (r *rig) launch(l engine.Lane, task graph.TaskID, args []engine.Arg, waits ...engine.Op) engine.Action {
	return engine.Action{
		Kind: engine.Launch, Op: r.next(l), Device: r.h.lanes[l].info.Device, Run: 1, Graph: r.g, Task: task, Args: args, Waits: waits,
	}
}

func (r *rig) copy(l engine.Lane, from, to machine.DeviceID, src, dst engine.Inst, bytes int64, waits ...engine.Op) engine.Action {
	return engine.Action{Kind: engine.Copy, Op: r.next(l), From: from, Device: to, Src: src, Dst: dst, Bytes: bytes, Waits: waits}
}

func alloc(d machine.DeviceID, i engine.Inst, bytes int64) engine.Action {
	return engine.Action{Kind: engine.Alloc, Device: d, Inst: i, Bytes: bytes}
}

// do applies actions at a time.
func (r *rig) do(at time.Duration, acts ...engine.Action) {
	r.until(at)
	if r.err == nil {
		r.err = r.h.Apply(at, acts)
	}
}

func (r *rig) fault(at time.Duration, line string) {
	r.t.Helper()
	r.until(at)
	f, err := ParseFaults([]byte(line), r.h.machine)
	if err != nil {
		r.t.Fatal(err)
	}
	r.h.Inject(at, &f[0])
}

// until lets time pass, noting events as "lane.seq status start-end".
func (r *rig) until(at time.Duration) {
	for r.err == nil {
		next, ok := r.h.Next()
		if !ok || next > at {
			return
		}
		var evs []engine.Event
		evs, r.err = r.h.Advance(next, nil)
		for _, e := range evs {
			switch e.Kind {
			case engine.OpDone:
				status := [...]string{"ok", "failed", "depfailed", "oom"}[e.Status]
				r.log = append(r.log, fmt.Sprintf("%d.%d %s %d-%d", e.Op.Lane, e.Op.Seq, status, e.Start, e.End))
			case engine.DeviceLost:
				r.log = append(r.log, fmt.Sprintf("lost %d kept=%v", e.Device, e.Kept))
			case engine.DeviceBack:
				r.log = append(r.log, fmt.Sprintf("back %d kept=%v", e.Device, e.Kept))
			}
		}
	}
}

// want ends a test: everything has happened, and it was this.
func (r *rig) want(lines ...string) {
	r.t.Helper()
	r.until(math.MaxInt64)
	if r.err != nil {
		r.t.Fatal(r.err)
	}
	if !slices.Equal(r.log, lines) {
		r.t.Errorf("got\n  %s\nwant\n  %s", strings.Join(r.log, "\n  "), strings.Join(lines, "\n  "))
	}
}

// wantViolation ends a test that must have broken the contract.
func (r *rig) wantViolation(what string) {
	r.t.Helper()
	r.until(math.MaxInt64)
	if !errors.Is(r.err, ErrViolation) || !strings.Contains(r.err.Error(), what) {
		r.t.Errorf("got %v, want a violation about %q", r.err, what)
	}
}

func TestLanesKeepOrder(t *testing.T) {
	r := newRig(t, testMachine(), true, ops(100, 30, 20))
	a := r.launch(lane0, 0, nil)
	b := r.launch(lane0, 1, nil)       // behind a
	c := r.launch(lane1, 2, nil, b.Op) // waits for b on another lane
	d := r.launch(laneC, 2, nil)       // waits for nothing
	r.do(10, a, b, c, d)
	r.want("7.1 ok 10-30", "1.1 ok 10-110", "1.2 ok 110-140", "4.1 ok 140-160")
	if got := r.h.Busy(0); got != 130 {
		t.Errorf("cuda:0 busy for %v, want 130ns", got)
	}
}

func TestFailureReachesDependents(t *testing.T) {
	r := newRig(t, testMachine(), true, ops(100, 30, 20))
	r.fault(0, "fail next cuda:0")
	a := r.launch(lane0, 0, nil)
	b := r.launch(lane1, 1, nil, a.Op) // never starts
	c := r.launch(lane1, 2, nil)       // behind b, and fine
	d := r.launch(laneC, 1, nil, b.Op) // fails through b
	r.do(0, a, b, c, d)
	r.until(500)
	e := r.launch(lane0, 2, nil, d.Op) // waits for what failed long ago
	r.do(500, e)
	r.want("1.1 failed 0-100", "4.1 depfailed 100-100", "7.1 depfailed 100-100", "4.2 ok 100-120", "1.2 depfailed 500-500")
}

func TestFailTask(t *testing.T) {
	r := newRig(t, testMachine(), true, ops(10, 20))
	r.fault(0, "fail task t1 2 times")
	r.do(0, r.launch(lane0, 0, nil), r.launch(lane0, 1, nil), r.launch(lane0, 1, nil), r.launch(lane0, 1, nil))
	r.want("1.1 ok 0-10", "1.2 failed 10-30", "1.3 failed 30-50", "1.4 ok 50-70")
}

// gangOf2 has one task of two devices.
func gangOf2(b *graph.Builder) {
	b.Add(graph.Task{Name: "before", Steps: []graph.Step{{Kernel: kernel}}, Work: graph.Work{Ops: 40}})
	b.Add(graph.Task{Name: "gang", Steps: []graph.Step{{Kernel: kernel}}, Work: graph.Work{Ops: 100}, Gang: 2})
}

func (r *rig) gang(task graph.TaskID, l, k engine.Lane, waits ...engine.Op) (a, b engine.Action) {
	a, b = r.launch(l, task, nil), r.launch(k, task, nil, waits...)
	b.Rank = 1
	return a, b
}

func TestGangStartsAndEndsTogether(t *testing.T) {
	r := newRig(t, testMachine(), true, gangOf2)
	before := r.launch(lane1, 0, nil)
	a, b := r.gang(1, lane0, lane1)
	r.do(0, before, a, b)
	r.fault(90, "slow cuda:1 2x") // one slow member holds up the other
	r.want("4.1 ok 0-40", "1.1 ok 40-190", "4.2 ok 40-190")
}

func TestGangFailsAsOne(t *testing.T) {
	t.Run("failed dependency", func(t *testing.T) {
		r := newRig(t, testMachine(), true, gangOf2)
		r.fault(0, "fail next cpu")
		before := r.launch(laneC, 0, nil)
		a, b := r.gang(1, lane0, lane1, before.Op)
		r.do(0, before, a, b)
		r.want("7.1 failed 0-40", "4.1 depfailed 40-40", "1.1 depfailed 40-40")
	})
	t.Run("lost member and a second attempt", func(t *testing.T) {
		r := newRig(t, testMachine(), true, gangOf2)
		a, b := r.gang(1, lane0, lane1)
		r.do(0, a, b)
		r.fault(30, "lose cuda:1")
		a, b = r.gang(1, lane0, laneC)
		r.do(30, a, b)
		r.want("1.1 depfailed 0-30", "lost 1 kept=false", "1.2 ok 30-130", "7.1 ok 30-130")
	})
	t.Run("member lost before the start", func(t *testing.T) {
		r := newRig(t, testMachine(), true, gangOf2)
		before := r.launch(laneC, 0, nil)
		a, b := r.gang(1, lane0, lane1, before.Op)
		r.do(0, before, a, b)
		r.fault(30, "lose cuda:1")
		r.want("lost 1 kept=false", "1.1 depfailed 30-30", "7.1 ok 0-40")
	})
}

func TestSlowChangesWhatRuns(t *testing.T) {
	r := newRig(t, testMachine(), true, ops(100))
	r.do(0, r.launch(lane0, 0, nil), r.launch(lane0, 0, nil))
	r.fault(50, "slow cuda:0 3x")  // 50 left take 150
	r.fault(250, "slow cuda:0 1x") // the second did 16⅔ of 100 by then
	r.want("1.1 ok 0-200", "1.2 ok 200-334")
}

func TestHang(t *testing.T) {
	r := newRig(t, testMachine(), true, ops(100))
	a := r.launch(lane0, 0, nil)
	b := r.launch(lane1, 0, nil, a.Op)
	r.do(0, a, b)
	r.fault(50, "hang cuda:0")
	r.until(10000)
	if r.h.inFlight != 2 {
		t.Fatalf("%d operations in flight, want both", r.h.inFlight)
	}
	if s := r.h.Stuck(5); len(s) != 2 || !strings.Contains(s[0], "hangs") || !strings.Contains(s[1], "waits for 1") {
		t.Errorf("stuck: %q", s)
	}
	// The engine gives up on it and asks for it back.
	r.do(10000, engine.Action{Kind: engine.Drop, Device: 0}, engine.Action{Kind: engine.Recover, Device: 0})
	r.until(time.Second)
	r.do(time.Second, r.launch(lane0, 0, nil))
	r.want("4.1 depfailed 10000-10000", "back 0 kept=false", "1.2 ok 1000000000-1000000100")
}

func TestLoss(t *testing.T) {
	data := func(b *graph.Builder) {
		d := b.Data(graph.Data{Name: "d", Bytes: 100, Input: true})
		e := b.Data(graph.Data{Name: "e", Bytes: 100, Output: true})
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel}}, Work: graph.Work{Ops: 50},
			Uses: []graph.Use{{Data: d}, {Data: e, Access: graph.Write}}})
	}
	setup := func(t *testing.T) *rig {
		r := newRig(t, testMachine(), true, data)
		in := r.copy(in0, machine.Host, 0, 0, 1, 100)
		run := r.launch(lane0, 0, []engine.Arg{{Inst: 1, Bytes: 100}, {Inst: 2, Bytes: 100}}, in.Op)
		move := r.copy(in1, 0, 1, 2, 3, 100, run.Op)
		r.do(0,
			engine.Action{Kind: engine.Home, Device: machine.Host, Run: 1, Data: 0, Inst: 0, Bytes: 100},
			alloc(0, 1, 100), alloc(0, 2, 100), alloc(1, 3, 100), in, run, move)
		return r
	}
	t.Run("whole way", func(t *testing.T) {
		setup(t).want("2.1 ok 0-100", "1.1 ok 100-150", "5.1 ok 150-250")
	})
	t.Run("under a launch", func(t *testing.T) {
		r := setup(t)
		r.fault(120, "lose cuda:0") // no word of lane 1; the copy behind it fails
		r.want("2.1 ok 0-100", "lost 0 kept=false", "5.1 depfailed 120-120")
	})
	t.Run("under a peer's copy", func(t *testing.T) {
		r := setup(t)
		r.fault(200, "lose cuda:0")
		r.want("2.1 ok 0-100", "1.1 ok 100-150", "5.1 failed 150-200", "lost 0 kept=false")
	})
	t.Run("kept memory can be read on", func(t *testing.T) {
		r := setup(t)
		r.fault(200, "lose cuda:0 keep")
		r.fault(300, "back cuda:0")
		r.do(300, r.copy(in1, 0, 1, 2, 3, 100))
		r.want("2.1 ok 0-100", "1.1 ok 100-150", "5.1 failed 150-200", "lost 0 kept=true", "back 0 kept=true", "5.2 ok 300-400")
	})
	t.Run("lost memory cannot", func(t *testing.T) {
		r := setup(t)
		r.fault(200, "lose cuda:0")
		r.fault(300, "back cuda:0")
		r.do(300, r.copy(in1, 0, 1, 2, 3, 100))
		r.wantViolation("instance 2 is not live")
	})
	t.Run("memory is empty afterwards", func(t *testing.T) {
		r := setup(t)
		r.fault(200, "lose cuda:0")
		r.fault(300, "back cuda:0")
		r.do(300, alloc(0, 1, 1000))
		if r.err != nil {
			t.Error(r.err)
		}
	})
	t.Run("work for a lost device", func(t *testing.T) {
		r := setup(t)
		r.fault(120, "lose cuda:0")
		r.do(130, r.launch(lane0, 0, nil))
		r.wantViolation("is down")
	})
	t.Run("no way back but the script's", func(t *testing.T) {
		r := setup(t)
		r.fault(120, "lose cuda:0")
		r.do(120, engine.Action{Kind: engine.Recover, Device: 0})
		r.want("2.1 ok 0-100", "lost 0 kept=false", "5.1 depfailed 120-120", "lost 0 kept=false")
	})
}

func TestBrokenLink(t *testing.T) {
	m := testMachine()
	data := func(b *graph.Builder) {
		d := b.Data(graph.Data{Name: "d", Bytes: 100, Input: true})
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel}}, Uses: []graph.Use{{Data: d}}})
	}
	setup := func() *rig {
		r := newRig(t, m, true, data)
		r.do(0, engine.Action{Kind: engine.Home, Device: machine.Host, Run: 1, Inst: 0, Bytes: 100},
			alloc(0, 1, 100), alloc(1, 2, 100), r.copy(in0, machine.Host, 0, 0, 1, 100))
		return r
	}
	t.Run("in flight", func(t *testing.T) {
		r := setup()
		r.do(100, r.copy(in1, 0, 1, 1, 2, 100))
		r.fault(150, "break cuda:0 cuda:1")
		r.do(150, r.copy(in1, 0, 1, 1, 2, 100)) // through the host: two hops of 100ns by the roofline
		r.want("2.1 ok 0-100", "5.1 failed 100-150", "5.2 ok 150-350")
	})
	t.Run("cut off and mended", func(t *testing.T) {
		r := setup()
		r.fault(150, "break cuda:0 cuda:1")
		r.fault(200, "break host cuda:0")
		r.fault(300, "mend cuda:0 host")
		r.want("2.1 ok 0-100", "lost 0 kept=false", "back 0 kept=false")
	})
	t.Run("the way round costs more", func(t *testing.T) {
		c := newLinkCost(m, plain{})
		before := c.Epoch()
		if !c.Break(1, 0) || c.Break(0, 1) {
			t.Error("a link breaks once")
		}
		if c.Epoch() == before {
			t.Error("the epoch stayed")
		}
		if got := c.Copy(100, machine.Host, 0).Median; got != 100 {
			t.Errorf("an untouched way costs %v, want the model's 100ns", got)
		}
		c.Break(machine.Host, 0)
		if c.Reaches(0, 1) || c.Reaches(machine.Host, 0) || !c.Reaches(machine.Host, 1) {
			t.Error("cuda:0 alone is cut off")
		}
		if !c.Mend(0, 1) || !c.Reaches(0, 1) {
			t.Error("mended, cuda:0 reaches cuda:1 again")
		}
	})
}

// TestShared works one example out by hand: two launches of 100 ns on devices
// that share a resource, the second 50 ns later.
func TestShared(t *testing.T) {
	m := testMachine()
	m.Resources = []machine.Resource{{Name: "gpu"}, {Name: "switch", BPS: 1.5e9}}
	m.Devices[0].Resources = []string{"gpu"}
	m.Devices[1].Resources = []string{"gpu"}
	m.Links[0].Resources = []string{"switch"}
	m.Links[1].Resources = []string{"switch"}
	t.Run("launches", func(t *testing.T) {
		r := newRig(t, m, true, ops(100))
		r.do(0, r.launch(lane0, 0, nil))
		r.do(50, r.launch(lane1, 0, nil))
		r.want("1.1 ok 0-150", "4.1 ok 50-200")
	})
	t.Run("cores", func(t *testing.T) {
		m := testMachine()
		m.Resources = []machine.Resource{{Name: machine.HostCores, Cores: 4}}
		for i, cores := range []int{1, 3, 4} {
			m.Devices[i].ComputeUnits, m.Devices[i].Resources = cores, []string{machine.HostCores}
		}
		r := newRig(t, m, false, ops(100))
		// There are cores for the first two; from 50 on eight are asked for, until
		// the two have ended what half their speed leaves.
		r.do(0, r.launch(lane0, 0, nil), r.launch(lane1, 0, nil))
		r.do(50, r.launch(laneC, 0, nil))
		r.want("1.1 ok 0-150", "4.1 ok 0-150", "7.1 ok 50-200")
	})
	t.Run("copies", func(t *testing.T) {
		r := newRig(t, m, false, ops(1))
		// Alone each takes 1 GB/s; two get 0.75 each of the switch's 1.5.
		r.do(0, r.copy(in0, machine.Host, 0, 0, 1, 300), r.copy(in1, machine.Host, 1, 0, 2, 300))
		r.do(100, r.copy(out0, 0, machine.Host, 1, 0, 50)) // three get 0.5 each
		r.want("3.1 ok 100-200", "2.1 ok 0-434", "5.1 ok 0-434")
	})
}

// TestFlowAgainstReference compares end times of random operations on random
// resources with a reference that looks at everything at every step.
func TestFlowAgainstReference(t *testing.T) {
	type job struct {
		start, work float64
		uses        []int
		end         float64
	}
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		const n, res = 8, 3
		m := &machine.Machine{}
		for i := range res {
			m.Resources = append(m.Resources, machine.Resource{Name: fmt.Sprint("r", i)})
		}
		jobs := make([]job, n)
		for i := range jobs {
			jobs[i] = job{start: float64(rnd.IntN(500)), work: float64(1 + rnd.IntN(500))}
			d := machine.Device{Name: fmt.Sprint("d", i), HostMemory: true}
			for k := range res {
				if rnd.IntN(3) == 0 {
					jobs[i].uses = append(jobs[i].uses, k)
					d.Resources = append(d.Resources, fmt.Sprint("r", k))
				}
			}
			m.Devices = append(m.Devices, d)
		}
		r := newRig(t, m, false, func(b *graph.Builder) {
			for _, j := range jobs {
				ops(int(j.work))(b)
			}
		})
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return int(jobs[a].start - jobs[b].start) })
		for _, i := range order {
			r.do(time.Duration(jobs[i].start), r.launch(engine.Lane(1+3*i), graph.TaskID(i), nil))
		}
		r.until(math.MaxInt64)
		got := make(map[int]float64)
		for _, line := range r.log {
			var lane, seq, start, end int
			if _, err := fmt.Sscanf(line, "%d.%d ok %d-%d", &lane, &seq, &start, &end); err != nil {
				t.Fatal(err)
			}
			got[(lane-1)/3] = float64(end)
		}
		// The reference: go to the next start or end, whichever is first.
		left := make([]float64, n)
		for i := range jobs {
			left[i] = jobs[i].work
		}
		for now, open := 0.0, n; open > 0; {
			users := make([]int, res)
			running := func(i int) bool { return jobs[i].start <= now && jobs[i].end == 0 }
			for i := range jobs {
				if running(i) {
					for _, k := range jobs[i].uses {
						users[k]++
					}
				}
			}
			speed := func(i int) float64 {
				s := 1.0
				for _, k := range jobs[i].uses {
					s = min(s, 1/float64(users[k]))
				}
				return s
			}
			step := math.Inf(1)
			for i := range jobs {
				if running(i) {
					step = min(step, left[i]/speed(i))
				} else if jobs[i].start > now {
					step = min(step, jobs[i].start-now)
				}
			}
			var ended []int
			for i := range jobs {
				if running(i) {
					left[i] -= step * speed(i)
					if left[i] < 1e-6 {
						ended = append(ended, i)
					}
				}
			}
			now += step
			for _, i := range ended {
				jobs[i].end = now
				open--
			}
		}
		for i := range jobs {
			// Ends are whole nanoseconds, and each rounding can move others.
			if math.Abs(got[i]-jobs[i].end) > n {
				t.Errorf("seed %d: job %d ends at %v, want %v", seed, i, got[i], jobs[i].end)
			}
		}
	}
}

func TestLanesOfADeviceShareIt(t *testing.T) {
	m := testMachine()
	m.Devices[0].Lanes = 2
	r := newRig(t, m, true, ops(100))
	r.do(0, r.launch(1, 0, nil), r.launch(2, 0, nil))
	r.want("2.1 ok 0-200", "1.1 ok 0-200") // the first one's end was reckoned anew last
	if r.h.Busy(0) != 200 {
		t.Errorf("busy for %v, want 200ns", r.h.Busy(0))
	}
}

func TestNoise(t *testing.T) {
	ends := func(seed uint64) []time.Duration {
		m := testMachine()
		r := newRig(t, m, false, ops(1000, 1000, 1000, 1000))
		r.h.noise, r.h.seed = 0.1, seed
		for i := range 4 {
			r.do(0, r.launch(lane0, graph.TaskID(i), nil))
		}
		var out []time.Duration
		for {
			at, ok := r.h.Next()
			if !ok {
				return out
			}
			evs, _ := r.h.Advance(at, nil)
			for _, e := range evs {
				out = append(out, e.End-e.Start)
			}
		}
	}
	a, b, c := ends(1), ends(1), ends(2)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("durations %v, again %v, another seed %v", a, b, c)
	}
	for _, d := range a {
		if d < 900 || d > 1100 {
			t.Errorf("duration %v is off by more than a tenth", d)
		}
	}
	if slices.Max(a) == slices.Min(a) {
		t.Errorf("all durations are %v", a[0])
	}
}

// update is run 1 of the oracle's tests: y = f(x), then y is updated.
func update(b *graph.Builder) {
	x := b.Data(graph.Data{Name: "x", Bytes: 100, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 100, Output: true})
	b.Add(graph.Task{Name: "make", Steps: []graph.Step{{Kernel: kernel}}, Work: graph.Work{Ops: 10}, Workspace: 50,
		Uses: []graph.Use{{Data: x}, {Data: y, Access: graph.Write}}})
	b.Add(graph.Task{Name: "update", Steps: []graph.Step{{Kernel: kernel}}, Work: graph.Work{Ops: 10},
		Uses: []graph.Use{{Data: y, Access: graph.ReadWrite}}})
}

// TestOracle changes one thing in a right schedule at a time.
func TestOracle(t *testing.T) {
	const x, y, dx, dy, ws = 0, 1, 2, 3, 4 // instances: homes, on cuda:0, workspace
	arg := func(i engine.Inst, n int64) engine.Arg { return engine.Arg{Inst: i, Bytes: n} }
	type plan struct {
		r                            *rig
		homes, allocs                []engine.Action
		in, make, update, out, extra engine.Action
		end                          time.Duration
	}
	cases := []struct {
		name   string
		change func(p *plan)
		want   string
	}{
		{"right", func(p *plan) {}, ""},
		{"launch before its copy", func(p *plan) { p.make.Waits = nil }, "being written"},
		{"no copy at all", func(p *plan) { p.in = engine.Action{}; p.make.Waits = nil }, "not written"},
		{"update before make", func(p *plan) {
			p.update.Op, p.make.Op, p.update.Waits = p.make.Op, p.update.Op, nil
			p.make, p.update = p.update, p.make
		}, "not written"},
		{"update left out", func(p *plan) { p.update = p.extra; p.out.Waits = p.out.Waits[:1] }, "output \"y\" of run 1 is wrong"},
		{"updated twice", func(p *plan) {
			again := p.update
			again.Op.Seq++
			again.Waits = nil
			p.extra = again
			p.out.Waits = []engine.Op{again.Op}
		}, "another value"},
		{"output not fetched", func(p *plan) { p.out = p.extra }, "is wrong"},
		{"output fetched too early", func(p *plan) { p.out.Waits = p.make.Waits; p.out.Bytes = 100 }, "not written"},
		{"output overtaken", func(p *plan) { p.out.Waits = []engine.Op{p.make.Op} }, "its source changed under it"},
		{"half fetched", func(p *plan) { p.out.Bytes = 50 }, "is wrong"},
		{"done too early", func(p *plan) { p.end = 115 }, "is wrong"},
		{"no workspace", func(p *plan) { p.make.Args = p.make.Args[:2] }, "no workspace"},
		{"arguments swapped", func(p *plan) {
			p.make.Args = []engine.Arg{arg(dy, 100), arg(dx, 100), arg(ws, 50)}
		}, "not written"},
		{"argument too short", func(p *plan) { p.make.Args[0].Bytes = 99 }, "does not cover"},
		{"argument past the end", func(p *plan) { p.make.Args[0].Offset = 1 }, "bytes 1 to 101"},
		{"one argument more", func(p *plan) { p.update.Args = append(p.update.Args, arg(ws, 50)) }, "2 arguments instead of 1"},
		{"argument in another memory", func(p *plan) { p.make.Args[1].Inst = y }, "in the memory of host"},
		{"instance twice", func(p *plan) { p.allocs = append(p.allocs, alloc(0, dx, 10)) }, "which is live"},
		{"memory overfull", func(p *plan) { p.allocs = append(p.allocs, alloc(0, 9, 751)) }, "overfills the memory of cuda:0: 1001 of 1000"},
		{"memory just full", func(p *plan) { p.allocs = append(p.allocs, alloc(0, 9, 750)) }, ""},
		{"freed under a launch", func(p *plan) { p.extra = engine.Action{Kind: engine.Free, Inst: dx} }, "in flight use"},
		{"freed and used", func(p *plan) {
			p.allocs = append(p.allocs, engine.Action{Kind: engine.Free, Inst: dx})
		}, "instance 2 is not live"},
		{"freed twice", func(p *plan) {
			p.allocs = append(p.allocs, alloc(1, 9, 1), engine.Action{Kind: engine.Free, Inst: 9}, engine.Action{Kind: engine.Free, Inst: 9})
		}, "free of instance 9"},
		{"number left out", func(p *plan) { p.update.Op.Seq++ }, "number 3 on its lane"},
		{"waits for the future", func(p *plan) { p.make.Waits = []engine.Op{p.update.Op} }, "not given yet"},
		{"launch on a copy lane", func(p *plan) { p.make.Op = engine.Op{Lane: out0, Seq: 1} }, "not a compute lane"},
		{"copy on another's lane", func(p *plan) { p.in.Op = engine.Op{Lane: in1, Seq: 1} }, "does not carry it"},
		{"written by two at once", func(p *plan) {
			p.extra = engine.Action{Kind: engine.Copy, Op: engine.Op{Lane: in0, Seq: 2}, From: machine.Host, Device: 0, Src: x, Dst: dy, Bytes: 100, Waits: p.make.Waits}
		}, "changed under it"},
		{"recovered though it works", func(p *plan) { p.extra = engine.Action{Kind: engine.Recover, Device: 1} }, "which works"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, testMachine(), true, update)
			home := func(i engine.Inst) engine.Action {
				return engine.Action{Kind: engine.Home, Device: machine.Host, Run: 1, Data: graph.DataID(i), Inst: i, Bytes: 100}
			}
			p := &plan{r: r, homes: []engine.Action{home(x), home(y)}, end: 1000}
			p.allocs = []engine.Action{alloc(0, dx, 100), alloc(0, dy, 100), alloc(0, ws, 50)}
			p.in = r.copy(in0, machine.Host, 0, x, dx, 100)
			p.make = r.launch(lane0, 0, []engine.Arg{arg(dx, 100), arg(dy, 100), arg(ws, 50)}, p.in.Op)
			p.update = r.launch(lane0, 1, []engine.Arg{arg(dy, 100)}, p.make.Op)
			p.out = r.copy(out0, 0, machine.Host, dy, y, 100, p.make.Op, p.update.Op)
			nothing := engine.Action{Kind: engine.Alloc, Device: 1, Inst: 20, Bytes: 1}
			p.extra = nothing
			c.change(p)
			var acts []engine.Action
			used := engine.Inst(20)
			for _, a := range slices.Concat(p.homes, p.allocs, []engine.Action{p.in, p.make, p.update, p.extra, p.out}) {
				switch {
				case a.Kind == engine.Home && a.Bytes == 0: // left out
				case a.Kind == engine.Alloc && a.Inst == nothing.Inst:
					a.Inst = used
					used++
					acts = append(acts, a)
				default:
					acts = append(acts, a)
				}
			}
			r.do(0, acts...)
			r.do(p.end, engine.Action{Kind: engine.Done, Run: 1})
			if c.want != "" {
				r.wantViolation(c.want)
			} else if r.until(math.MaxInt64); r.err != nil {
				t.Error(r.err)
			}
		})
	}
}

// grind keeps a machine of many devices busy with tasks that share nothing. A
// step goes on to the next time anything ends and returns how much did.
func grind(tb testing.TB, devices, depth int) (step func() int) {
	m := &machine.Machine{}
	for i := range devices {
		m.Devices = append(m.Devices, machine.Device{Name: fmt.Sprint("d", i), HostMemory: true})
	}
	var b graph.Builder
	ops(100_000, 130_000, 170_000)(&b)
	g, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	h := newHardware(hardwareOptions{Machine: m, Lanes: lanesOf(m), Cost: plain{}, Noise: 0.1})
	var acts []engine.Action
	var evs []engine.Event
	seq := make([]uint32, len(h.lanes))
	give := func(l engine.Lane) {
		seq[l]++
		acts = append(acts, engine.Action{
			Kind: engine.Launch, Op: engine.Op{Lane: l, Seq: seq[l]}, Device: h.lanes[l].info.Device, Graph: g, Task: graph.TaskID(seq[l] % 3),
		})
	}
	for i := range devices {
		for range depth {
			give(engine.Lane(1 + 3*i))
		}
	}
	return func() int {
		now := h.now
		if err := h.Apply(now, acts); err != nil {
			tb.Fatal(err)
		}
		acts = acts[:0]
		now, ok := h.Next()
		if !ok {
			tb.Fatal("nothing runs")
		}
		evs, _ = h.Advance(now, evs[:0])
		for i := range evs {
			give(evs[i].Op.Lane)
		}
		return len(evs)
	}
}

func TestNoAllocation(t *testing.T) {
	step := grind(t, 16, 8)
	for range 1000 {
		step()
	}
	if n := testing.AllocsPerRun(1000, func() { step() }); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

func BenchmarkHardware(b *testing.B) {
	step := grind(b, 1024, 8)
	n := 0
	for b.Loop() {
		n += step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/operation")
}
