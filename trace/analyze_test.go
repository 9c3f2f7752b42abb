package trace

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-4 }

func TestKnownAnswers(t *testing.T) {
	for _, s := range scenarios() {
		if s.want.verdict == "" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			a := Analyze(s.m, s.evs, nil)
			w := s.want
			if a.Bottleneck != w.verdict || !strings.HasPrefix(a.Sentence, string(w.verdict)+": ") {
				t.Errorf("verdict %q (%q), want %q", a.Bottleneck, a.Sentence, w.verdict)
			}
			if a.Makespan != w.makespan || a.PathLength != w.path || a.Balanced != w.balanced {
				t.Errorf("makespan %v, path %v, balanced %v; want %v, %v, %v",
					a.Makespan, a.PathLength, a.Balanced, w.makespan, w.path, w.balanced)
			}
			for d := range a.Devices {
				if a.Devices[d].Compute != w.compute[d] {
					t.Errorf("%s computed %v, want %v", a.Devices[d].Name, a.Devices[d].Compute, w.compute[d])
				}
			}
			if !near(a.Mean, w.mean) || !near(a.StdDev, w.stdDev) || !near(a.Imbalance, w.imbalance) {
				t.Errorf("utilisation mean %v, deviation %v, imbalance %v; want %v, %v, %v",
					a.Mean, a.StdDev, a.Imbalance, w.mean, w.stdDev, w.imbalance)
			}
			seen := 0
			for i, f := range a.Fixes {
				if i > 0 && f.Gain > a.Fixes[i-1].Gain {
					t.Errorf("fix %q is ranked below a smaller one", f.What)
				}
				if !near(f.Gain, 1-float64(f.Makespan)/float64(a.Makespan)) {
					t.Errorf("fix %q: gain %v does not fit makespan %v of %v", f.What, f.Gain, f.Makespan, a.Makespan)
				}
				found := false
				for prefix, gain := range w.gains {
					if strings.HasPrefix(f.What, prefix) {
						found = true
						seen++
						if !near(f.Gain, gain) {
							t.Errorf("fix %q gains %v, want %v", f.What, f.Gain, gain)
						}
					}
				}
				if !found {
					t.Errorf("unexpected fix %q gaining %v", f.What, f.Gain)
				}
			}
			if seen != len(w.gains) {
				t.Errorf("%d of %d expected fixes: %+v", seen, len(w.gains), a.Fixes)
			}
		})
	}
}

func TestShares(t *testing.T) {
	byName := make(map[string]Analysis)
	for _, s := range scenarios() {
		a := Analyze(s.m, s.evs, nil)
		byName[s.name] = a
		sh := a.Shares
		sum := sh.Compute + sh.Launch + sh.Wasted + sh.Transfer + sh.Dispatch + sh.Sync + sh.Idle
		if s.name != "empty" && !near(sum, 1) {
			t.Errorf("%s: shares add up to %v: %+v", s.name, sum, sh)
		}
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"launch: launch", byName["launch"].Shares.Launch, 0.25},
		{"launch: compute", byName["launch"].Shares.Compute, 0.75},
		// 10 ms were available, of which 2 ran what failed.
		{"faults: wasted", byName["faults"].Shares.Wasted, 0.2},
		{"faults: compute", byName["faults"].Shares.Compute, 0.8},
		// Both devices take part in the copy for 3 of 7 ms, the consumer
		// waits for its input for the 2 ms before.
		{"transfer: transfer", byName["transfer"].Shares.Transfer, 6. / 14},
		{"transfer: sync", byName["transfer"].Shares.Sync, 2. / 14},
		{"transfer: idle", byName["transfer"].Shares.Idle, 2. / 14},
		{"dispatch: dispatch", byName["dispatch"].Shares.Dispatch, 1. / 3},
		// Tasks 1, 3 queue 2 ms each; all take 2+4+2+4 ms from ready to end.
		{"queueing: queueing", byName["queueing"].Queueing, 4. / 12},
		{"lanes: occupancy", byName["lanes"].Devices[0].Occupancy(), 8. / 12},
		{"lanes: transfer", byName["lanes"].Shares.Transfer, 0},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
	if d := byName["lanes"].Devices[0]; d.CopyTime != 2*ms || d.BytesIn != 64<<20 {
		t.Errorf("hidden copy: %v of %d bytes", d.CopyTime, d.BytesIn)
	}
	if d := byName["faults"].Devices[1]; d.Available != 2*ms || d.Failed != 1 || d.Wasted != 2*ms {
		t.Errorf("lost device: available %v, %d failed, wasted %v", d.Available, d.Failed, d.Wasted)
	}
	if d := byName["many"].Devices[7]; d.Available != 70*ms {
		t.Errorf("a device lost for 30 of 100 ms was available for %v", d.Available)
	}
}

