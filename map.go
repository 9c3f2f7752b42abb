package weft

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// ErrPanic is wrapped by the error of a function or Go kernel that panicked.
var ErrPanic = trace.ErrPanic

// MapError is how Map fails: at the first element, in input order, whose
// function erred or panicked.
type MapError struct {
	Index int
	Err   error  // wraps ErrPanic if it panicked
	Stack []byte // of the panic
}

func (e *MapError) Error() string { return fmt.Sprintf("map: element %d: %v", e.Index, e.Err) }

func (e *MapError) Unwrap() error { return e.Err }

// Map applies f to every element on the CPU devices and returns the results in
// input order. Elements are grouped into tasks by how long the first ones took,
// so that f may take nanoseconds or seconds. f is called from many goroutines; it
// must not wait for the runtime, and is called again for an element whose device
// was lost. A panic ends as a MapError.
func Map[T, U any](ctx context.Context, r *Runtime, xs []T, f func(T) U) ([]U, error) {
	return MapErr(ctx, r, xs, func(x T) (U, error) { return f(x), nil })
}

// MapErr is Map for functions that can fail. When some do, the results are nil
// and the error is a MapError for the first of them in input order, however the
// elements were spread over devices.
func MapErr[T, U any](ctx context.Context, r *Runtime, xs []T, f func(T) (U, error)) ([]U, error) {
	out := make([]U, len(xs))
	m := &mapping{n: len(xs)}
	m.lowest.Store(int64(len(xs)))
	m.block = func(lo, hi int) {
		// Results are handed over whole: a device that hangs may come back
		// when another has long done its work, or when Map has returned.
		part := make([]U, hi-lo)
		for i := lo; i < hi; i++ {
			if !m.apply(i, func() (err error) { part[i-lo], err = f(xs[i]); return err }) {
				return
			}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.over {
			copy(out[lo:hi], part)
		}
	}
	if err := r.runMap(ctx, m); err != nil {
		return nil, err
	}
	return out, nil
}

// mapping is a call of Map in progress.
type mapping struct {
	n     int
	block func(lo, hi int)
	// lowest is the first element that failed, n when none did; what comes
	// after it need not be computed.
	lowest atomic.Int64

	mu   sync.Mutex
	took []time.Duration // for an element, by block of the round
	err  *MapError       // of lowest
	over bool            // Map has returned
}

// each is what an element takes: the median over blocks, since some are held up
// by what else the machine does.
func (m *mapping) each() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.took)
	return max(m.took[len(m.took)/2], 1)
}

// quickest is what the quickest block took for an element. Of very few blocks it
// says more than their median, which may be one that was held up.
func (m *mapping) quickest() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(slices.Min(m.took), 1)
}

// apply computes an element and reports whether the block should go on.
func (m *mapping) apply(i int, f func() error) bool {
	if int64(i) >= m.lowest.Load() {
		return false
	}
	stack, err := guard(f)
	if err == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if int64(i) < m.lowest.Load() {
		m.lowest.Store(int64(i))
		m.err = &MapError{Index: i, Err: err, Stack: stack}
	}
	return false
}

// guard turns a panic into an error.
func guard(f func() error) (stack []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			stack, err = debug.Stack(), fmt.Errorf("%w: %v", ErrPanic, p)
		}
	}()
	return nil, f()
}

// close ends the mapping: nothing changes its results any more.
func (m *mapping) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.err != nil {
		return m.err
	}
	return nil
}

// mappings finds the mapping a task belongs to: kernels are known by name, so that
// all mappings share one, and say in their parameters which they are.
type mappings struct {
	next atomic.Uint64
	live sync.Map // of *mapping by number
}

// mapKernel is the kernel of every mapping. Its work is counted in nanoseconds
// of one core, since that is what was measured.
var mapKernel = &graph.Kernel{Name: "weft.map", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "weft.map"}}}

// mapParams are its parameters.
type mapParams struct {
	mapping uint64 // its number
	base    int64  // the first element of the task
}

