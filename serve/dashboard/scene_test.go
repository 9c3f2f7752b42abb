package dashboard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/fake"
)

// scene is a state as of a large machine, the same for a seed.
func scene(seed uint64, devices, jobs int) *pageState {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &pageState{Started: 1_800_000_000_000, Name: "rack 7", Uptime: 93_784.5, Window: 10.02, HasJobs: true, Serves: true, MoreRuns: 17,
		Totals:  pageTotals{Submitted: 184_203, Completed: 184_081, Failed: 3, Cancelled: 12, Retries: 41, Losses: 2, Copies: 991_204, CopyBytes: 7_412_345_678_901, Moved: 88},
		Machine: &pageMachine{Name: "rack", HostBytes: 512 << 30, HostRate: 41.3e9, Links: []pageLink{}}, History: &pageHistory{At: []float64{}, Devices: map[string]map[string][]*float64{}}}
	for t := range 120 {
		s.History.At = append(s.History.At, s.Uptime-120+float64(t))
	}
	states := map[int]string{3: "drained", 5: "lost", 11: "draining", 15: "spare"}
	for i := range devices {
		d := pageDevice{Name: fmt.Sprintf("cuda:%d", i), Model: "NVIDIA H200", Kind: "discrete", Units: 132, Lanes: 4, State: "healthy",
			Util: 0.55 + 0.45*r.Float64(), Queued: r.IntN(400), Running: 1 + r.IntN(4), Tasks: r.Int64N(5_000_000), Rate: ptr(4000 * r.Float64()), Busy: 80_000 * r.Float64(),
			MemUsed: r.Int64N(138 << 30), MemBytes: 138 << 30, AllMem: ptr(float64(r.Int64N(140 << 30))), AllUtil: ptr(r.Float64()),
			Temp: ptr(45 + 35*r.Float64()), Power: ptr(250 + 400*r.Float64()), PowerMax: ptr(700), Clock: ptr(1_980), Failed: int64(r.IntN(3))}
		if st := states[i]; st != "" {
			d.State, d.Util, d.Queued, d.Running = st, 0, 0, 0
			d.Rate = ptr(0)
		}
		if d.State == "lost" {
			d.Losses, d.Temp, d.Power, d.LastError = 2, nil, nil, "worker 4181 ended: signal: killed (Xid 79: the GPU has fallen off the bus)"
		}
		if i == 0 {
			d = pageDevice{Name: "cpu:0", Model: "AMD EPYC 9654", Kind: "cpu", Units: 96, Lanes: 96, HostMemory: true, State: "healthy", Util: 0.042, Queued: 2, Running: 2,
				Tasks: 812, Rate: ptr(0.37), MemUsed: 3_412_000_000, Busy: 512.25}
		}
		s.Devices = append(s.Devices, d)
		if d.State == "healthy" {
			s.Now.Devices++
			s.Now.Util += d.Util
		}
		s.Now.Queued += d.Queued
		series, phase := map[string][]*float64{}, 6*r.Float64()
		for t := range 120 {
			wave := 0.06*math.Sin(float64(t)/7+phase) + 0.05*(r.Float64()-0.5)
			series["util"] = append(series["util"], ptr(max(0, min(1, d.Util*(1+wave*2)))))
			series["mem"] = append(series["mem"], ptr(float64(d.MemUsed)*(0.6+0.4*float64(t)/120)))
			series["queued"] = append(series["queued"], ptr(math.Round(float64(d.Queued)*(1+3*wave))))
			for name, x := range map[string]*float64{"temp": d.Temp, "power": d.Power} {
				if x != nil {
					x = ptr(*x * (1 + wave))
				}
				series[name] = append(series[name], x)
			}
		}
		s.History.Devices[d.Name] = series
		link := pageLink{A: d.Name, B: "host", Kind: "pcie-switch", Rate: 53.1e9, Latency: 6.2e-6}
		if !d.HostMemory {
			s.Machine.Links = append(s.Machine.Links, link)
			for j := 1; j < i; j++ {
				if j/8 == i/8 {
					s.Machine.Links = append(s.Machine.Links, pageLink{A: fmt.Sprintf("cuda:%d", j), B: d.Name, Kind: "nvlink", Rate: 412e9, Latency: 2.1e-6})
				}
			}
			if d.State == "healthy" {
				s.Running = append(s.Running, pageTask{Device: d.Name, Run: 184_190, Task: fmt.Sprintf("layer %d", i), For: 0.4, Predicted: 0.5})
			}
		}
	}
	s.Now.Util /= float64(max(s.Now.Devices, 1))
	s.Now.Power, s.Now.TaskRate, s.Now.CopyRate, s.Now.RunRate, s.Now.Requests, s.Now.Active = ptr(6_412.7), ptr(18_233), ptr(37.21e9), ptr(41.5), ptr(2_913.4), 107
	s.Now.Words = s.words()
	sceneWork(s, r, jobs)
	return s
}

