package cut

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// The rule, case by case.
func TestChoose(t *testing.T) {
	const ms = time.Millisecond
	unknown := func(predicted, overhead time.Duration) setPlan {
		return setPlan{predicted: predicted, overhead: overhead}
	}
	known := func(mean, doubt time.Duration, runs, since int) setPlan {
		return setPlan{predicted: 1 * ms, trials: machine.Trials{Runs: runs, Mean: mean, Doubt: doubt, Since: since}}
	}
	for _, c := range []struct {
		name       string
		plans      []setPlan // one device, several
		best, pick int
	}{
		{"several are predicted to gain", []setPlan{unknown(10*ms, 0), unknown(8*ms, ms)}, 1, 1},
		{"several gain less than starting them costs", []setPlan{unknown(10*ms, 0), unknown(9*ms, ms)}, 0, 0},
		{"one is known and several may be better", []setPlan{known(10*ms, 0, 9, 0), unknown(14*ms, ms)}, 0, 1},
		{"one is known and several are hopeless", []setPlan{known(10*ms, 0, 9, 0), unknown(15*ms, ms)}, 0, 0},
		{"several are known and one may be better", []setPlan{unknown(11*ms, 0), known(10*ms, 0, 3, 0)}, 1, 0},
		{"what was measured counts over what is predicted", []setPlan{known(10*ms, 0, 9, 0), known(11*ms, 0, 9, 9)}, 0, 0},
		{"several are better by less than is uncertain", []setPlan{known(10*ms, 0, 9, 0), known(9*ms, 2*ms, 9, 7)}, 0, 0},
		{"and then they are tried again", []setPlan{known(10*ms, 0, 9, 0), known(9*ms, 2*ms, 9, 8)}, 0, 1},
		{"several may be better, and trying costs much", []setPlan{known(10*ms, 0, 9, 0), known(12*ms, 2*ms, 9, 9)}, 0, 0},
		{"several are better by more than is uncertain", []setPlan{known(10*ms, 0, 9, 1), known(9*ms, ms/2, 9, 9)}, 1, 1},
		{"several stay while they are better", []setPlan{known(10*ms, 0, 9, 9), known(9*ms, 2*ms, 9, 0)}, 1, 1},
		{"after few runs several may yet be better", []setPlan{known(10*ms, 0, 9, 0), known(12*ms, 2*ms, 4, 9)}, 0, 1},
		{"after few runs several are surely worse", []setPlan{known(10*ms, 0, 9, 0), known(15*ms, 2*ms, 4, 9)}, 0, 0},
		{"they are tried again after many", []setPlan{known(10*ms, 0, 9, 0), known(11*ms, 0, 9, 64)}, 0, 1},
		{"they are tried again after more if that costs more", []setPlan{known(10*ms, 0, 9, 0), known(20*ms, 0, 9, 99)}, 0, 0},
		{"and then", []setPlan{known(10*ms, 0, 9, 0), known(20*ms, 0, 9, 100)}, 0, 1},
		{"one is tried again, too", []setPlan{known(10*ms, 0, 9, 64), known(9*ms, 0, 9, 0)}, 1, 0},
	} {
		if best, pick := choose(c.plans); best != c.best || pick != c.pick {
			t.Errorf("%s: best is %d and %d is used, want %d and %d", c.name, best, pick, c.best, c.pick)
		}
	}
}

// The sets of devices that work is cut for.
func TestSets(t *testing.T) {
	for _, c := range []struct {
		machine string
		alone   []time.Duration
		want    string
	}{
		{"h200", []time.Duration{10, 120}, "[[0]]"},
		{"h200", []time.Duration{12, 10}, "[[1] [0]]"},
		{"2xcpu", []time.Duration{10, 10}, "[[0]]"},
		{"mixed", []time.Duration{10, 50, 100}, "[[0] [0 1]]"},
		{"mixed", []time.Duration{100, 14, 10}, "[[2] [1] [1 2]]"},
		{"mixed", []time.Duration{10, 0, 100}, "[[0]]"},
	} {
		m, _ := machine.Named(c.machine)
		v := &Knowledge{Machine: m}
		var all []machine.DeviceID
		for i := range m.Devices {
			all = append(all, machine.DeviceID(i))
		}
		if got := fmt.Sprint(v.sets(c.alone, all)); got != c.want {
			t.Errorf("%s alone %v: %s, want %s", c.machine, c.alone, got, c.want)
		}
	}
	m, _ := machine.Named("8xh100-server")
	var alone []time.Duration
	var all []machine.DeviceID
	for i := range m.Devices {
		all = append(all, machine.DeviceID(i))
		alone = append(alone, 10+time.Duration(90*(i/8)))
	}
	if got, want := fmt.Sprint((&Knowledge{Machine: m}).sets(alone, all)), "[[0] [0 1 2 3 4 5 6 7]]"; got != want {
		t.Errorf("eight GPUs and CPUs: %s, want %s", got, want)
	}
}

