package trace

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

const ms = time.Millisecond

func devices(n int) *machine.Machine {
	m := &machine.Machine{Name: "test"}
	for i := range n {
		m.Devices = append(m.Devices, machine.Device{Name: fmt.Sprintf("cuda:%d", i), Model: "Test GPU", Lanes: 1})
	}
	return m
}

func exec(task graph.TaskID, d machine.DeviceID, start, end, inputs time.Duration) Event {
	return Event{Kind: Exec, Task: task, Device: d, From: machine.Host, Start: start, End: end, InputsAt: inputs, Predicted: end - start}
}

func transfer(task graph.TaskID, from, to machine.DeviceID, start, end, source time.Duration) Event {
	return Event{Kind: Copy, Task: task, From: from, Device: to, Start: start, End: end, InputsAt: source, Bytes: 64 << 20}
}

func change(k Kind, d machine.DeviceID, at time.Duration) Event {
	return Event{Kind: k, Device: d, From: machine.Host, Task: graph.NoTask, Start: at}
}

// scenario is a trace made by hand whose answers are known.
type scenario struct {
	name string
	m    *machine.Machine
	evs  []Event
	want want
}

// want holds what was worked out on paper; gains are in shares of the makespan.
type want struct {
	verdict   Verdict
	makespan  time.Duration
	compute   []time.Duration // by device
	path      time.Duration
	balanced  time.Duration
	mean      float64
	stdDev    float64
	imbalance float64
	gains     map[string]float64 // by a prefix of Fix.What; others must be absent
}