// run is the function behind mapKernel.
func (ms *mappings) run(c *Call, p mapParams, lo, hi int) {
	v, ok := ms.live.Load(p.mapping)
	if !ok {
		return // the caller has given up
	}
	m, base := v.(*mapping), int(p.base)
	began := time.Now()
	m.block(base+lo, base+hi)
	took := time.Since(began) / time.Duration(hi-lo)
	m.mu.Lock()
	m.took = append(m.took, took)
	m.mu.Unlock()
}

const (
	// mapTask is how long a task of a mapping should take on a core: long
	// beside what a task costs (about a microsecond), short beside what people
	// notice.
	mapTask = 500 * time.Microsecond
	// tasksPerCore is how many tasks each core, or each of several devices, gets at
	// least, so that all end at about the same time.
	tasksPerCore = 4
	// coreElements is how many elements that take long each core of a device with several
	// has of a task at least. The cores take them one by one, and at the end of the
	// task wait for the last: for half an element in eight, about.
	coreElements = 8
	// mapSample is how many elements each task of the second round takes at most.
	mapSample = 64
)

// runMap runs a mapping in up to three rounds: an element for each core; if these
// were quick, some more; and the rest in tasks that take about equally long.
func (r *Runtime) runMap(ctx context.Context, m *mapping) error {
	devices, cores := 0, 0
	for i := range r.x.Machine.Devices {
		if d := &r.x.Machine.Devices[i]; d.Kind == machine.CPU {
			devices++
			cores += max(d.ComputeUnits, 1)
		}
	}
	if devices == 0 {
		return fmt.Errorf("map: %w: it needs a CPU device", ErrNoDevice)
	}
	team := max(cores/devices, 1) // cores that divide each task of a device among them
	id := r.maps.next.Add(1)
	r.maps.live.Store(id, m)
	defer r.maps.live.Delete(id)
	done := 0
	round := func(n, size int, each time.Duration) error {
		n = min(n, m.n-done)
		if n == 0 || int(m.lowest.Load()) < done {
			return nil // nothing is left, or nothing that matters
		}
		g, err := mapGraph(id, done, n, size, each)
		if err != nil {
			return err
		}
		done += n
		m.mu.Lock()
		m.took = m.took[:0]
		m.mu.Unlock()
		end := make(chan exec.End, 1)
		j := &exec.Job{
			Graph: g, Options: engine.RunOptions{Retries: -1},
			Done: func(rep *engine.Report, err error) { r.tell(end, rep, err) },
		}
		r.x.Start(j)
		e, _ := r.x.Wait(ctx, j, end)
		return e.Err
	}
	err := ctx.Err()
	if err != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), ErrCancelled)
	}
	if err == nil {
		err = round(cores, team, time.Microsecond)
	}
	if err == nil && done < m.n {
		// The first of all are slower than the rest will be.
		if each := m.quickest(); each < mapTask {
			size := min(int(mapTask/each), mapSample)
			err = round(tasksPerCore*cores*size, size, each)
		}
	}
	if err == nil && done < m.n {
		size := max(int(mapTask/m.each()), 1) * team
		if team > 1 {
			size = max(size, coreElements*team)
		}
		if devices > 1 {
			size = min(size, max((m.n-done)/(tasksPerCore*devices), team))
		}
		err = round(m.n, size, m.each())
	}
	if failed := m.close(); failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("map: %w", err)
	}
	return nil
}

// mapGraph builds tasks for n elements from base on, size at a time.
func mapGraph(id uint64, base, n, size int, each time.Duration) (*graph.Graph, error) {
	var b graph.Builder
	for lo := 0; lo < n; lo += size {
		k := min(size, n-lo)
		step := graph.Step{Kernel: mapKernel, Launch: graph.Launch{Grid: [3]uint32{uint32(k), 1, 1}}}
		b.Add(graph.Task{
			Name:  fmt.Sprintf("elements %d to %d", base+lo, base+lo+k-1),
			Steps: []graph.Step{step.With(mapParams{id, int64(base + lo)})},
			Work:  graph.Work{Ops: float64(k) * float64(each)},
		})
	}
	return b.Build()
}