func TestReplayedTasksAreWaste(t *testing.T) {
	again := change(Replay, 1, 4*ms)
	again.Task = 0
	a := Analyze(devices(2), []Event{
		exec(0, 0, 0, 2*ms, 0), exec(1, 0, 2*ms, 4*ms, 0), change(Lost, 0, 4*ms),
		again, exec(0, 1, 4*ms, 6*ms, 0), exec(2, 1, 6*ms, 8*ms, 6*ms),
	}, nil)
	if a.Repeated != 1 || a.Devices[1].Wasted != 2*ms || a.LostDevices != 1 {
		t.Errorf("%d repeated, wasted %v, %d lost", a.Repeated, a.Devices[1].Wasted, a.LostDevices)
	}
}

// TestRetryWaitsForItsFailure has a task fail at 2 ms, be found out at 5 and run
// again on a free device: without the fault it starts at once.
func TestRetryWaitsForItsFailure(t *testing.T) {
	failed := exec(0, 1, 0, 2*ms, 0)
	failed.Failed = true
	mo := newCauseGraph(devices(2), []Event{failed, exec(0, 0, 5*ms, 7*ms, 0)}, nil)
	if got := mo.replay(without{faults: true}); got != 2*ms {
		t.Errorf("without the fault it takes %v, want 2ms", got)
	}
	if got := mo.replay(without{}); got != 7*ms {
		t.Errorf("with the fault it takes %v, want 7ms", got)
	}
	// Members of a gang run the same task at the same time; that one fails
	// does not make the other a retry.
	mo = newCauseGraph(devices(2), []Event{failed, exec(0, 0, 0, 5*ms, 0)}, nil)
	if slices.Contains(mo.retried, true) {
		t.Error("a gang's member counts as a retry")
	}
}

// TestCopyOfOneOfTwo has two tasks end together, of which the copy's task needs
// the second.
func TestCopyOfOneOfTwo(t *testing.T) {
	evs := []Event{exec(0, 0, ms, 4*ms, 0), exec(1, 1, 2*ms, 4*ms, 0), transfer(2, 1, 0, 4*ms, 5*ms, 4*ms), exec(2, 0, 5*ms, 6*ms, 5*ms)}
	a := Analyze(devices(2), evs, func(_ int32, task graph.TaskID) []int32 {
		if task == 2 {
			return []int32{1}
		}
		return nil
	})
	if !slices.Equal(a.Path, evs[1:]) || a.PathLength != 4*ms {
		t.Errorf("critical path of %v: %+v", a.PathLength, a.Path)
	}
}

// TestOneQueuedTaskFillsOneDevice has two devices free for the 2 ms a task
// queues: it could have used one of them, a third of the machine.
func TestOneQueuedTaskFillsOneDevice(t *testing.T) {
	a := Analyze(devices(3), []Event{exec(0, 0, 0, 2*ms, 0), exec(1, 0, 2*ms, 4*ms, 0)}, nil)
	i := slices.IndexFunc(a.Fixes, func(f Fix) bool { return f.For == Queueing })
	if i < 0 || !near(a.Fixes[i].Gain, (2./3)/4) {
		t.Errorf("fixes %+v, want queueing to gain a sixth", a.Fixes)
	}
}

func TestMissingEventsMoveTheBeginning(t *testing.T) {
	r := NewRecorder(2)
	r.Record(change(RunBegin, machine.Host, 0))
	for i := range 5 {
		t := time.Duration(i) * ms
		r.Record(exec(graph.TaskID(i), 0, t, t+ms, t))
	}
	a := Analyze(devices(1), r.Events(), nil)
	if a.Missing != 3 || a.Begin != 4*ms || a.Makespan != ms || !near(a.Mean, 1) {
		t.Errorf("missing %d, %v from %v, utilisation %v", a.Missing, a.Makespan, a.Begin, a.Mean)
	}
}

// made is a random trace with the rules that made it, so that it can be made
// again without copies, launches or delays.
type made struct {
	m     *machine.Machine
	tasks []madeTask
	preds [][]int32
}

type madeTask struct {
	device      machine.DeviceID
	took, delay time.Duration
	copies      []time.Duration // one for each predecessor on another device
}

const madeLaunch = 1000 * time.Nanosecond

