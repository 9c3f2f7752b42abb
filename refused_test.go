package weft_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
)

// of builds one task of a kernel from x to y.
func of(t *testing.T, k *graph.Kernel, on ...string) *graph.Graph {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 128, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 128, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{1, 1, 1}}}},
		Uses:  []graph.Use{{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}},
		On:    graph.Constraint{Only: on},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A name that is bound twice is refused, however many bindings there are; Prepare binds
// and a run binds anew.
func TestBoundTwice(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	x, y, z := make([]int64, 16), make([]int64, 16), make([]int64, 16)
	g := small(t, 1)
	both := []weft.Binding{weft.Bind("x", x), weft.Bind("y", y), weft.Bind("y", z)}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, weft.ErrBinding) || !strings.Contains(err.Error(), `data "y" is bound twice`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := rt.Run(t.Context(), g, both...)
	refused("run", err)
	_, err = rt.Submit(g, nil, both...).Wait()
	refused("submit", err)
	_, err = rt.Prepare(g, both...)
	refused("prepare", err)
	p, err := rt.Prepare(g, both[:2]...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(t.Context(), both[1:]...)
	refused("run of a prepared graph", err)
	if _, err := p.Run(t.Context(), weft.Bind("y", z)); err != nil || z[0] != 1 {
		t.Errorf("bound anew: %d, %v", z[0], err)
	}
	var many []weft.Binding
	for range 10 {
		many = append(many, weft.Bind("y", y))
	}
	_, err = rt.Run(t.Context(), g, many...)
	refused("many", err)
}

// Resident data may be read under several names and written under one.
func TestResidentBoundTwice(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	a, err := weft.Put(rt, "a", make([]int64, 16))
	if err != nil {
		t.Fatal(err)
	}
	g := two(t)
	x, u, v := make([]int64, 16), make([]int64, 16), make([]int64, 16)
	for range 2 { // what is refused leaves nothing behind
		_, err = rt.Run(t.Context(), g, weft.Bind("x", x), weft.Bind("u", u), a.As("y"), a.As("v"))
		if !errors.Is(err, weft.ErrBinding) || !strings.Contains(err.Error(), `"a" is bound to data "y" and to data "v"`) {
			t.Errorf("two outputs: %v", err)
		}
		p, err := rt.Prepare(g, a.As("y"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = p.Run(t.Context(), weft.Bind("x", x), weft.Bind("u", u), a.As("v")); !errors.Is(err, weft.ErrBinding) {
			t.Errorf("two outputs, one prepared: %v", err)
		}
	}
	if _, err := rt.Run(t.Context(), g, a.As("x"), a.As("u"), a.As("y"), weft.Bind("v", v)); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Get(t.Context()); err != nil || got[3] != 1 || v[3] != 1 {
		t.Errorf("read twice and written once: %v, %v, %v", got, v, err)
	}
}

// Prepare refuses a kernel in Go whose function is not registered, unless a device can do
// without.
func TestUnknownFunction(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	for _, c := range []struct{ entry, says string }{
		{"icn", `kernel "k": no Go function is registered for it: "icn"; did you mean "inc"?`},
		{"absent", `kernel "k": no Go function is registered for it: "absent"`},
		{"inc", ""}, {"", ""},
	} {
		g := of(t, &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: c.entry}}})
		_, err := rt.Prepare(g)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, weft.ErrNoDevice) || !errors.Is(err, weft.ErrNoFunc) || !strings.HasSuffix(err.Error(), c.says)) {
			t.Errorf("entry %q: %v", c.entry, err)
		}
	}
	second := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "absent"}, {Dialect: graph.Go, Entry: "inc"}}}
	if _, err := rt.Prepare(of(t, second)); err != nil {
		t.Errorf("the second implementation is registered: %v", err)
	}
}