// sceneWork adds models, runs, jobs, verdicts and events.
func sceneWork(s *pageState, r *rand.Rand, jobs int) {
	s.Models = []pageModel{
		{Name: "speech", Version: "3", Kind: "graph", State: "ready", Devices: []string{"cuda:1", "cuda:2"}, MaxBatch: 32, Waiting: 7, Answered: 9_811_870, Failed: 2, Refused: 96, Expired: 29,
			Rate: ptr(2_871.2), Batch: ptr(17.42), P50: ptr(0.00612), P95: ptr(0.01384), P99: ptr(0.0251)},
		{Name: "reservoir", Version: "1", Kind: "reservoir", State: "ready", Devices: []string{"cpu:0"}, MaxBatch: 8, Answered: 40_122, Rate: ptr(42.2), Batch: ptr(1.31), P50: ptr(0.000412), P95: ptr(0.00097), P99: ptr(0.00133)},
		{Name: "vision", Version: "12", Kind: "graph", State: "loading", Devices: []string{}, MaxBatch: 64},
		{Name: "legacy", Version: "1", Kind: "graph", State: "failed", Reason: "weights.safetensors: 12 bytes short", Devices: []string{}},
	}
	for i := range 90 {
		s.Runs = append(s.Runs, pageRun{Run: int64(184_100 + i), Tasks: 5_000, Done: r.IntN(5_000), Running: r.IntN(64), Bytes: r.Int64N(1 << 36), Elapsed: 300 * r.Float64(), Part: r.Float64(), Left: ptr(200 * r.Float64())})
	}
	s.Runs[3].Left = nil
	names := []string{"gemm 8192", "conv 224", "landscape 1CRN", "merkle 1 GiB", "tropical 4096", "automata 16384"}
	for i := range jobs {
		j := pageJob{ID: fmt.Sprintf("j-%04d", i+1), Name: names[r.IntN(len(names))], Client: []string{"nightly", "ana", "li", "ci"}[r.IntN(4)], Submitted: 1_800_000_000_000 + int64(i)*1000, Left: -1}
		switch {
		case i%25 == 7:
			j.State, j.Reason, j.Elapsed, j.Part = "failed", "device lost three times under task 17", 40*r.Float64(), r.Float64()
		case i >= jobs-40:
			j.State, j.Part = "queued", 0
		case i >= jobs-64:
			j.State, j.Part, j.Elapsed, j.Left = "running", r.Float64(), 4000*r.Float64(), 5000*r.Float64()
		default:
			j.State, j.Part, j.Elapsed = "done", 1, 900*r.Float64()
		}
		s.Jobs = append(s.Jobs, j)
		if j.State == "queued" || j.State == "running" {
			s.Now.JobsOpen++
		} else {
			s.Now.JobsEnded++
		}
	}
	s.Verdicts = []pageVerdict{
		{Verdict: "transfer-bound", Sentence: "transfer-bound: copies held up tasks for 21.4 % of the devices' time; links twice as fast would save 17.9 %", Took: 29.98, Tasks: 18_231, Util: 0.714, Imbalance: 0.183,
			Fixes: []pageFix{{What: "links twice as fast", Gain: 0.179}, {What: "work spread by speed", Gain: 0.062}}},
	}
	for i := range 60 {
		e := pageEvent{N: uint64(i + 1), At: s.Uptime - float64(600-10*i) + 0.25, Kind: "run ended", Text: fmt.Sprintf("run %d ended", 184_000+i)}
		switch {
		case i == 40:
			e.Kind, e.Device, e.Bad, e.Text = "device", "cuda:5", true, "device cuda:5 was healthy and is lost: worker 4181 ended: signal: killed (Xid 79)"
		case i == 57:
			e.Kind, e.Device, e.Text = "device", "cuda:11", "device cuda:11 was healthy and is draining"
		case i%9 == 5:
			e.Kind, e.Device, e.Text = "rule", "cuda:2", "rule: cuda:2 is hotter than 85 °C: taken for twice as slow"
		}
		s.Events = append(s.Events, e)
	}
}

