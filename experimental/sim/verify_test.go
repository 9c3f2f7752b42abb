package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// tower is layers of tasks that each update a part of x and read a part of y that a task of the
// layer before has written.
func tower(t *testing.T, layers, width int) *graph.Graph {
	t.Helper()
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: int64(100 * width), Input: true, Output: true})
	y := b.Data(graph.Data{Name: "y", Bytes: int64(10 * width), Input: true, Output: true})
	for l := range layers {
		for i := range width {
			from := (i*7 + l) % width
			uses := []graph.Use{{Data: x, Offset: int64(100 * i), Bytes: 100, Access: graph.ReadWrite}}
			if l%2 == 0 {
				uses = append(uses, graph.Use{Data: y, Offset: int64(10 * i), Bytes: 10, Access: graph.Write})
			} else {
				uses = append(uses, graph.Use{Data: y, Offset: int64(10 * from), Bytes: 10})
			}
			b.Add(graph.Task{Name: fmt.Sprintf("%d.%d", l, i), Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Uses: uses, Work: graph.Work{Ops: 1e6}})
		}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// sameGPUs is a machine of n equal GPUs.
func sameGPUs(n int) *machine.Machine {
	m := &machine.Machine{Name: "same", HostBPS: 1e10}
	for i := range n {
		d := machine.Device{Name: fmt.Sprintf("cuda:%d", i), Kind: machine.Discrete, Backend: "cuda", MemBytes: 1 << 30}
		d.Rates.Ops[graph.FP32] = 1e9
		m.Devices = append(m.Devices, d)
		m.Links = append(m.Links, machine.Link{A: machine.DeviceID(i), B: machine.Host, BPS: 1e10, LatencyNS: 1e3})
	}
	return m
}

// A device corrupts some of its results silently, and others are lost and fail meanwhile. With every task
// verified all results are right, and the device is drained once it was seen. No reader
// sees a wrong value before: the oracle looks at each.
func TestVerifyIsRight(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 30
	}
	drained, replays := 0, 0
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 77))
		n := 3 + rnd.IntN(3)
		bad := machine.DeviceID(rnd.IntN(n))
		c := Config{
			Machine: sameGPUs(n), Seed: seed, Noise: 0.3, Verify: 1, Corrupt: make([]float64, n), Concurrent: rnd.IntN(3) * 4,
			Jobs: []Job{{Name: "a", Graph: tower(t, 1+rnd.IntN(6), 1+rnd.IntN(12))}, {Name: "b", At: 1e6, Graph: tower(t, 3, 5)}},
		}
		c.Corrupt[bad] = []float64{0.01, 0.1, 0.5, 1}[rnd.IntN(4)]
		if n > 3 && rnd.IntN(2) == 0 { // another is lost and comes back, and one fails; three are left
			other := (bad + 1) % machine.DeviceID(n)
			c.Faults = Faults{{At: 3e6, Kind: FailNext, Device: (other + 1) % machine.DeviceID(n)}, {At: 4e6, Kind: Lose, Device: other}, {At: 2e7, Kind: Back, Device: other}}
		}
		l, err := newLoop(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		wrong := 0
		for i, r := range l.runs {
			if r.Err != nil || r.Spoilt || r.Verified != c.Jobs[i].Graph.NumTasks()+r.Report.Replays || r.Unverified != 0 {
				t.Errorf("seed %d, run %s: %d of %d tasks verified and %d not, spoilt %v, %v", seed, r.Name, r.Verified, c.Jobs[i].Graph.NumTasks(), r.Unverified, r.Spoilt, r.Err)
			}
			wrong += r.Wrong
			replays += r.Report.Replays
		}
		for d := range machine.DeviceID(n) {
			st := l.engine.Status(d)
			out := d == bad && wrong > 0
			if (st.State == engine.Draining) != out || out && !errors.Is(st.LastErr, ErrWrong) {
				t.Errorf("seed %d: after %d wrong results of %s, %s is %v for %v", seed, wrong, l.hw.name(bad), l.hw.name(d), st.State, st.LastErr)
			}
		}
		if wrong > 0 {
			drained++
		}
	}
	t.Logf("the device was drained with %d seeds of %d; %d replays", drained, seeds, replays)
	if drained < int(seeds)/2 {
		t.Error("most seeds saw no wrong result")
	}
}

