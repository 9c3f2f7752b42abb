package cut

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// maxCompared is the largest graph whose prediction also looks at every kind of
// device alone: larger ones would take as long to predict as to run.
const maxCompared = 10_000

// Expected is the intended run of a graph with its simulated time, which is later compared
// with the measured one.
type Expected struct {
	Made      string  // the kernels it is made of and the devices it uses; empty if some kernel never ran
	Size      float64 // operations and bytes
	Simulated time.Duration
	// Rather lists the devices it was cut for, ascending; nil means any.
	Rather []machine.DeviceID
	// Trial is the work, of the size Work, on these devices, and Others the same work on
	// the others it could have been run on. They are empty where there was no choice.
	Trial  string
	Others []string
	Work   float64
}

// Predict simulates a graph on the devices as they are and corrects the result by how far
// off such predictions were before. Other runs in progress are left out of account. data
// that is resident is taken to be where the graph would leave it. Devices are compared
// with one another unless the graph is large.
func (v *Knowledge) Predict(g *graph.Graph, resident []graph.DataID) (*sched.Prediction, Expected, error) {
	p, expected, err := v.predict(g, resident, nil)
	if err == nil {
		err = v.compare(g, resident, p)
	}
	return p, expected, err
}

// predict is Predict for a graph that is cut for some devices, without comparing devices.
func (v *Knowledge) predict(g *graph.Graph, resident []graph.DataID, rather []machine.DeviceID) (*sched.Prediction, Expected, error) {
	rep, err := v.now(g, resident, rather)
	if err != nil {
		return nil, Expected{}, err
	}
	p, expected := v.prediction(g, rep), Expected{Rather: rather}
	if p.Samples > 0 {
		var used []machine.DeviceID
		for i, d := range p.Devices {
			if d.Tasks > 0 {
				used = append(used, machine.DeviceID(i))
			}
		}
		expected.Made, expected.Size, expected.Simulated = kernelsOf(g)+v.on(used), sizeOf(g), p.Median
		off, _ := v.Cost.Graph(expected.Made, expected.Size)
		p.Median, p.Low, p.High = stretch(p.Median, off), stretch(p.Low, off), stretch(p.High, off)
	}
	return p, expected, nil
}

// Takes simulates a graph and returns what it takes, uncorrected.
func (v *Knowledge) Takes(g *graph.Graph) (time.Duration, error) {
	rep, err := v.now(g, nil, nil)
	if err != nil {
		return 0, err
	}
	return v.median(rep), nil
}

// now simulates a graph on the devices that take work. Where tasks can only run on another,
// they will wait for it to be back: the graph is then simulated as if all were there.
func (v *Knowledge) now(g *graph.Graph, resident []graph.DataID, rather []machine.DeviceID) (*engine.Report, error) {
	out := v.out()
	rep, err := v.run(g, resident, out, rather)
	if errors.Is(err, sim.ErrStuck) && len(out) > 0 {
		return v.run(g, resident, nil, rather)
	}
	return rep, err
}