func scenarios() []scenario {
	var list []scenario
	add := func(name string, m *machine.Machine, w want, evs ...Event) {
		list = append(list, scenario{name, m, evs, w})
	}

	add("empty", devices(2), want{verdict: Underused, compute: []time.Duration{0, 0}})

	// Two full devices and nothing to improve but a third.
	add("compute", devices(2), want{
		verdict: ComputeBound, makespan: 10 * ms, compute: []time.Duration{10 * ms, 10 * ms},
		path: 5 * ms, balanced: 10 * ms, mean: 1,
		gains: map[string]float64{"one more": 1. / 3},
	},
		exec(0, 0, 0, 5*ms, 0), exec(1, 0, 5*ms, 10*ms, 0),
		exec(2, 1, 0, 5*ms, 0), exec(3, 1, 5*ms, 10*ms, 0))

	// Four tasks against two: balanced, 3 ms each would do. While the first
	// device's last task waits, from 2 to 3 ms, half the machine is free.
	add("imbalance", devices(2), want{
		verdict: Imbalance, makespan: 4 * ms, compute: []time.Duration{4 * ms, 2 * ms},
		path: ms, balanced: 3 * ms, mean: 0.75, stdDev: 0.25, imbalance: 1. / 3,
		gains: map[string]float64{"perfect": 0.25, "one more": 0.25, "running queued": 0.125},
	},
		exec(0, 0, 0, ms, 0), exec(1, 0, ms, 2*ms, 0), exec(2, 0, 2*ms, 3*ms, 0), exec(3, 0, 3*ms, 4*ms, 0),
		exec(4, 1, 0, ms, 0), exec(5, 1, ms, 2*ms, 0))

	// A chain that alternates: half of each device is lost to waiting. The
	// devices are equally loaded, so neither balance nor a third one helps.
	add("dependency", devices(2), want{
		verdict: DependencyBound, makespan: 8 * ms, compute: []time.Duration{4 * ms, 4 * ms},
		path: 8 * ms, balanced: 4 * ms, mean: 0.5,
		gains: map[string]float64{"a critical path split": 0.5},
	},
		exec(0, 0, 0, 2*ms, 0), exec(1, 1, 2*ms, 4*ms, 2*ms),
		exec(2, 0, 4*ms, 6*ms, 4*ms), exec(3, 1, 6*ms, 8*ms, 6*ms))

	// Produce, copy over, consume: 3 of 7 ms are the copy's. Without it the
	// chain is 4 ms, 2 more than balanced work.
	add("transfer", devices(2), want{
		verdict: TransferBound, makespan: 7 * ms, compute: []time.Duration{2 * ms, 2 * ms},
		path: 7 * ms, balanced: 2 * ms, mean: 2. / 7,
		gains: map[string]float64{"copies": 3. / 7, "a critical path split": 2. / 7},
	},
		exec(0, 0, 0, 2*ms, 0), transfer(1, 0, 1, 2*ms, 5*ms, 2*ms), exec(1, 1, 5*ms, 7*ms, 5*ms))

	// Small kernels: 0.25 of each 1 ms is the launch.
	small := devices(1)
	small.Devices[0].Rates.LaunchNS = 250e3
	add("launch", small, want{
		verdict: OverheadBound, makespan: 4 * ms, compute: []time.Duration{4 * ms},
		path: ms, balanced: 4 * ms, mean: 1,
		gains: map[string]float64{"no launch": 0.25, "one more": 0.5},
	},
		exec(0, 0, 0, ms, 0), exec(1, 0, ms, 2*ms, 0), exec(2, 0, 2*ms, 3*ms, 0), exec(3, 0, 3*ms, 4*ms, 0))

	// The device is free and the task there, yet 1 ms passes before each.
	add("dispatch", devices(1), want{
		verdict: OverheadBound, makespan: 6 * ms, compute: []time.Duration{4 * ms},
		path: 2 * ms, balanced: 4 * ms, mean: 2. / 3,
		gains: map[string]float64{"no dispatch": 1. / 3, "one more": 1. / 3},
	},
		change(RunBegin, machine.Host, 0), exec(0, 0, ms, 3*ms, 0), exec(1, 0, 4*ms, 6*ms, 0))

	// Both devices compute 4 ms, but not at the same time: tasks queue at one
	// while the other has none. Tasks 2 and 3 are submitted at 4 ms. From 0 to
	// 2 and from 4 to 6 ms one task queues while half the machine is free.
	late := func(e Event) Event { e.Ready, e.Issued = 4*ms, 4*ms; return e }
	add("queueing", devices(2), want{
		verdict: Queueing, makespan: 8 * ms, compute: []time.Duration{4 * ms, 4 * ms},
		path: 2 * ms, balanced: 4 * ms, mean: 0.5,
		gains: map[string]float64{"running queued": 0.25, "one more": 1. / 6},
	},
		exec(0, 0, 0, 2*ms, 0), exec(1, 0, 2*ms, 4*ms, 0),
		late(exec(2, 1, 4*ms, 6*ms, 0)), late(exec(3, 1, 6*ms, 8*ms, 0)))

	// Task 1 fails after 2 ms on the second device, which is lost then; it
	// runs again on the first. In this order nothing ends sooner without the
	// failure, but 16 ms of device time would have been there instead of 10:
	// the 8 ms become 5.
	failed := exec(1, 1, 0, 2*ms, 0)
	failed.Failed = true
	add("faults", devices(2), want{
		verdict: Faults, makespan: 8 * ms, compute: []time.Duration{8 * ms, 2 * ms},
		path: 4 * ms, balanced: 8 * ms, mean: 1,
		gains: map[string]float64{"no faults": 0.375, "one more": 1. / 3},
	},
		exec(0, 0, 0, 4*ms, 0), failed, change(Lost, 1, 2*ms), change(Retry, 1, 2*ms),
		exec(1, 0, 4*ms, 8*ms, 0))

	// A task every 10 ms that takes 1.
	at := func(e Event, t time.Duration) Event { e.Ready, e.Issued = t, t; return e }
	add("underused", devices(1), want{
		verdict: Underused, makespan: 21 * ms, compute: []time.Duration{3 * ms},
		path: ms, balanced: 3 * ms, mean: 1. / 7,
		gains: map[string]float64{"one more": 1.5 / 21},
	},
		exec(0, 0, 0, ms, 0), at(exec(1, 0, 10*ms, 11*ms, 0), 10*ms), at(exec(2, 0, 20*ms, 21*ms, 0), 20*ms))

	// The second device is four times slower. Spread 4:1, the first's 4 ms of
	// work are done after 3.2. A fifth of the machine is free while tasks
	// queue, for 3 ms.
	uneven := devices(2)
	uneven.Devices[0].Rates.Ops[graph.FP32] = 4e12
	uneven.Devices[1].Rates.Ops[graph.FP32] = 1e12
	add("uneven", uneven, want{
		verdict: Imbalance, makespan: 4 * ms, compute: []time.Duration{4 * ms, 0},
		path: ms, balanced: 3200 * time.Microsecond, mean: 0.5, stdDev: 0.5, imbalance: 1,
		gains: map[string]float64{"perfect": 0.2, "running queued": 0.15, "one more": 0.8 / 3},
	},
		exec(0, 0, 0, ms, 0), exec(1, 0, ms, 2*ms, 0), exec(2, 0, 2*ms, 3*ms, 0), exec(3, 0, 3*ms, 4*ms, 0))

	// Two lanes of one device overlap, with a copy hidden behind them. The
	// device computes 6 ms in all though its lanes add up to 8.
	lanes := devices(1)
	lanes.Devices[0].Lanes = 2
	second := exec(1, 0, 2*ms, 6*ms, 0)
	second.Lane, second.Ready = 1, 2*ms
	add("lanes", lanes, want{
		verdict: ComputeBound, makespan: 6 * ms, compute: []time.Duration{6 * ms},
		path: 4 * ms, balanced: 6 * ms, mean: 1,
		gains: map[string]float64{"one more": 1. / 3},
	},
		exec(0, 0, 0, 4*ms, 0), second, transfer(graph.NoTask, machine.Host, 0, ms, 3*ms, 0))

	// A big machine of which a part comes back; only the text is of interest.
	many := devices(40)
	many.Devices[3].Name = "a device with a very long name\x1b[2J"
	evs := []Event{change(RunBegin, machine.Host, 0), change(Lost, 7, 30*ms), change(Back, 7, 60*ms), change(Fail, 9, 80*ms)}
	for d := range 40 {
		took := time.Duration(100-d) * ms
		switch d {
		case 7:
			took = 30 * ms
		case 9:
			took = 80 * ms
		}
		evs = append(evs, transfer(graph.TaskID(d), machine.Host, machine.DeviceID(d), 0, 5*ms, 0),
			exec(graph.TaskID(d), machine.DeviceID(d), 5*ms, took, 5*ms))
	}
	add("many", many, want{}, evs...)
	return list
}

func TestGolden(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := WriteTimeline(&b, s.m, s.evs, 80); err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(b.String(), "\n") {
				if n := len([]rune(line)); n > 80 {
					t.Errorf("timeline line of %d columns: %q", n, line)
				}
			}
			b.WriteByte('\n')
			if err := WriteAnalysis(&b, Analyze(s.m, s.evs, nil)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", s.name+".golden")
			if *rewrite {
				if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v; run go test ./trace -run TestGolden -rewrite", err)
			}
			if !bytes.Equal(b.Bytes(), golden) {
				t.Errorf("%s differs; got\n%s", file, b.Bytes())
			}
		})
	}
}