func make1(seed uint64) *made {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := &made{m: devices(1 + rng.IntN(4))}
	for d := range x.m.Devices {
		x.m.Devices[d].Rates.LaunchNS = float64(madeLaunch)
	}
	for i := range 1 + rng.IntN(60) {
		t := madeTask{
			device: machine.DeviceID(rng.IntN(len(x.m.Devices))),
			took:   madeLaunch + 1 + time.Duration(rng.IntN(1e6)),
			delay:  time.Duration(rng.IntN(1e4)),
		}
		var preds []int32
		for range rng.IntN(4) {
			if i > 0 {
				if p := int32(rng.IntN(i)); !slices.Contains(preds, p) {
					preds = append(preds, p)
					t.copies = append(t.copies, 1+time.Duration(rng.IntN(1e6)))
				}
			}
		}
		x.preds = append(x.preds, preds)
		x.tasks = append(x.tasks, t)
	}
	return x
}

func (x *made) deps(_ int32, t graph.TaskID) []int32 { return x.preds[t] }

// run plays the tasks in order of number, every lane in order.
func (x *made) run(w without) []Event {
	n := len(x.m.Devices)
	free, copyFree := make([]time.Duration, n), make([]time.Duration, n)
	ends := make([]time.Duration, len(x.tasks))
	evs := []Event{change(RunBegin, machine.Host, 0)}
	for i, t := range x.tasks {
		var inputs time.Duration
		for k, p := range x.preds[i] {
			from := x.tasks[p].device
			if from == t.device {
				inputs = max(inputs, ends[p])
				continue
			}
			start := max(ends[p], copyFree[t.device])
			end := start + t.copies[k]
			if w.copies {
				end = start
			}
			copyFree[t.device] = end
			inputs = max(inputs, end)
			evs = append(evs, transfer(graph.TaskID(i), from, t.device, start, end, ends[p]))
		}
		start, took := max(inputs, free[t.device])+t.delay, t.took
		if w.delays {
			start -= t.delay
		}
		if w.launches {
			took -= madeLaunch
		}
		ends[i] = start + took
		free[t.device] = ends[i]
		evs = append(evs, exec(graph.TaskID(i), t.device, start, ends[i], inputs))
	}
	return evs
}

func span(evs []Event) time.Duration {
	var end time.Duration
	for _, e := range evs {
		end = max(end, e.End)
	}
	return end
}

// longest is the critical path by plain recursion over tasks.
func (x *made) longest(copies bool) time.Duration {
	memo := make([]time.Duration, len(x.tasks))
	var most time.Duration
	for i, t := range x.tasks {
		for k, p := range x.preds[i] {
			via := memo[p]
			if copies && x.tasks[p].device != t.device {
				via += t.copies[k]
			}
			memo[i] = max(memo[i], via)
		}
		memo[i] += t.took
		most = max(most, memo[i])
	}
	return most
}

// TestReplayPredictsTheRun checks predictions against making the run again
// under the changed rules, the critical path against recursion, and the account
// of each device against looking at it one moment after the other.
func TestReplayPredictsTheRun(t *testing.T) {
	for seed := range uint64(300) {
		x := make1(seed)
		evs := x.run(without{})
		mo := newCauseGraph(x.m, evs, x.deps)
		for _, w := range []without{{}, {copies: true}, {launches: true}, {delays: true},
			{copies: true, launches: true, delays: true}} {
			if got, want := mo.replay(w), span(x.run(w)); got != want {
				t.Errorf("seed %d: replay of %+v takes %v, want %v", seed, w, got, want)
			}
		}
		if got := newCauseGraph(x.m, evs, nil).replay(without{}); got != span(evs) {
			t.Errorf("seed %d: replay by times alone takes %v, want %v", seed, got, span(evs))
		}
		for _, copies := range []bool{false, true} {
			if _, got := mo.criticalPath(copies); got != x.longest(copies) {
				t.Errorf("seed %d: critical path (copies %v) %v, want %v", seed, copies, got, x.longest(copies))
			}
		}
		a := Analyze(x.m, evs, x.deps)
		var along time.Duration
		for i, e := range a.Path {
			along += e.End - e.Start
			if i > 0 && e.Start < a.Path[i-1].End {
				t.Errorf("seed %d: step %d of the path starts before the one before ends", seed, i)
			}
		}
		if along != a.PathLength {
			t.Errorf("seed %d: the path's steps take %v, not %v", seed, along, a.PathLength)
		}
		shuffled := slices.Clone(evs)
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		if b := Analyze(x.m, shuffled, x.deps); b.Sentence != a.Sentence || !slices.Equal(b.Fixes, a.Fixes) {
			t.Errorf("seed %d: the order of events changes the verdict: %q and %q", seed, a.Sentence, b.Sentence)
		}
	}
}