// The error for a kernel that no device can run says in which dialects its code is and
// which the devices run.
func TestNoDeviceSays(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	alien := &graph.Kernel{Name: "alien", Impls: []graph.Impl{{Dialect: graph.PTX, Entry: "a"}, {Dialect: graph.SPIRV, Entry: "a"}, {Dialect: graph.PTX, Entry: "b"}}}
	const want = `no device can run it: kernel "alien" has code in ptx, spirv; cpu devices run go`
	g := of(t, alien)
	x, y := make([]int64, 16), make([]int64, 16)
	_, prepared := rt.Prepare(g)
	_, ran := rt.Run(t.Context(), g, weft.Bind("x", x), weft.Bind("y", y))
	for _, err := range []error{prepared, ran} {
		if !errors.Is(err, weft.ErrNoDevice) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	inc := &graph.Kernel{Name: "inc", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "inc"}}}
	_, err := rt.Run(t.Context(), of(t, inc, "cuda:7"), weft.Bind("x", x), weft.Bind("y", y))
	if !errors.Is(err, weft.ErrNoDevice) || !strings.Contains(err.Error(), "it may only run on cuda:7") {
		t.Errorf("a constraint that no device meets: %v", err)
	}
}

// A panic of a kernel is told with its place and its stack, whether one core runs it or
// several do.
func TestKernelPanic(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu", Retries: -1, Funcs: map[string]weft.Func{
		"index": func(c *weft.Call, lo, hi int) { c.Args[0][len(c.Args[0])+lo] = 1 },
		"error": func(*weft.Call, int, int) { panic(io.ErrUnexpectedEOF) },
	}})
	x, y := make([]int64, 16), make([]int64, 16)
	for _, entry := range []string{"index", "error"} {
		for _, items := range []uint32{1, 1000} {
			k := &graph.Kernel{Name: entry, Impls: []graph.Impl{{Dialect: graph.Go, Entry: entry}}}
			g := of(t, k)
			g.Task(0).Steps[0].Launch.Grid[0] = items
			_, err := rt.Run(t.Context(), g, weft.Bind("x", x), weft.Bind("y", y))
			var p *weft.PanicError
			switch {
			case !errors.Is(err, weft.ErrPanic) || !errors.As(err, &p):
				t.Errorf("%s of %d items: %v", entry, items, err)
			case !strings.Contains(p.At, "TestKernelPanic") || !strings.Contains(p.At, "refused_test.go:") || !strings.Contains(string(p.Stack), "TestKernelPanic"):
				t.Errorf("%s of %d items panicked in %s:\n%s", entry, items, p.At, p.Stack)
			case !strings.Contains(err.Error(), "kernel: panic: ") || !strings.Contains(err.Error(), "refused_test.go:"):
				t.Errorf("%s of %d items: %v", entry, items, err)
			case errors.Is(err, io.ErrUnexpectedEOF) != (entry == "error"):
				t.Errorf("%s of %d items: what it panicked with is lost: %v", entry, items, err)
			}
		}
	}
}

// A graph that is nil is an error wherever a graph is taken.
func TestNilGraph(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	ctx := t.Context()
	work := weft.Divisible{
		Items: sched.Items{Extent: 10}, Whole: *small(t, 1).Task(0),
		Graph: func([]sched.Range) (*graph.Graph, error) { return nil, nil },
	}
	for name, call := range map[string]func() error{
		"Run":     func() error { _, err := rt.Run(ctx, nil); return err },
		"Submit":  func() error { _, err := rt.Submit(nil, nil).Wait(); return err },
		"Prepare": func() error { _, err := rt.Prepare(nil); return err },
		"Predict": func() error { _, err := rt.Predict(ctx, nil); return err },
		"Compare": func() error { _, err := rt.Compare(ctx, nil); return err },
		"Plan":    func() error { _, err := rt.Plan(ctx, work); return err },
		"Encode":  func() error { _, err := graph.Encode(nil); return err },
	} {
		if err := call(); !errors.Is(err, graph.ErrValue) || !strings.Contains(err.Error(), "the graph is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	weft.Spoil(nil)
	if g := graph.Fuse(nil, graph.Fusion{}); g != nil {
		t.Errorf("Fuse made a graph of nil: %v", g)
	}
}
