//go:build lavapipe || gpu

package workloadtest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// Sample is a job and the bytes of its result once it ran.
type Sample struct {
	workload.Job
	Result func() []byte
}

// Samples are the jobs that a suite tries on devices.
type Samples struct {
	Funcs map[string]weft.Func // their Go kernels
	Make  func(*testing.T) []Sample
}

// Kernels returns the kernels of the samples, and of further jobs, that have code in a dialect, exact or not.
// Workloads make each kernel once, so that what a test changes of one holds for every job.
func (s Samples) Kernels(t *testing.T, d graph.Dialect, more ...workload.Job) (kernels []*graph.Kernel) {
	t.Helper()
	core := Exact(t, cpu.New(cpu.Options{Funcs: s.Funcs})) // for jobs that keep something there
	defer core.Close()
	for _, sample := range s.Make(t) {
		more = append(more, sample.Job)
	}
	for _, j := range more {
		if kept, ok := j.(workload.Stateful); ok {
			if err := kept.Begin(t.Context(), core); err != nil {
				t.Fatal(err)
			}
			defer kept.Release()
		}
		for _, exact := range []bool{true, false} {
			gpu := &machine.Machine{Devices: []machine.Device{{Name: "gpu:0", Backend: "cuda", Arch: "sm_90", Cluster: 16, Kind: machine.Discrete, MemBytes: 1 << 30, Exact: exact}}}
			gpu.Links = []machine.Link{{A: machine.Host, B: 0, BPS: 1e9}}
			if p, ok := j.(workload.Placed); ok {
				if err := p.Place(gpu); err != nil {
					t.Fatal(err)
				}
			}
			g, err := j.Graph([]sched.Range{{Hi: j.Items().Extent}})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range g.Kernels() {
				has := slices.ContainsFunc(k.Impls, func(i graph.Impl) bool { return i.Dialect == d && i.Entry != "" })
				if has && !slices.Contains(kernels, k) {
					kernels = append(kernels, k)
				}
			}
		}
	}
	return kernels
}

// Exact opens the devices of a driver without routines of vendors.
func Exact(t *testing.T, d driver.Driver) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(t.Context(), weft.Options{NoCalibrate: true, CacheDir: "off", Exact: true, Drivers: []driver.Driver{d}})
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// InThirds runs a job again, cut into three tasks, so that kernels begin in the middle of
// things. What keeps state stays as it is.
func InThirds(t *testing.T, rt *weft.Runtime, j workload.Job) {
	t.Helper()
	p := j.Items()
	align := max(p.Align, 1)
	third := p.Extent / 3 / align * align
	_, stateful := j.(workload.Stateful)
	if third == 0 || stateful {
		return
	}
	g, err := j.Graph([]sched.Range{{Hi: third}, {Lo: third, Hi: 2 * third}, {Lo: 2 * third, Hi: p.Extent}})
	if err != nil {
		t.Fatal(err)
	}
	weft.Spoil(g, j.Bind()...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := rt.Run(ctx, g, j.Bind()...); err != nil {
		t.Fatalf("%s in three tasks: %v", j.Name(), err)
	}
}

// On runs every sample on the devices of a driver, one workload to a subtest. The check of
// each must pass, class X must give the bytes that a CPU gives, and three tasks those of one.
// So must workloads whose kernels have the operations of the Go kernels in their order, where
// devices round each as CPUs do: they are named.
func (s Samples) On(t *testing.T, d driver.Driver, same ...string) {
	core, rt := Exact(t, cpu.New(cpu.Options{Funcs: s.Funcs})), Exact(t, d)
	defer core.Close()
	defer rt.Close()
	wanted := s.Make(t)
	for i, j := range s.Make(t) {
		name, _, _ := strings.Cut(j.Name(), " ")
		t.Run(name, func(t *testing.T) {
			run := func(rt *weft.Runtime, j workload.Job) {
				if _, ok := j.(workload.Stateful); ok {
					Run(t, rt, j) // the next run goes on from it
				}
				Run(t, rt, j)
			}
			run(rt, j.Job)
			if err := j.Check(); err != nil {
				t.Errorf("%s: %v", j.Name(), err)
			}
			whole := bytes.Clone(j.Result())
			if j.Class() == workload.Exact || slices.Contains(same, name) {
				run(core, wanted[i].Job)
				if !bytes.Equal(whole, wanted[i].Result()) {
					t.Errorf("%s: a CPU gives other bytes", j.Name())
				}
			}
			InThirds(t, rt, j.Job)
			if c := j.Class(); (c == workload.Exact || c == workload.RowExact) && !bytes.Equal(whole, j.Result()) {
				t.Errorf("%s: three tasks give other bytes than one", j.Name())
			}
			if err := j.Check(); err != nil {
				t.Errorf("%s in three tasks: %v", j.Name(), err)
			}
		})
	}
}
