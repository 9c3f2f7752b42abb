package weft_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

type scaleBy struct {
	K     float32
	Index bool
}

// affine is y[i] = k·x[i] + table[i mod len], elementwise.
func affine() *weft.Kernel[struct{ K float32 }] {
	return &weft.Kernel[struct{ K float32 }]{
		Name: "affine", Elementwise: true,
		Go: func(c *weft.Call, p struct{ K float32 }, lo, hi int) {
			x, y, table := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float64](c.Args[2])
			for i := lo; i < hi; i++ {
				y[i] = p.K*x[i] + float32(table[int(x[i])%len(table)])
			}
		},
	}
}

// Results are in the caller's slices however many devices share the work.
func TestApply(t *testing.T) {
	k := affine()
	r := rand.New(rand.NewPCG(5, 6))
	for _, devices := range []string{"cpu/1", "cpu/2", "cpu/3"} {
		rt := open(t, weft.Options{Devices: devices, Partitioner: "equal"})
		for _, n := range []int{0, 1, 7, 255, 257, 5000, 300_001} {
			x, y, table := make([]float32, n), make([]float32, n), []float64{10, 20, 30}
			for i := range x {
				x[i] = float32(r.IntN(1000))
			}
			rep, err := weft.Apply(t.Context(), rt, k, struct{ K float32 }{0.5}, weft.In(x), weft.Out(y), weft.Whole(table))
			if err != nil {
				t.Fatalf("%d on %s: %v", n, devices, err)
			}
			for i := range y {
				if want := 0.5*x[i] + float32(table[int(x[i])%3]); y[i] != want {
					t.Fatalf("%d on %s: element %d is %v, want %v", n, devices, i, y[i], want)
				}
			}
			if n == 300_001 && (rep.Executed > 1) != (devices != "cpu/1") {
				t.Errorf("%d tasks on %s", rep.Executed, devices)
			}
		}
	}
}