// world is a GPU and a CPU whose tasks take another time in every run, and which disturb each
// other: while the CPU computes, copies are slower, and now and then they stall.
type world struct {
	v      *Knowledge
	rates  machine.Cost // what things take on the average, undisturbed
	w      Divisible
	seed   uint64
	run    uint64
	spread float64 // of the CPU's times: the standard deviation of their logarithm
	slower float64 // copies beside the CPU take so many times longer, in the mean
	stalls float64 // chance of a run beside the CPU whose copies take three times as long
	mixed  bool    // this run uses both
}

// Task is what a task really takes.
func (x *world) Task(t *graph.Task, on machine.DeviceID) machine.Estimate {
	e := x.rates.Task(t, on)
	spread := 0.01
	if x.v.Machine.Devices[on].HostMemory {
		spread = x.spread
	}
	e.Median = stretch(e.Median, x.factor(fmt.Sprint(t.Name, on), spread))
	return e
}

// Copy is what a copy really takes.
func (x *world) Copy(bytes int64, from, to machine.DeviceID) machine.Estimate {
	e := x.rates.Copy(bytes, from, to)
	if x.mixed {
		f := 1 + (x.slower-1)*x.factor("copies", 0.5)
		if x.random("stall").Float64() < x.stalls {
			f *= 3
		}
		e.Median = stretch(e.Median, f)
	}
	return e
}

func (x *world) Epoch() uint64 { return 0 }

// random is what happens in this run to something.
func (x *world) random(what string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, what, x.run)
	return rand.New(rand.NewPCG(x.seed, h.Sum64()))
}

// factor is log-normal with a mean of 1.
func (x *world) factor(what string, spread float64) float64 {
	return math.Exp(spread*x.random(what).NormFloat64() - spread*spread/2)
}

// once runs the work on the set of devices that pick chooses and learns from it.
func (x *world) once(t *testing.T, pick func(plans []setPlan) (best, pick int)) (took time.Duration, on int) {
	x.run++
	part, err := x.v.Split(x.w.Items, x.w.Whole)
	if err != nil || part.Choice.One() {
		t.Fatalf("the test needs work that is worth splitting: %s, %v", part.Why, err)
	}
	wide, err := x.v.build(x.w, part, nil)
	if err != nil {
		t.Fatal(err)
	}
	x.v.compare(wide.Graph, nil, wide.Prediction)
	plans, err := x.v.setPlans(x.w, wide)
	if err != nil {
		t.Fatal(err)
	}
	best, picked := pick(plans)
	p := x.v.settle(plans, best, picked, workSize(x.w))
	on = len(plans[picked].on)
	x.mixed = on > 1
	rec := trace.NewRecorder(1 << 12)
	res, err := sim.Run(sim.Config{
		Machine: x.v.Machine, Cost: present{x.v}, Truth: x, Trace: rec, Unchecked: true,
		Jobs: []sim.Job{{Graph: p.Graph, Rather: p.Expected.Rather}},
	})
	if err != nil || res.Runs[0].Err != nil {
		t.Fatal(err, res.Runs[0].Err)
	}
	for _, e := range rec.Events() {
		if e.Kind == trace.Exec {
			x.v.Cost.Observe(p.Graph.Task(e.Task), e.Device, e.End-e.Start)
		}
	}
	took = res.Runs[0].Report.Ended - res.Runs[0].Report.Started
	if p.Expected.Made != "" {
		x.v.Cost.ObserveGraph(p.Expected.Made, p.Expected.Size, p.Expected.Simulated, took)
	}
	x.v.Cost.ObserveTrial(p.Expected.Trial, p.Expected.Work, took, p.Expected.Others...)
	return took, on
}