// Without verification results are spoilt and nothing is seen.
func TestUnverifiedIsSpoilt(t *testing.T) {
	res, err := Run(Config{Machine: sameGPUs(3), Corrupt: []float64{0, 1}, Jobs: []Job{{Graph: tower(t, 3, 9)}}})
	if err != nil || res.Runs[0].Err != nil || !res.Runs[0].Spoilt {
		t.Errorf("%+v, %v", res, err)
	}
}

// Of two devices that differ none can be said to be wrong: the run fails.
func TestVerifyNeedsThird(t *testing.T) {
	res, err := Run(Config{Machine: sameGPUs(2), Verify: 1, Corrupt: []float64{0, 1}, Jobs: []Job{{Graph: tower(t, 2, 3)}}})
	if err != nil || !errors.Is(res.Runs[0].Err, ErrWrong) {
		t.Errorf("%+v, %v", res, err)
	}
}

// A run on the only device that is left is not verified.
func TestVerifyAlone(t *testing.T) {
	res, err := Run(Config{Machine: sameGPUs(2), Verify: 1, Faults: Faults{{Kind: Drain, Device: 0}}, Jobs: []Job{{At: 1e6, Graph: tower(t, 2, 3)}}})
	if err != nil || res.Runs[0].Err != nil || res.Runs[0].Verified != 0 || res.Runs[0].Unverified != 6 {
		t.Errorf("%+v, %v", res, err)
	}
}

// One task in N is verified. All devices corrupt a part k of their results, so that a task picked
// shows it by one of its first two executions with probability 1-(1-k)², and a run of n tasks
// is found out with probability 1-(1-(1-(1-k)²)/N)ⁿ.
func TestVerifyFinds(t *testing.T) {
	runs := 300
	if testing.Short() {
		runs = 100
	}
	for _, c := range []struct {
		every int
		k     float64
	}{{4, 0.01}, {10, 0.05}, {50, 0.3}} {
		const layers, width = 3, 12
		g := tower(t, layers, width)
		found := 0
		for seed := range runs {
			res, err := Run(Config{
				Machine: sameGPUs(4), Seed: uint64(seed), Verify: c.every, Corrupt: []float64{c.k, c.k, c.k, c.k},
				Jobs: []Job{{Graph: g}}, Unchecked: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			if r := res.Runs[0]; r.Wrong > 0 || errors.Is(r.Err, ErrWrong) {
				found++
			}
		}
		p := 1 - math.Pow(1-(1-(1-c.k)*(1-c.k))/float64(c.every), layers*width)
		if off := math.Abs(float64(found) - float64(runs)*p); off > 5*math.Sqrt(float64(runs)*p*(1-p)) {
			t.Errorf("one in %d, %v wrong: found in %d runs of %d, expected %.1f", c.every, c.k, found, runs, float64(runs)*p)
		}
	}
}

// Random graphs on random machines with random faults, of which some or all tasks are verified,
// end as they do without.
func TestVerifySeeds(t *testing.T) {
	seeds := *seedsFlag
	if seeds == 250 { // as many as CI has time for
		seeds = 60
	}
	verified, bad := 0, 0
	for seed := *firstFlag; seed < *firstFlag+uint64(seeds) && bad < 10; seed++ {
		tr := newTrial(rand.New(rand.NewPCG(seed, 1)), seed, ^frugal) // whose failures are counted by run
		tr.Verify, tr.board = 1+int(seed%4), nil                      // which has no lanes for the device that checks
		res, err := tr.check()
		if err != nil {
			bad++
			t.Errorf("seed %d, one task in %d, %s, policy %s:\n%v\nfaults:\n%s", seed, tr.Verify, tr.traits, tr.Policy, err, tr.Faults.Text(tr.Machine))
			continue
		}
		for _, r := range res.Runs {
			verified += r.Verified
		}
	}
	if verified == 0 && bad == 0 {
		t.Error("no task was verified")
	}
	t.Logf("%d tasks were verified", verified)
}