// A kernel that is not elementwise has all of its arguments, and as many items as it writes.
func TestApplyWhole(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2"})
	reverse := &weft.Kernel[struct{}]{Name: "reverse", Go: func(c *weft.Call, _ struct{}, lo, hi int) {
		x, y := weft.View[[2]uint16](c.Args[0]), weft.View[uint32](c.Args[1])
		for i := lo; i < hi; i++ {
			y[i] += uint32(x[len(x)-1-i][1])
		}
	}}
	const n = 10_000
	x, y := make([][2]uint16, n+5), make([]uint32, n)
	for i := range x {
		x[i][1] = uint16(i)
	}
	for range 2 {
		if _, err := weft.Apply(t.Context(), rt, reverse, struct{}{}, weft.In(x), weft.InOut(y)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range y {
		if want := 2 * uint32(n+4-i); y[i] != want {
			t.Fatalf("element %d is %d, want %d", i, y[i], want)
		}
	}
}

// Kernels of one name keep to their own functions, and calls may overlap.
func TestApplyAtOnce(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2"})
	var wg sync.WaitGroup
	for add := range 8 {
		k := &weft.Kernel[struct{ By int32 }]{Name: "add", Elementwise: true, Go: func(c *weft.Call, p struct{ By int32 }, lo, hi int) {
			for i := range weft.View[int32](c.Args[0])[lo:hi] {
				weft.View[int32](c.Args[0])[lo+i] += p.By + int32(100*add)
			}
		}}
		wg.Go(func() {
			for range 20 {
				x := make([]int32, 1000)
				if _, err := weft.Apply(t.Context(), rt, k, struct{ By int32 }{-7}, weft.InOut(x)); err != nil {
					t.Error(err)
				}
				for i := range x {
					if x[i] != int32(100*add-7) {
						t.Errorf("kernel %d: element %d is %d", add, i, x[i])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// What is wrong is told in one line, before anything runs.
func TestApplyRefuses(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/1", Retries: -1})
	type none = struct{}
	nothing := func(*weft.Call, none, int, int) {}
	good := func() *weft.Kernel[none] { return &weft.Kernel[none]{Name: "k", Elementwise: true, Go: nothing} }
	x, y := make([]float32, 4), make([]float32, 5)
	pointers := make([]*int, 4)
	ctx := t.Context()
	for want, call := range map[string]struct {
		do func() (*weft.Report, error)
		is error
	}{
		"apply k: missing implementation: the kernel has no form: give it Go, CUDA, PTX or SPIRV": {func() (*weft.Report, error) {
			return weft.Apply(ctx, rt, &weft.Kernel[none]{Name: "k"}, none{}, weft.Out(x))
		}, graph.ErrKernel},
		"apply : missing implementation: the kernel has no name: CUDA C and PTX are found by it": {func() (*weft.Report, error) {
			return weft.Apply(ctx, rt, &weft.Kernel[none]{CUDA: "source"}, none{}, weft.Out(x))
		}, graph.ErrKernel},
		"apply k: bad value: an item of the kernel takes -1 operations": {func() (*weft.Report, error) {
			return weft.Apply(ctx, rt, &weft.Kernel[none]{Name: "k", Go: nothing, Ops: -1}, none{}, weft.Out(x))
		}, graph.ErrValue},
		"apply k: bad value: weft_test.scaleBy.Index is of type bool: a parameter is an int, uint32, int32, float32, uint64, int64 or float64": {func() (*weft.Report, error) {
			k := &weft.Kernel[scaleBy]{Name: "k", Go: func(*weft.Call, scaleBy, int, int) {}}
			return weft.Apply(ctx, rt, k, scaleBy{}, weft.Out(x))
		}, graph.ErrValue},
		"apply k: bad binding: argument 0 has 4 elements and argument 1 has 5: an elementwise kernel needs arguments of equal length; pass others by Whole": {func() (*weft.Report, error) {
			return weft.Apply(ctx, rt, good(), none{}, weft.In(x), weft.Out(y))
		}, weft.ErrBinding},
		"apply k: bad binding: argument 1 has no elements": {func() (*weft.Report, error) {
			return weft.Apply(ctx, rt, good(), none{}, weft.Out(x), weft.Whole(x[:0]))
		}, weft.ErrBinding},
		"apply k: bad binding: argument 1 is nothing: use In, Out, InOut or Whole": {func() (*weft.Report, error) {
			return weft.Apply(ctx, rt, good(), none{}, weft.Out(x), weft.Arg{})
		}, weft.ErrBinding},
		"apply k: bad binding: no argument says how many items there are: give it one by Out or InOut": {func() (*weft.Report, error) {
			return weft.Apply(ctx, rt, good(), none{}, weft.Whole(x))
		}, weft.ErrBinding},
		`apply k: bad binding: data "argument 0": values of type *int hold pointers, which mean nothing on a device; use numbers, and structs and arrays of them`: {func() (*weft.Report, error) {
			return weft.Apply(ctx, rt, good(), none{}, weft.InOut(pointers))
		}, weft.ErrBinding},
	} {
		if _, err := call.do(); err == nil || err.Error() != want || !errors.Is(err, call.is) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	for _, elementwise := range []bool{false, true} {
		if _, err := weft.Apply(ctx, rt, &weft.Kernel[none]{Name: "k", CUDA: "source", Elementwise: elementwise}, none{}, weft.Out(x)); !errors.Is(err, weft.ErrNoDevice) {
			t.Errorf("on cores, without a Go function, elementwise %v: %v", elementwise, err)
		}
	}
	boom := &weft.Kernel[none]{Name: "boom", Go: func(*weft.Call, none, int, int) { panic("boom") }}
	var p *weft.PanicError
	if _, err := weft.Apply(ctx, rt, boom, none{}, weft.Out(x)); !errors.As(err, &p) || !strings.Contains(err.Error(), "apply_test.go:") {
		t.Errorf("panic: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := weft.Apply(ended, rt, good(), none{}, weft.Out(x)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for _, call := range []func(){
		func() { weft.Apply(ctx, nil, good(), none{}) },
		func() { weft.Apply[none](ctx, rt, nil, none{}) },
	} {
		func() {
			defer func() {
				if p := recover(); fmt.Sprint(p) != "weft: Apply: the runtime or the kernel is nil" {
					t.Error(p)
				}
			}()
			call()
		}()
	}
}