func TestAccountAgainstSampling(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := devices(2)
		var evs []Event
		for i := range 30 {
			start := time.Duration(rng.IntN(200))
			d := machine.DeviceID(rng.IntN(2))
			e := exec(graph.TaskID(i), d, start, start+time.Duration(rng.IntN(20)), 0)
			e.Lane = uint8(rng.IntN(3))
			if rng.IntN(3) == 0 {
				e.Kind, e.From = Copy, machine.DeviceID(rng.IntN(3)-1)
				e.Device = machine.DeviceID(rng.IntN(3) - 1)
			} else {
				e.Issued = max(0, start-time.Duration(rng.IntN(10)))
			}
			evs = append(evs, e)
		}
		evs = append(evs, change(RunBegin, machine.Host, 0), change(RunEnd, machine.Host, 250),
			change(Lost, 0, 100), change(Back, 0, 120), change(Fail, 0, 180))
		a := Analyze(m, evs, nil)
		for d := range m.Devices {
			var compute, transfers, free, avail time.Duration
			for at := time.Duration(0); at < 250; at++ {
				var exec, copying, issued bool
				for _, e := range evs {
					here := e.Start <= at && at < e.End
					switch {
					case e.Kind == Exec && int(e.Device) == d:
						exec = exec || here
						issued = issued || e.Issued <= at && at < e.Start
					case e.Kind == Copy && (int(e.Device) == d || int(e.From) == d):
						copying = copying || here
					}
				}
				if d == 0 && (at >= 100 && at < 120 || at >= 180) {
					continue
				}
				avail++
				switch {
				case exec:
					compute++
				case copying:
					transfers++
				case !issued:
					free++
				}
			}
			u := a.Devices[d]
			if u.Compute != compute || u.Transfer != transfers || u.Idle != free || u.Available != avail {
				t.Errorf("seed %d: %s computed %d, copied %d, idled %d of %d; want %d, %d, %d of %d", seed, u.Name,
					u.Compute, u.Transfer, u.Idle, u.Available, compute, transfers, free, avail)
			}
			if u.Compute+u.Transfer+u.Dispatch+u.Sync+u.Idle != u.Available {
				t.Errorf("seed %d: %s's time does not add up: %+v", seed, u.Name, u)
			}
		}
	}
}

func TestEfficiency(t *testing.T) {
	evs := []Event{exec(0, 0, 0, 6*ms, 0), exec(1, 1, 0, 2*ms, 0), exec(2, 0, 6*ms, 8*ms, 0)}
	if got := Efficiency(devices(2), evs, 4*ms); got != 0.5 {
		t.Errorf("4 of 8 ms is %v", got)
	}
	// 10 ms of work on two devices, but one task alone takes 6.
	if got := Efficiency(devices(2), evs, 0); got != 0.75 {
		t.Errorf("the trace's own bound gives %v, want 0.75", got)
	}
	if got := Efficiency(devices(2), nil, ms); got != 0 {
		t.Errorf("an empty trace has efficiency %v", got)
	}
	for _, c := range []struct {
		efficiency float64
		word       string
	}{{0.81, "excellent"}, {0.8, "good"}, {0.61, "good"}, {0.6, "poor"}, {0, "poor"}} {
		if got := ScalingVerdict(c.efficiency); !strings.HasPrefix(got, c.word) {
			t.Errorf("%v is %q, want %s", c.efficiency, got, c.word)
		}
	}
}

func TestUnknownDevicesAreIgnored(t *testing.T) {
	evs := []Event{exec(0, 0, 0, ms, 0), exec(1, 9, 0, 5*ms, 0), exec(2, -1, 0, 5*ms, 0),
		transfer(0, 7, 0, 0, 9*ms, 0), change(Lost, 12, 0)}
	for _, n := range []int{1, 0} {
		m := devices(n)
		a := Analyze(m, evs, nil)
		if want := time.Duration(n) * ms; a.Makespan != want {
			t.Errorf("%d devices: makespan %v, want %v", n, a.Makespan, want)
		}
		var b bytes.Buffer
		if err := WriteTimeline(&b, m, evs, 0); err != nil {
			t.Error(err)
		}
		if err := WriteAnalysis(&b, a); err != nil {
			t.Error(err)
		}
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0 ns"}, {999, "999 ns"}, {1000, "1 µs"}, {1234567, "1.23 ms"}, {12345678, "12.3 ms"},
		{123456789, "123 ms"}, {100 * time.Second, "100 s"}, {1200 * time.Second, "1200 s"},
	} {
		if got := short(c.d); got != c.want {
			t.Errorf("short(%d) is %q, want %q", c.d, got, c.want)
		}
	}
}

func BenchmarkAnalyze(b *testing.B) {
	m := devices(8)
	var evs []Event
	for i := range 100_000 {
		t := time.Duration(i/8) * ms
		evs = append(evs, exec(graph.TaskID(i), machine.DeviceID(i%8), t, t+ms, t))
	}
	b.ReportAllocs()
	for b.Loop() {
		Analyze(m, evs, nil)
	}
}
