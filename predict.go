package weft

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/sim"
)

// Prediction is what a run is expected to take and where it would go.
type Prediction struct {
	// Median is the time expected; nine runs of ten take from Low to High.
	Median, Low, High time.Duration
	// Samples is the least number of measurements behind any task's time: 0
	// means that some kernel never ran and its time follows from rates alone.
	Samples int
	// Devices has what each device would do, in the order of their IDs.
	Devices []DevicePrediction
	// Alone is what each device would take if it ran the graph by itself, in the
	// order of their IDs: 0 for one that cannot, nil for a graph too large to
	// look at so often.
	Alone []time.Duration
	// Why compares using all devices with using one, in words.
	Why string
}

// DevicePrediction is a device's part of a prediction.
type DevicePrediction struct {
	Name  string
	Tasks int
	Busy  time.Duration
	Share float64 // of all computing time
}

// maxCompared is the largest graph whose prediction also looks at every kind of
// device alone: larger ones would take as long to predict as to run.
const maxCompared = 10_000

// Predict says what running a graph now would take, without running it: it
// simulates the run on the devices as they are, with what is known about them.
// Other runs in progress are left out of account. Bindings are needed only for
// resident data, which is taken to be where the graph would leave it.
func (r *Runtime) Predict(ctx context.Context, g *graph.Graph, b ...Binding) (*Prediction, error) {
	s := r.snapshot()
	if s == nil {
		return nil, fmt.Errorf("predict: %w", ErrClosed)
	}
	var resident []graph.DataID
	for _, x := range b {
		d, ok := g.Lookup(x.Name)
		if !ok {
			return nil, fmt.Errorf("predict: %w: the graph has no data %q", ErrBinding, x.Name)
		}
		if x.res != nil {
			resident = append(resident, d)
		}
	}
	rep, err := s.run(g, resident, s.out)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	p := s.prediction(g, rep)
	off := 1.0
	if p.Samples > 0 {
		used := 0
		for _, d := range p.Devices {
			if d.Tasks > 0 {
				used++
			}
		}
		made, size := makeOf(g, used)
		r.x.Expect(g, made, size, p.Median)
		off, _ = s.cost.Graph(made, size)
		p.Median, p.Low, p.High = stretch(p.Median, off), stretch(p.Low, off), stretch(p.High, off)
	}
	if g.NumTasks() > maxCompared || ctx.Err() != nil {
		return p, context.Cause(ctx)
	}
	s.compare(g, resident, p, off)
	return p, context.Cause(ctx)
}

// Compare says what running each of several graphs alone would take by the rates
// of devices and links: it is for choosing between ways to do the same. What was
// learned of kernels is left out, since it is known of some graphs and not of
// others and scatters by more than they differ, so that the choice is the same in
// every run; what a graph will really take Predict knows better. Data is taken to
// be bound to host memory.
func (r *Runtime) Compare(ctx context.Context, graphs ...*graph.Graph) ([]time.Duration, error) {
	s := &snapshot{m: r.x.Machine, o: r.o}
	s.cost = machine.NewHistory(machine.NewRoofline(s.m), s.m)
	if !r.x.Look(func(_ machine.Cost, st []engine.DeviceStatus) { s.see(st) }) {
		return nil, fmt.Errorf("compare: %w", ErrClosed)
	}
	out := make([]time.Duration, len(graphs))
	for i, g := range graphs {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		rep, err := s.run(g, nil, s.out)
		if err != nil {
			return nil, fmt.Errorf("compare: graph %d: %w", i, err)
		}
		out[i] = s.median(rep)
	}
	return out, nil
}

// snapshot is the machine at one time with what is known about it.
type snapshot struct {
	m    *machine.Machine
	cost *machine.History
	out  []machine.DeviceID // devices that take no work
	o    Options
	slow []float64 // how many times slower than its model each device runs
}

func (r *Runtime) snapshot() *snapshot {
	s := &snapshot{m: r.x.Machine, o: r.o}
	cost, st := r.x.Snapshot()
	if cost == nil {
		return nil
	}
	s.cost = cost
	s.see(st)
	return s
}

