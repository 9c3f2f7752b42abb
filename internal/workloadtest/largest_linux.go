package workloadtest

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// Hollow returns a slice of n elements that nobody may read or write: it takes addresses and no memory. A job
// of the largest size that its workload allows is made of such slices, to be cut, named and turned into graphs.
func Hollow[T any](t testing.TB, n int) []T {
	t.Helper()
	if n == 0 {
		return nil
	}
	var one T
	mem, err := unix.Mmap(-1, 0, n*int(unsafe.Sizeof(one)), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[0])), n)
}

// Largest cuts a job for few and for many devices and builds its graphs, as a run of it would before it begins:
// names, sizes and launches must be possible.
func Largest(t testing.TB, j workload.Job) {
	t.Helper()
	for _, devices := range []int{1, 3, 16} {
		if p, ok := j.(workload.Placed); ok {
			if err := p.Place(alike(devices)); err != nil {
				t.Errorf("%s on %d devices: %v", j.Name(), devices, err)
				continue
			}
		}
		g, err := j.Graph(even(j.Items(), devices))
		if err != nil {
			t.Errorf("%s on %d devices: %v", j.Name(), devices, err)
			continue
		}
		for id := range g.NumTasks() {
			task := g.Task(graph.TaskID(id))
			for i := range task.Steps {
				launchable(t, j, task, &task.Steps[i])
			}
		}
	}
	for _, r := range even(j.Items(), 1) {
		if in, out := j.Items().Bytes(r.Lo, r.Hi); in <= 0 || out <= 0 {
			t.Errorf("%s reads %d bytes and writes %d, it says", j.Name(), in, out)
		}
	}
}

// alike is a machine of CPU devices that differ in nothing.
func alike(devices int) *machine.Machine {
	m := &machine.Machine{Name: "alike"}
	for range devices {
		d := machine.Device{Name: "cpu", Kind: machine.CPU, Backend: "cpu", ComputeUnits: 1, MemBytes: 1 << 50, HostMemory: true}
		m.Devices = append(m.Devices, d)
	}
	return m
}

// even cuts items into ranges of about the same length, as far as they may be cut.
func even(p sched.Items, n int) (ranges []sched.Range) {
	align := max(p.Align, 1)
	for i, lo := int64(1), int64(0); lo < p.Extent; i++ {
		hi := p.Extent
		if i < int64(n) {
			hi = p.Extent / align * i / int64(n) * align
		}
		if hi > lo {
			ranges = append(ranges, sched.Range{Lo: lo, Hi: hi})
			lo = hi
		}
	}
	return ranges
}

// launchable errs where a kernel in PTX has more blocks than any GPU of NVIDIA takes.
func launchable(t testing.TB, j workload.Job, task *graph.Task, s *graph.Step) {
	t.Helper()
	for _, impl := range s.Kernel.Impls {
		if impl.Dialect != graph.PTX {
			continue
		}
		if l := impl.Shape(s.Launch); l.Grid[0] > 1<<31-1 || l.Grid[1] > 65535 || l.Grid[2] > 65535 {
			t.Errorf("%s: %s: %s is launched with %v blocks", j.Name(), task.Name, s.Kernel.Name, l.Grid)
		}
	}
}
