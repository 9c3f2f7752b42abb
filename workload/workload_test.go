package workload

import (
	"errors"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Jobs that place their tasks themselves are told which devices can run them.
func TestAble(t *testing.T) {
	m := &machine.Machine{Devices: []machine.Device{
		{Name: "cpu:0", Backend: "cpu", HostMemory: true}, {Name: "cuda:0", Backend: "cuda", Arch: "sm_90"}, {Name: "vulkan:0", Backend: "vulkan"},
	}}
	plain := graph.GoKernel("plain")
	both := With(graph.GoKernel("both"), PTX([]byte("source"), "both", 32))
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
	vulkan := machine.Device{Name: "vulkan:0", Backend: "vulkan", Rounding: "A"}
	other := machine.Device{Name: "vulkan:1", Backend: "vulkan", Rounding: "B"}
	both := With(graph.GoKernel("both"), PTX([]byte("source"), "both", 32))
	all := With(With(graph.GoKernel("all"), both.Impls[1]), graph.Impl{Dialect: graph.SPIRV, Source: []byte{1}})
	blas := With(With(graph.GoKernel("blas"), both.Impls[1]), Library("cublas.sgemm"))
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