// run simulates a graph that is cut for some devices, on all devices but others.
func (v *Knowledge) run(g *graph.Graph, resident []graph.DataID, without, rather []machine.DeviceID) (*engine.Report, error) {
	c := sim.Config{
		Machine: v.machineFor(g), Cost: present{v}, Unchecked: true, Unbounded: true, Stop: v.Stop,
		NewPolicy: v.Policy, Concurrent: v.Concurrent, Spares: without,
	}
	job := sim.Job{Graph: g, Rather: rather}
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

// machineFor returns the machine, without shared resources except cores if all task times were measured
// under contention: they include its cost then.
func (v *Knowledge) machineFor(g *graph.Graph) *machine.Machine {
	for _, t := range g.Flow().ShapeTask {
		for d := range v.Machine.Devices {
			if v.task(g.Task(t), machine.DeviceID(d)).Bound != machine.ByHistory {
				return v.Machine
			}
		}
	}
	m := *v.Machine
	m.Devices = append([]machine.Device(nil), m.Devices...)
	for i := range m.Devices {
		m.Devices[i].Resources = slices.DeleteFunc(slices.Clone(m.Devices[i].Resources), func(name string) bool {
			return !slices.ContainsFunc(m.Resources, func(r machine.Resource) bool { return r.Name == name && r.Cores > 0 })
		})
	}
	return &m
}

// median returns the duration of a simulated run, with the time until its end is known.
func (v *Knowledge) median(rep *engine.Report) time.Duration {
	reply := 0.0
	for i := range rep.Devices {
		if rep.Devices[i].Tasks > 0 {
			reply = max(reply, v.Machine.Devices[i].Rates.ReplyNS)
		}
	}
	return rep.Ended - rep.Started + time.Duration(reply)
}

// prediction turns a simulated run into a prediction.
func (v *Knowledge) prediction(g *graph.Graph, rep *engine.Report) *sched.Prediction {
	p := &sched.Prediction{Median: v.median(rep)}
	busy := time.Duration(0)
	for i := range rep.Devices {
		d := &rep.Devices[i]
		p.Devices = append(p.Devices, sched.DevicePrediction{Name: v.Machine.Devices[i].Name, Tasks: d.Tasks, Busy: d.Busy})
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
		e := v.typical(g.Task(t))
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

// kernelsOf names the kernels of a graph in order of appearance. Graphs of the same kernels
// on the same devices are off by about the same factor.
func kernelsOf(g *graph.Graph) string {
	var names []string
	for _, t := range g.Flow().ShapeTask {
		for _, s := range g.Task(t).Steps {
			if !slices.Contains(names, s.Kernel.Name) {
				names = append(names, s.Kernel.Name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// sizeOf returns the size of a graph: its operations and bytes.
func sizeOf(g *graph.Graph) (size float64) {
	for i := range g.NumTasks() {
		w := g.Task(graph.TaskID(i)).Work
		size += w.Ops + w.Bytes
	}
	return size
}

// on names some devices: how many of which there are.
func (v *Knowledge) on(devices []machine.DeviceID) string {
	var kinds []string
	count := make(map[string]int)
	for _, d := range devices {
		id := v.Machine.Devices[d].Identity()
		if count[id]++; count[id] == 1 {
			kinds = append(kinds, id)
		}
	}
	name := " on"
	for i, id := range kinds {
		if i > 0 {
			name += " and"
		}
		name += fmt.Sprintf(" %d × %s", count[id], id)
	}
	return name
}

// typical is the estimate of a task on the device that runs it fastest.
func (v *Knowledge) typical(t *graph.Task) machine.Estimate {
	best := machine.Estimate{Median: -1}
	for d := range v.Machine.Devices {
		if len(t.Steps) > 0 && !v.Machine.Devices[d].CanRun(t.Steps[0].Kernel) {
			continue
		}
		if e := v.task(t, machine.DeviceID(d)); best.Median < 0 || e.Median < best.Median {
			best = e
		}
	}
	return best
}

// compare adds what each device alone would take, unless the graph is large. Of equal
// devices one is looked at.
func (v *Knowledge) compare(g *graph.Graph, resident []graph.DataID, p *sched.Prediction) error {
	if g.NumTasks() > maxCompared {
		return nil
	}
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
		return nil
	}
	if len(used) > 1 {
		only = -1
	}
	classes := v.Machine.Classes()
	known := make(map[int32]time.Duration)
	if only >= 0 {
		known[classes[only]] = p.Median
	}
	p.Alone = make([]time.Duration, len(v.Machine.Devices))
	said := make(map[int32]bool)
	for i := range v.Machine.Devices {
		if slices.Contains(v.out(), machine.DeviceID(i)) {
			continue
		}
		c := classes[i]
		if _, ok := known[c]; !ok {
			known[c] = v.takes(g, resident, i)
		}
		p.Alone[i] = known[c]
		if !said[c] && known[c] > 0 {
			others = append(others, fmt.Sprintf("%s on %s alone", sched.Round(known[c]), v.Machine.Devices[i].Name))
		}
		said[c] = true
	}
	p.Why = fmt.Sprintf("%s on %s", sched.Round(p.Median), strings.Join(used, " and "))
	if len(others) > 0 {
		p.Why += "; " + strings.Join(others, ", ")
	}
	return v.stopped() // a device whose simulation was stopped would seem unable
}

// takes returns what a device alone would take, 0 when it cannot.
func (v *Knowledge) takes(g *graph.Graph, resident []graph.DataID, on int) time.Duration {
	var without []machine.DeviceID
	for k := range v.Machine.Devices {
		if k != on {
			without = append(without, machine.DeviceID(k))
		}
	}
	rep, err := v.run(g, resident, without, nil)
	if err != nil {
		return 0
	}
	off, _ := v.Cost.Graph(kernelsOf(g)+v.on([]machine.DeviceID{machine.DeviceID(on)}), sizeOf(g))
	return stretch(rep.Ended-rep.Started+time.Duration(v.Machine.Devices[on].Rates.ReplyNS), off)
}
