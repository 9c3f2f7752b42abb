package workload

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Whatever is cut, tasks cover the range without gaps, lie on boundaries, and
// none but one that could not be is smaller than asked for.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 5000).Draw(t, "n")
		p := sched.Pieces{Extent: n, Align: rapid.Int64Range(0, 70).Draw(t, "align")}
		if rapid.Bool().Draw(t, "uneven") {
			p.Cost = func(lo, hi int64) float64 { return float64(hi*hi - lo*lo) }
		}
		align := max(p.Align, 1)
		r := sched.Range{Lo: rapid.Int64Range(0, n).Draw(t, "lo") / align * align, Hi: n}
		grain := rapid.Int64Range(1, 100).Draw(t, "grain")
		least := rapid.SampledFrom([]float64{leastOneCore, leastTeamwork, 1}).Draw(t, "least")
		at := r.Lo
		tasks := cut(p, r, least, grain)
		for i, task := range tasks {
			if task.Lo != at || task.Hi <= task.Lo || task.Hi%align != 0 && task.Hi != n {
				t.Fatalf("task %d of %v is %v", i, tasks, task)
			}
			if task.Len() < min(grain, r.Len()) {
				t.Fatalf("task %d of %v has %d items, want %d", i, tasks, task.Len(), grain)
			}
			at = task.Hi
		}
		if at != r.Hi {
			t.Fatalf("%v end before %d", tasks, r.Hi)
		}
		if least == 1 && len(tasks) > 1 {
			t.Fatalf("%v is not one task", tasks)
		}
	})
}

// Even work becomes tasks that shrink from a quarter to the least.
func TestCutShrinks(t *testing.T) {
	tasks := cut(sched.Pieces{Extent: 6400}, sched.Range{Hi: 6400}, leastOneCore, 1)
	if first := tasks[0].Len(); first != 1600 {
		t.Errorf("the first task has %d of 6400 items", first)
	}
	for i := 1; i < len(tasks)-1; i++ {
		if tasks[i].Len() > tasks[i-1].Len() || tasks[i].Len() < 100 {
			t.Errorf("tasks do not shrink to the least: %v", tasks)
		}
	}
	if len(tasks) < 10 || len(tasks) > 20 {
		t.Errorf("%d tasks", len(tasks))
	}
}

// What is more than a kernel can be given is halved until it is not; what every
// range has whole cannot be, and stays.
func TestFit(t *testing.T) {
	p := sched.Pieces{Extent: 1000, Align: 8, Bytes: func(lo, hi int64) (in, out int64) { return 100 + 10*(hi-lo), hi - lo }}
	whole := []sched.Range{{Lo: 0, Hi: 1000}}
	for most, want := range map[int64]int{1 << 40: 1, 10_100: 1, 10_099: 2, 2_700: 4, 180: 1000 / 8, 179: 1} {
		got := fit(p, whole, most)
		at := int64(0)
		for _, r := range got {
			if r.Lo != at || r.Len() <= 0 || r.Lo%8 != 0 {
				t.Errorf("at most %d: %v", most, got)
			}
			at = r.Hi
		}
		if len(got) != want || at != 1000 {
			t.Errorf("at most %d: %d ranges up to %d, want %d", most, len(got), at, want)
		}
	}
}

// Jobs that place their tasks themselves are told which devices can run them.
func TestAble(t *testing.T) {
	m := &machine.Machine{Devices: []machine.Device{
		{Name: "cpu:0", Backend: "cpu", HostMemory: true}, {Name: "cuda:0", Backend: "cuda", Arch: "sm_90"}, {Name: "vulkan:0", Backend: "vulkan"},
	}}
	plain := GoKernel("plain")
	both := With(GoKernel("both"), PTX([]byte("source"), "both", 32))
	if got, err := Able(m, plain, both); err != nil || !slices.Equal(got, []machine.DeviceID{0}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Able(m, both); err != nil || !slices.Equal(got, []machine.DeviceID{0, 1}) {
		t.Errorf("%v, %v", got, err)
	}
	m.Devices = m.Devices[1:]
	if got, err := Able(m, plain); !errors.Is(err, weft.ErrNoDevice) {
		t.Errorf("%v, %v", got, err)
	}
}

// plain is a job of one kernel with a class.
type plain struct {
	Job
	class  Class
	kernel *graph.Kernel
}

func (p plain) Class() Class      { return p.class }
func (p plain) Whole() graph.Task { return graph.Task{Steps: []graph.Step{{Kernel: p.kernel}}} }

// Where backends share the work, rows are the same only within a tolerance; what is
// exact stays so. Devices that cannot run the job do not count, and library routines
// promise no bits.
func TestClassOn(t *testing.T) {
	cpus := machine.Device{Name: "cpu:0", Backend: "cpu", HostMemory: true}
	cuda := machine.Device{Name: "cuda:0", Backend: "cuda", Arch: "sm_90"}
	exact := cuda
	exact.Exact = true
	vulkan := machine.Device{Name: "vulkan:0", Backend: "vulkan", Model: "A"}
	other := machine.Device{Name: "vulkan:1", Backend: "vulkan", Model: "B"}
	both := With(GoKernel("both"), PTX([]byte("source"), "both", 32))
	all := With(With(GoKernel("all"), both.Impls[1]), graph.Impl{Dialect: graph.SPIRV, Source: []byte{1}})
	blas := With(With(GoKernel("blas"), both.Impls[1]), Library("cublas.sgemm"))
	for _, c := range []struct {
		class  Class
		kernel *graph.Kernel
		on     []machine.Device
		want   Class
	}{
		{RowExact, all, []machine.Device{cpus, cpus}, RowExact},
		{RowExact, all, []machine.Device{cuda, cuda}, RowExact},
		{RowExact, all, []machine.Device{cpus, cuda}, Tolerance},
		{RowExact, all, []machine.Device{vulkan, cuda}, Tolerance},
		{RowExact, all, []machine.Device{vulkan, vulkan}, RowExact},
		{RowExact, all, []machine.Device{vulkan, other}, Tolerance},
		{RowExact, both, []machine.Device{cpus, vulkan}, RowExact},
		{Exact, all, []machine.Device{cpus, cuda, vulkan, other}, Exact},
		{RowExact, blas, []machine.Device{cuda}, Tolerance},
		{RowExact, blas, []machine.Device{exact}, RowExact},
		{RowExact, blas, []machine.Device{cpus}, RowExact},
	} {
		if got := ClassOn(plain{class: c.class, kernel: c.kernel}, c.on); got != c.want {
			t.Errorf("class %s of %s on %d devices is %s, want %s", c.class, c.kernel.Name, len(c.on), got, c.want)
		}
	}
}
