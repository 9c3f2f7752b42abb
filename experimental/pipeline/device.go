package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// Program is a stage's work on devices: a graph that is run for every item, with
// one or more steps in a row. Values go from step to step on devices; the runs of
// different items overlap, so while one item is in its last step others are in
// earlier ones.
type Program[T any] struct {
	Name string
	// Build makes the graph of an item. on says where each step may run: tasks
	// of step s have on[s] as their constraint.
	Build func(on []graph.Constraint) (*graph.Graph, error)
	// Bind ties an item's memory to the graph's inputs and outputs.
	Bind func(item *T) []weft.Binding
	// Costs are what the steps take, in any unit; one entry for each.
	Costs []float64
	// Mode says how steps are spread (PipelineParallel), Devices over which (all
	// of the runtime), Copies how many pipelines mode Hybrid makes (chosen).
	Mode    Mode
	Devices []string
	Copies  int
	// Ahead is the number of items each copy has in flight: enough that no step
	// waits for the host (two for each step).
	Ahead int
}

// OnDevices makes a program a stage, prepared on a runtime. Its workers wait for
// devices and use no core for it. What a lost device had in work is done again by
// another of the same step, or by itself when it is back; items of a step whose
// devices are all gone for good fail with weft.ErrNoDevice.
func OnDevices[T any](rt *weft.Runtime, p Program[T]) (Stage[T], error) {
	if rt == nil {
		return Stage[T]{}, fmt.Errorf("%w: program %q: the runtime is nil; weft.Open returns one", ErrStages, p.Name)
	}
	if p.Build == nil || p.Bind == nil {
		return Stage[T]{}, fmt.Errorf("%w: program %q needs a graph and bindings", ErrStages, p.Name)
	}
	if p.Mode == "" {
		p.Mode = PipelineParallel
	}
	if len(p.Devices) == 0 {
		for _, d := range rt.Machine().Devices {
			p.Devices = append(p.Devices, d.Name)
		}
	}
	pl, err := Place(p.Mode, p.Devices, p.Costs, p.Copies)
	if err != nil {
		return Stage[T]{}, fmt.Errorf("program %q: %w", p.Name, err)
	}
	if p.Ahead <= 0 {
		p.Ahead = 2 * len(p.Costs)
	}
	workers := p.Ahead * len(pl.Copies)
	if workers > MaxWorkers {
		return Stage[T]{}, fmt.Errorf("program %q: %w: %d copies with %d items each: use at most %d in all", p.Name, ErrStages, len(pl.Copies), p.Ahead, MaxWorkers)
	}
	var copies []*weft.Prepared
	for _, steps := range pl.Copies {
		on := make([]graph.Constraint, len(steps))
		for s := range steps {
			on[s].Only = steps[s]
		}
		g, err := p.Build(on)
		if err != nil {
			return Stage[T]{}, fmt.Errorf("program %q: %w", p.Name, err)
		}
		run, err := rt.Prepare(g)
		if err != nil {
			return Stage[T]{}, fmt.Errorf("program %q: %w", p.Name, err)
		}
		copies = append(copies, run)
	}
	// Who has room is taken first; at the beginning they take turns.
	room := make(chan int, workers)
	for range p.Ahead {
		for c := range copies {
			room <- c
		}
	}
	u := &use{names: p.Devices}
	return Stage[T]{
		Name: p.Name, Workers: workers, Queue: 1, use: u,
		Do: func(ctx context.Context, item *T) error {
			c := <-room // as many as workers, so there is one
			defer func() { room <- c }()
			rep, err := copies[c].Run(ctx, p.Bind(item)...)
			u.add(rep)
			return err
		},
	}, nil
}

// use adds up what a stage does on devices.
type use struct {
	names []string // of the devices it may use

	mu          sync.Mutex // guards what is below; held for moments only
	busy        map[string]DeviceUse
	first, last time.Duration
	ran         bool
}

// begin forgets what an earlier run of the pipeline did.
func (u *use) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.busy, u.ran = make(map[string]DeviceUse), false
}

// add counts the run of an item.
func (u *use) add(r *weft.Report) {
	if r == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range r.Devices {
		d := u.busy[r.Names[i]]
		d.Tasks += r.Devices[i].Tasks
		d.Busy += r.Devices[i].Busy
		u.busy[r.Names[i]] = d
	}
	if !u.ran || r.Started < u.first {
		u.first = r.Started
	}
	if !u.ran || r.Ended > u.last {
		u.last = r.Ended
	}
	u.ran = true
}

// end returns what devices did and the part of their time they were idle.
func (u *use) end() (out []DeviceUse, bubble float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var busy time.Duration
	for _, n := range slices.Sorted(slices.Values(u.names)) {
		d := u.busy[n]
		d.Name = n
		out = append(out, d)
		busy += d.Busy
	}
	if there := time.Duration(len(out)) * (u.last - u.first); u.ran && there > 0 {
		bubble = 1 - float64(busy)/float64(there)
	}
	return out, bubble
}
