package workload_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/merkle"
	"github.com/weft-run/weft/workload/reduce"
	"github.com/weft-run/weft/workload/tropical"
)

// described is a device with memory of its own that runs nothing, for plans.
type described struct{ rate float64 }

func (d described) Name() string { return "cuda" }

func (d described) Open(context.Context, *slog.Logger) ([]driver.Device, error) {
	return []driver.Device{d}, nil
}

// Info is a GPU behind a link, of 10 GB/s as long as nobody measures it.
func (d described) Info() machine.Device {
	i := machine.Device{Name: "cuda:0", Kind: machine.Discrete, Backend: "cuda", MemBytes: 1 << 40, ComputeUnits: 1000}
	i.Rates.Ops[graph.FP32], i.Rates.Ops[graph.Int32], i.Rates.Ops[graph.FP64], i.Rates.MemoryBPS = d.rate, d.rate, d.rate, 4e12
	return i
}

func (described) Traits() driver.Traits                       { return driver.Traits{} }
func (described) Attach(*driver.Board, []driver.Lane, func()) {}
func (described) Submit([]driver.Op) error                    { return nil }
func (described) Completions([]driver.Completion) int         { return 0 }
func (described) Close() error                                { return nil }

// independent are jobs whose ranges need nothing of one another.
func independent(t *testing.T) map[string]workload.Job {
	t.Helper()
	jobs := make(map[string]workload.Job)
	add := func(j workload.Job, err error) {
		if err != nil {
			t.Fatal(err)
		}
		jobs[j.Name()] = j
	}
	g, err := gemm.New(gemm.Config{M: 960, K: 250, N: 300})
	add(g, err)
	p, err := tropical.New(tropical.Config{M: 960, K: 250, N: 300})
	add(p, err)
	c, err := conv.New(conv.Config{Shape: conv.Shape{N: 16, C: 8, H: 30, W: 30, K: 8, R: 3, S: 3, Stride: 1, Pad: 1}})
	add(c, err)
	r, err := reduce.New(reduce.Config{Op: "sum", N: 1 << 20})
	add(r, err)
	m, err := merkle.New(merkle.Config{N: 1 << 16})
	add(m, err)
	l, err := landscape.New(landscape.Config{Residues: 60})
	add(l, err)
	return jobs
}

// Alone on a device with memory of its own, a job is several tasks where copying and
// computing can overlap, one where computing takes far longer, and one if its ranges need
// one another; on CPU cores it is one in any case.
func TestPlanOverlapsCopies(t *testing.T) {
	ranges := func(o weft.Options, j workload.Job) int {
		o.NoCalibrate, o.CacheDir = true, "off"
		rt, err := weft.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		p, err := workload.Plan(t.Context(), rt, j)
		if err != nil {
			t.Fatal(err)
		}
		return len(p.Ranges)
	}
	for name, j := range independent(t) {
		// A rate at which computing takes as long as copying does.
		in, out := j.Items().Bytes(0, j.Items().Extent)
		rate := j.Whole().Work.Ops / (float64(in+out) / 10e9)
		if n := ranges(weft.Options{Drivers: []driver.Driver{described{rate}}}, j); n < 2 {
			t.Errorf("%s on a GPU: %d ranges", name, n)
		}
		if n := ranges(weft.Options{Drivers: []driver.Driver{described{rate / 1e4}}}, j); n != 1 {
			t.Errorf("%s on a slow GPU: %d ranges", name, n)
		}
		if n := ranges(weft.Options{Devices: "cpu"}, j); n != 1 {
			t.Errorf("%s on a CPU: %d ranges", name, n)
		}
	}
	rounds, err := automata.New(automata.Config{Rows: 512, Cols: 64, Steps: 8})
	if err != nil {
		t.Fatal(err)
	}
	if n := ranges(weft.Options{Drivers: []driver.Driver{described{1e12}}}, rounds); n != 1 {
		t.Errorf("%s on a GPU: %d ranges", rounds.Name(), n)
	}
}

// Whatever number of tasks a job is cut into, its result has the same bits.
func TestAnyNumberOfTasks(t *testing.T) {
	rt := workloadtest.Open(t, 1, funcs())
	counts := []int64{1, 16, 2, 3, 8}
	if testing.Short() {
		counts = counts[:2]
	}
	for name, j := range independent(t) {
		var want []byte
		p := j.Items()
		for _, n := range counts {
			var ranges []sched.Range
			align := max(p.Align, 1)
			for lo, i := int64(0), int64(1); lo < p.Extent; i++ {
				if hi := min(i*p.Extent/n/align*align, p.Extent); i >= n || hi > lo {
					if i >= n {
						hi = p.Extent
					}
					ranges = append(ranges, sched.Range{Lo: lo, Hi: hi})
					lo = hi
				}
			}
			g, err := j.Graph(ranges)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rt.Run(t.Context(), g, j.Bind()...); err != nil {
				t.Fatalf("%s as %d tasks: %v", name, len(ranges), err)
			}
			if err := j.Check(); err != nil {
				t.Errorf("%s as %d tasks: %v", name, len(ranges), err)
			}
			got := resultOf(j)
			if want == nil {
				want = bytes.Clone(got)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s as %d tasks has another result than as one", name, len(ranges))
			}
		}
	}
}

// resultOf is what a job computed, as bytes.
func resultOf(j workload.Job) []byte {
	switch r := j.(type) {
	case interface{ Result() []float32 }:
		x := r.Result()
		return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
	case interface{ Result() []float64 }:
		x := r.Result()
		return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 8*len(x))
	case interface{ Result() float32 }:
		return fmt.Append(nil, r.Result())
	case workload.Summarised:
		return []byte(r.Summary())
	}
	panic("no result")
}