// see takes in how devices are.
func (s *snapshot) see(st []engine.DeviceStatus) {
	for i := range st {
		s.slow = append(s.slow, max(st[i].Slow, 1))
		if st[i].State != engine.Healthy {
			s.out = append(s.out, machine.DeviceID(i))
		}
	}
}

// Task predicts a task on a device in its present condition.
func (s *snapshot) Task(t *graph.Task, on machine.DeviceID) machine.Estimate {
	e := s.cost.Task(t, on)
	if f := s.slow[on]; f > 1 {
		e.Median, e.Low, e.High = stretch(e.Median, f), stretch(e.Low, f), stretch(e.High, f)
	}
	return e
}

func stretch(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

// Copy predicts a copy.
func (s *snapshot) Copy(bytes int64, from, to machine.DeviceID) machine.Estimate {
	return s.cost.Copy(bytes, from, to)
}

// Epoch never changes: nothing is learned from a simulation.
func (s *snapshot) Epoch() uint64 { return 0 }

// run simulates a graph on all devices but some.
func (s *snapshot) run(g *graph.Graph, resident []graph.DataID, without []machine.DeviceID) (*engine.Report, error) {
	policy, err := sched.New(s.o.Policy)
	if err != nil {
		return nil, err
	}
	c := sim.Config{
		Machine: s.alone(g), Cost: s, Unchecked: true,
		Engine: engine.Options{Policy: policy, MaxInFlight: s.o.Concurrent, Spares: without},
	}
	job := sim.Job{Graph: g}
	for i, d := range resident {
		c.Resident = append(c.Resident, *g.Data(d))
		job.Bind = append(job.Bind, sim.Binding{Data: d, Resident: i})
	}
	c.Jobs = []sim.Job{job}
	res, err := sim.Run(c)
	if err == nil && len(resident) > 0 {
		// The first run brought resident data to the devices; the next finds it.
		again := job
		again.At = res.Makespan
		c.Jobs = append(c.Jobs, again)
		res, err = sim.Run(c)
	}
	if err != nil {
		return nil, err
	}
	last := &res.Runs[len(res.Runs)-1]
	return last.Report, last.Err
}

// alone returns the machine. Where all times of the graph's tasks were measured,
// while others ran beside them, it shares nothing but cores: what sharing the rest
// costs is in them.
func (s *snapshot) alone(g *graph.Graph) *machine.Machine {
	for _, t := range g.Flow().ShapeTask {
		for d := range s.m.Devices {
			if s.Task(g.Task(t), machine.DeviceID(d)).Bound != machine.ByHistory {
				return s.m
			}
		}
	}
	m := *s.m
	m.Devices = append([]machine.Device(nil), m.Devices...)
	for i := range m.Devices {
		m.Devices[i].Resources = slices.DeleteFunc(slices.Clone(m.Devices[i].Resources), func(name string) bool {
			return !slices.ContainsFunc(m.Resources, func(r machine.Resource) bool { return r.Name == name && r.Cores > 0 })
		})
	}
	return &m
}

// median is what a simulated run takes, with hearing of its end.
func (s *snapshot) median(rep *engine.Report) time.Duration {
	reply := 0.0
	for i := range rep.Devices {
		if rep.Devices[i].Tasks > 0 {
			reply = max(reply, s.m.Devices[i].Rates.ReplyNS)
		}
	}
	return rep.Ended - rep.Started + time.Duration(reply)
}

// prediction turns a simulated run into a prediction.
func (s *snapshot) prediction(g *graph.Graph, rep *engine.Report) *Prediction {
	p := &Prediction{Median: s.median(rep)}
	busy := time.Duration(0)
	for i := range rep.Devices {
		d := &rep.Devices[i]
		p.Devices = append(p.Devices, DevicePrediction{Name: s.m.Devices[i].Name, Tasks: d.Tasks, Busy: d.Busy})
		busy += d.Busy
	}
	for i := range p.Devices {
		p.Devices[i].Share = p.Devices[i].Busy.Seconds() / max(busy.Seconds(), 1e-9)
	}
	// Errors of tasks of one kernel come from one model, so they do not
	// cancel: the run is off by as much as its tasks are, on average.
	var low, mid, high float64
	f := g.Flow()
	tasks := make([]float64, len(f.ShapeTask)) // of each shape
	for i := range g.NumTasks() {
		tasks[f.Rows[i].Shape]++
	}
	for i, t := range f.ShapeTask {
		e := s.typical(g.Task(t))
		low, mid, high = low+e.Low.Seconds()*tasks[i], mid+e.Median.Seconds()*tasks[i], high+e.High.Seconds()*tasks[i]
		if i == 0 || e.Samples < p.Samples {
			p.Samples = e.Samples
		}
	}
	p.Low, p.High = p.Median, p.Median
	if mid > 0 {
		p.Low, p.High = stretch(p.Median, low/mid), stretch(p.Median, high/mid)
	}
	return p
}

// makeOf says what a graph is made of and how large it is: its kernels in order
// of appearance, and how many devices take part. Graphs of one make are off by
// about the same factor.
func makeOf(g *graph.Graph, devices int) (made string, size float64) {
	var names []string
	f := g.Flow()
	for _, t := range f.ShapeTask {
		for _, s := range g.Task(t).Steps {
			if !slices.Contains(names, s.Kernel.Name) {
				names = append(names, s.Kernel.Name)
			}
		}
	}
	for i := range g.NumTasks() {
		w := g.Task(graph.TaskID(i)).Work
		size += w.Ops + w.Bytes
	}
	return fmt.Sprintf("%s on %d", strings.Join(names, ", "), devices), size
}

// typical is the estimate of a task on the device that runs it fastest.
func (s *snapshot) typical(t *graph.Task) machine.Estimate {
	best := machine.Estimate{Median: -1}
	for d := range s.m.Devices {
		if len(t.Steps) > 0 && !s.m.Devices[d].CanRun(t.Steps[0].Kernel) {
			continue
		}
		if e := s.Task(t, machine.DeviceID(d)); best.Median < 0 || e.Median < best.Median {
			best = e
		}
	}
	return best
}

// compare adds what each device alone would take, which is off by as much as the
// prediction itself: both come from the same model. Of equal devices one is
// looked at.
func (s *snapshot) compare(g *graph.Graph, resident []graph.DataID, p *Prediction, off float64) {
	var used, others []string
	only := -1
	for i, d := range p.Devices {
		if d.Tasks > 0 {
			used = append(used, d.Name)
			only = i
		}
	}
	if len(used) == 0 {
		p.Why = "there is nothing to run"
		return
	}
	if len(used) > 1 {
		only = -1
	}
	classes := s.m.Classes()
	known := make(map[int32]time.Duration)
	if only >= 0 {
		known[classes[only]] = p.Median
	}
	p.Alone = make([]time.Duration, len(s.m.Devices))
	said := make(map[int32]bool)
	for i := range s.m.Devices {
		if slices.Contains(s.out, machine.DeviceID(i)) {
			continue
		}
		c := classes[i]
		if _, ok := known[c]; !ok {
			known[c] = s.takes(g, resident, i, off)
		}
		p.Alone[i] = known[c]
		if !said[c] && known[c] > 0 {
			others = append(others, fmt.Sprintf("%s on %s alone", sched.Round(known[c]), s.m.Devices[i].Name))
		}
		said[c] = true
	}
	p.Why = fmt.Sprintf("%s on %s", sched.Round(p.Median), strings.Join(used, " and "))
	if len(others) > 0 {
		p.Why += "; " + strings.Join(others, ", ")
	}
}

// takes returns what a device alone would take, 0 when it cannot.
func (s *snapshot) takes(g *graph.Graph, resident []graph.DataID, on int, off float64) time.Duration {
	var without []machine.DeviceID
	for k := range s.m.Devices {
		if k != on {
			without = append(without, machine.DeviceID(k))
		}
	}
	rep, err := s.run(g, resident, without)
	if err != nil {
		return 0
	}
	return stretch(rep.Ended-rep.Started+time.Duration(s.m.Devices[on].Rates.ReplyNS), off)
}