// sceneTimeline is what devices of a scene ran.
func sceneTimeline(s *pageState, since float64) *pageTimeline {
	r := rand.New(rand.NewPCG(7, 7))
	t := &pageTimeline{Started: s.Started, From: s.Uptime - 60, To: s.Uptime, Recorded: true, Devices: []pageStrip{}}
	for _, d := range s.Devices {
		strip := pageStrip{Name: d.Name, Lanes: min(d.Lanes, 3), Spans: []pageSpan{}}
		for lane := range strip.Lanes {
			run := int64(184_180 + r.IntN(3))
			for at := s.Uptime - 31 + r.Float64(); at < s.Uptime-0.5 && d.State != "spare" && d.State != "drained"; {
				long := (0.05 + r.ExpFloat64()*0.6) * (0.2 + d.Util)
				sp := pageSpan{Lane: lane, Start: at, End: min(at+long, s.Uptime-0.42), Tasks: 1, Run: run, Name: fmt.Sprintf("layer %d", r.IntN(90)), Copy: lane == 2}
				if d.State == "lost" && sp.End > s.Uptime-19 {
					break
				}
				sp.Busy = (sp.End - sp.Start) * (0.5 + r.Float64()/2)
				if at += long + r.ExpFloat64()*0.4*(1.05-d.Util); r.IntN(4) == 0 {
					run = int64(184_180 + r.IntN(6))
				}
				if sp.End > since {
					strip.Spans = append(strip.Spans, sp)
				}
			}
		}
		t.Devices = append(t.Devices, strip)
	}
	return t
}

// still is a dashboard that shows a scene for ever.
func still(s *pageState) *dashboard {
	d := newDashboard(nil, Options{})
	d.look = func() *pageState { return s }
	d.ran = func(since float64) *pageTimeline { return sceneTimeline(s, since) }
	return d
}

// spin is a Go kernel that computes for a while, so that there is something to see.
func spin(c *weft.Call, lo, hi int) {
	x := weft.View[float64](c.Args[0])
	for i := lo; i < hi; i++ {
		for range 200 {
			x[i%len(x)] = math.Sqrt(x[i%len(x)] + 1)
		}
	}
}

// randomGraph makes tasks on some data, of random sizes and dependencies.
func randomGraph(t testing.TB, r *rand.Rand, tasks, items int) (*graph.Graph, weft.Binding) {
	t.Helper()
	var b graph.Builder
	const n = 64
	parts := 8
	x := b.Data(graph.Data{Name: "x", Bytes: int64(parts) * 8 * n, Input: true, Output: true})
	for i := range tasks {
		b.Add(graph.Task{Name: fmt.Sprintf("spin %d", i), Steps: []graph.Step{{Kernel: graph.GoKernel("spin"), Launch: graph.Grid(1 + r.IntN(items))}},
			Uses: []graph.Use{{Data: x, Offset: int64(r.IntN(parts)) * 8 * n, Bytes: 8 * n, Access: graph.ReadWrite}}, Work: graph.Work{Ops: 1e5, Bytes: 8 * n}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g, weft.Bind("x", make([]float64, parts*n))
}

// openFake opens a runtime of scripted devices.
func openFake(t testing.TB, script string, o weft.Options) *weft.Runtime {
	t.Helper()
	fo, err := fake.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	fo.Funcs = map[string]weft.Func{"spin": spin}
	drv, err := fake.New(fo)
	if err != nil {
		t.Fatal(err)
	}
	o.Drivers = append(o.Drivers, drv)
	o.NoCalibrate, o.CacheDir, o.Funcs = true, "off", fo.Funcs
	rt, err := weft.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return rt
}

// fakeJobs is a list of jobs for tests.
type fakeJobs struct {
	mu        sync.Mutex
	list      []JobState
	cancelled []string
}

func (j *fakeJobs) List() []JobState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]JobState(nil), j.list...)
}

func (j *fakeJobs) Cancel(id string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.list {
		if j.list[i].ID == id {
			j.list[i].State = "cancelled"
			j.cancelled = append(j.cancelled, id)
			return nil
		}
	}
	return fmt.Errorf("there is no job %q", id)
}

func (j *fakeJobs) add(s JobState) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.Submitted = time.Unix(1_800_000_000+int64(len(j.list)), 0)
	j.list = append(j.list, s)
}