// mean is what a run takes and how many devices it uses, on the average of many after some
// to learn from.
func (x *world) mean(t *testing.T, pick func(plans []setPlan) (best, pick int)) (seconds, devices float64) {
	const learn, count = 30, 60
	for range learn {
		x.once(t, pick)
	}
	for range count {
		took, on := x.once(t, pick)
		seconds, devices = seconds+took.Seconds()/count, devices+float64(on)/count
	}
	return seconds, devices
}

// hashes is work on an array in host memory that a GPU does in 5.4 ms and a CPU in some time.
func hashes(bytes int64) Divisible {
	const items = 1024
	each := bytes / items
	task := func(n int64) graph.Task {
		return graph.Task{Steps: []graph.Step{{Kernel: anyKernel}}, Work: graph.Work{Ops: float64(n * each)}}
	}
	return Divisible{
		Whole: task(items),
		Items: sched.Items{Extent: items, Bytes: func(lo, hi int64) (in, out int64) { return each * (hi - lo), (hi - lo) }, Streamed: true},
		Graph: func(ranges []sched.Range) (*graph.Graph, error) {
			var b graph.Builder
			in := b.Data(graph.Data{Name: "in", Bytes: bytes, Input: true})
			out := b.Data(graph.Data{Name: "out", Bytes: items, Output: true})
			for _, r := range ranges {
				t := task(r.Len())
				t.Name = fmt.Sprint(r)
				t.Uses = []graph.Use{
					{Data: in, Offset: each * r.Lo, Bytes: each * r.Len(), Access: graph.Read},
					{Data: out, Offset: r.Lo, Bytes: r.Len(), Access: graph.Write},
				}
				b.Add(t)
			}
			return b.Build()
		},
	}
}

// After some runs, work takes at most 5 % longer than on the best device alone, however noisy
// the CPU is and however much its work disturbs copies. Where both devices together are
// faster by a fifth or more, both are used; where they are by less, most of that is gained.
func TestMixedKeepsItsWord(t *testing.T) {
	const bytes = 512 << 20
	seeds := []uint64{0, 1, 17, 18}
	if testing.Short() {
		seeds = seeds[:2]
	}
	gains := 0
	for _, seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		spread := 0.02 * math.Exp(r.Float64()*math.Log(0.5/0.02))
		slower, stalls := 1+r.Float64()*0.5, r.Float64()*0.1
		if seed%3 == 0 {
			slower, stalls = 1, 0
		}
		// Alone the CPU takes 1 to 12 times as long as the GPU with its copies.
		cpu := 0.0102 * math.Exp(r.Float64()*math.Log(12))
		link := []float64{25e9, 50e9}[seed%2]
		make := func() *world {
			v := shipped(t, "h200", link, 2)
			v.Machine.Devices[0].Rates.Ops[graph.FP32] = bytes / 0.0054
			v.Machine.Devices[1].Rates.Ops[graph.FP32] = bytes / cpu
			v.Machine.Devices[1].Rates.MemoryBPS = 1e15
			return &world{v: v.Rates(), rates: machine.NewRoofline(v.Machine), w: hashes(bytes), seed: seed, spread: spread, slower: slower, stalls: stalls}
		}
		always := func(nth int) func([]setPlan) (int, int) {
			return func(plans []setPlan) (int, int) { w := min(nth, len(plans)-1); return w, w }
		}
		one, _ := make().mean(t, always(0))
		both, _ := make().mean(t, always(9))
		got, devices := make().mean(t, choose)
		name := fmt.Sprintf("seed %d: spread %.2f, copies %.2f, stalls %.2f, CPU %.1f ms, link %.0f GB/s", seed, spread, slower, stalls, cpu*1e3, link/1e9)
		t.Logf("%s: one device %.2f ms, both %.2f ms, as chosen %.2f ms on %.2f devices", name, one*1e3, both*1e3, got*1e3, devices)
		if got > 1.05*one || got > 1.1*both {
			t.Errorf("%s: %.2f ms as chosen, %.2f ms on one device, %.2f ms on both", name, got*1e3, one*1e3, both*1e3)
		}
		if both < 0.8*one {
			gains++
			if devices < 1.8 {
				t.Errorf("%s: both take %.0f %% of what one takes, and %.2f devices are used", name, 100*both/one, devices)
			}
		}
	}
	if gains == 0 || gains == len(seeds) {
		t.Errorf("both devices gain in %d of %d cases: this shows little", gains, len(seeds))
	}
}
