package weft_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// spoiling are Go kernels that sum what they read. Some of them write it, or fail.
var spoiling = map[string]weft.Func{
	"spoil.sum": func(c *weft.Call, _, _ int) { weft.View[int64](c.Args[1])[0] = total(c.Args[0]) },
	"spoil.writes": func(c *weft.Call, _, _ int) {
		weft.View[int64](c.Args[1])[0] = total(c.Args[0])
		weft.View[int64](c.Args[0])[1] += 1000
	},
	"spoil.writes and fails": func(c *weft.Call, _, _ int) {
		in := weft.View[int64](c.Args[0])
		weft.View[int64](c.Args[1])[0] = total(c.Args[0])
		if in[1] < 1000 {
			in[1] += 1000
			c.Fail(errors.New("half-way"))
		}
	},
	"spoil.writes and panics": func(c *weft.Call, _, _ int) {
		in := weft.View[int64](c.Args[0])
		weft.View[int64](c.Args[1])[0] = total(c.Args[0])
		if in[1] < 1000 {
			in[1] += 1000
			panic("half-way")
		}
	},
	"spoil.fails": func(c *weft.Call, _, _ int) {
		if spoils.Add(1) == 1 {
			c.Fail(errors.New("this once"))
		}
		weft.View[int64](c.Args[1])[0] = total(c.Args[0])
	},
	"spoil.updates": func(c *weft.Call, _, _ int) {
		x := weft.View[int64](c.Args[0])
		x[0] += 10
		if spoils.Add(1) == 1 {
			c.Fail(errors.New("half-way"))
			return
		}
		x[1] += 10
	},
}

// spoils counts calls in this process, or in a worker.
var spoils atomic.Int32

func total(b []byte) (sum int64) {
	for _, x := range weft.View[int64](b) {
		sum += x
	}
	return sum
}

// spoilt returns a graph whose tasks read overlapping slices of x, of four numbers each, one of them
// by another kernel.
func spoilt(t *testing.T, kernel string) *graph.Graph {
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 * 12, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 8 * 8, Output: true})
	for i := range int64(8) {
		name := "spoil.sum"
		if i == 3 {
			name = kernel
		}
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel(name), Launch: graph.Grid(1)}}, Uses: []graph.Use{
			{Data: x, Offset: 8 * i, Bytes: 32, Access: graph.Read}, {Data: y, Offset: 8 * i, Bytes: 8, Access: graph.Write},
		}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A kernel that writes what it only reads gives no wrong result without an error, however it
// ends. Where what it reads is compared, the error says so, and one that fails without having
// written is tried again.
func TestSpoiltInputs(t *testing.T) {
	const retries = "Retries of the run"
	for name, o := range map[string]weft.Options{
		"default": {}, "Retries": {Retries: 3}, "Checksums": {Checksums: true}, retries: {}, "of one core": {Devices: "cpu/1"},
		"Verify": {Verify: 1}, "Verify of 2": {Verify: 2}, "Verify of 3": {Verify: 3},
		"Isolate": {Isolate: true}, "Isolate, " + retries: {Isolate: true}, "Isolate, Checksums": {Isolate: true, Checksums: true},
		"Isolate, Verify": {Isolate: true, Verify: 1},
	} {
		if o.Isolate && testing.Short() {
			continue // workers take a while to start
		}
		t.Run(name, func(t *testing.T) {
			o.NoCalibrate, o.CacheDir, o.Funcs = true, "off", spoiling
			if o.Devices == "" {
				o.Devices = "cpu/3"
			}
			rt, err := weft.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer rt.Close()
			compared := o.Checksums || o.Verify == 1 || strings.HasSuffix(name, retries)
			for kernel := range spoiling {
				spoils.Store(0)
				x, y := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, make([]int64, 8)
				before := slices.Clone(x)
				if kernel == "spoil.updates" {
					updated(t, rt, kernel)
					continue
				}
				p, err := rt.Prepare(spoilt(t, kernel), weft.Bind("x", x), weft.Bind("y", y))
				if err != nil {
					t.Fatal(err)
				}
				with := weft.RunOptions{Concurrent: 1} // writing what others read is a race
				if strings.HasSuffix(name, retries) {
					with.Retries = 3
				}
				if p, err = p.With(with); err != nil {
					t.Fatal(err)
				}
				rep, err := p.Run(t.Context())
				writes := strings.Contains(kernel, "writes")
				right := slices.Equal(x, before)
				for i := range y {
					right = right && y[i] == int64(4*i+10)
				}
				switch {
				case err == nil && !right && kernel != "spoil.writes":
					t.Errorf("%s: %v from %v without an error", kernel, y, x)
				case writes && compared && !errors.Is(err, weft.ErrChecksum):
					t.Errorf("%s: the error is %v", kernel, err)
				case !writes && compared && err != nil:
					t.Errorf("%s: it is not tried again: %v", kernel, err)
				case kernel == "spoil.fails" && (name == "default" || name == "Retries") && (err == nil || !strings.Contains(err.Error(), "this once; not tried again, since what the task reads may have changed")):
					t.Errorf("%s: the error is %v", kernel, err)
				case rep != nil && len(rep.Wrong) > 0:
					t.Errorf("%s: a device is to blame: %v", kernel, rep.Wrong)
				}
			}
		})
	}
}

// updated runs a kernel that fails half-way in an update, which is always tried again.
func updated(t *testing.T, rt *weft.Runtime, kernel string) {
	var b graph.Builder
	z := b.Data(graph.Data{Name: "z", Bytes: 16, Input: true, Output: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel(kernel), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: z, Access: graph.ReadWrite}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	x := []int64{1, 2}
	if _, err := rt.Run(t.Context(), g, weft.Bind("z", x)); err != nil || !slices.Equal(x, []int64{11, 12}) {
		t.Errorf("an update that is tried again gives %v, %v", x, err)
	}
}

// An error that no device can help with is met once, and said once.
func TestPermanentErrors(t *testing.T) {
	type one struct{ A int64 }
	type two struct{ A, B int64 }
	funcs := map[string]weft.Func{"spoil.parameters": weft.WithParams(func(c *weft.Call, p two, _, _ int) {})}
	for _, o := range []weft.Options{{Devices: "cpu/1"}, {Devices: "cpu/4", Retries: 9}, {Devices: "cpu/2", Verify: 1}} {
		o.NoCalibrate, o.CacheDir, o.Funcs = true, "off", funcs
		rt, err := weft.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for kernel, why := range map[string]string{"spoil.nowhere": weft.ErrNoFunc.Error(), "spoil.parameters": "wrong length of parameters"} {
			var b graph.Builder
			y := b.Data(graph.Data{Name: "y", Bytes: 8, Output: true})
			b.Add(graph.Task{Steps: []graph.Step{graph.Step{Kernel: graph.GoKernel(kernel), Launch: graph.Grid(1)}.With(one{1})}, Uses: []graph.Use{{Data: y, Access: graph.Write}}})
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			rep, err := rt.Run(t.Context(), g, weft.Bind("y", make([]int64, 1)))
			var te *weft.TaskError
			if !errors.As(err, &te) || len(te.Attempts) != 1 || rep.Retries != 0 {
				t.Errorf("%s: %v", kernel, err)
			}
			if said := fmt.Sprint(err); strings.Count(said, why) != 1 || len(said) > 260 {
				t.Errorf("%s is said so: %s", kernel, said)
			}
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}
