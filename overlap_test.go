package weft_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// two builds a task of the kernel "inc" from x to y, and one from u to v.
func two(t *testing.T) *graph.Graph {
	t.Helper()
	inc := &graph.Kernel{Name: "inc", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "inc"}}}
	var b graph.Builder
	for _, names := range [][2]string{{"x", "y"}, {"u", "v"}} {
		in := b.Data(graph.Data{Name: names[0], Bytes: 128, Input: true})
		out := b.Data(graph.Data{Name: names[1], Bytes: 128, Output: true})
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: inc, Launch: graph.Launch{Grid: [3]uint32{1, 1, 1}}}},
			Uses:  []graph.Use{{Data: in, Access: graph.Read}, {Data: out, Access: graph.Write}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Bindings of one run may share memory that all of them read, and no other.
func TestOverlapInARun(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	g := two(t)
	m := make([]int64, 64)
	data, err := weft.Alloc[int64](rt, "data", 16)
	if err != nil {
		t.Fatal(err)
	}
	bind := func(x, y, u, v int) []weft.Binding {
		return []weft.Binding{weft.Bind("x", m[x:x+16]), weft.Bind("y", m[y:y+16]), weft.Bind("u", m[u:u+16]), weft.Bind("v", m[v:v+16])}
	}
	for _, c := range []struct {
		name string
		b    []weft.Binding
		says string // of the error; none if empty
	}{
		{"apart", bind(0, 16, 32, 48), ""},
		{"inputs the same", bind(0, 16, 0, 48), ""},
		{"inputs overlap", bind(0, 32, 8, 48), ""},
		{"outputs the same", bind(0, 32, 16, 32), `data "y" and data "v" are bound to memory that overlaps`},
		{"outputs overlap by one", bind(0, 32, 16, 47), `data "y" and data "v"`},
		{"an output is its input", bind(0, 0, 16, 32), `data "x" and data "y"`},
		{"an output is another's input", bind(16, 48, 32, 9), `data "x" and data "v"`},
		{"an output ends in an input", bind(20, 5, 36, 48), `data "x" and data "y"`},
		{"resident data is no such memory", []weft.Binding{data.As("x"), weft.Bind("y", m[:16]), weft.Bind("u", m[16:32]), weft.Bind("v", m[32:48])}, ""},
	} {
		for range 2 { // what is refused claims nothing
			_, err := rt.Run(t.Context(), g, c.b...)
			if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, weft.ErrBinding) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: %v; want %q", c.name, err, c.says)
			}
		}
	}
	p, err := rt.Prepare(g, bind(0, 32, 16, 32)...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context()); !errors.Is(err, weft.ErrBinding) {
		t.Errorf("prepared: %v", err)
	}
	if _, err := p.Run(t.Context(), weft.Bind("v", m[48:64])); err != nil {
		t.Errorf("prepared and bound anew: %v", err)
	}
}

// A run that would write what a run in progress uses, or read what it writes, is refused;
// when that has ended, however it did, the memory is free.
func TestOverlapOfRuns(t *testing.T) {
	rt, begun, release := held(t, weft.Options{Devices: "cpu/2"})
	g := small(t, 1)
	m := make([]int64, 64)
	bind := func(x, y int) []weft.Binding {
		return []weft.Binding{weft.Bind("x", m[x:x+16]), weft.Bind("y", m[y:y+16])}
	}
	p, err := rt.Prepare(g, bind(0, 16)...)
	if err != nil {
		t.Fatal(err)
	}
	first := p.Submit(nil)
	<-begun
	refused := func(name string, err error, says string) {
		t.Helper()
		if !errors.Is(err, weft.ErrBinding) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "run in progress") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = p.Run(t.Context())
	refused("the same again", err, `data "y" is bound to memory that overlaps data "y"`)
	_, err = p.Submit(nil).Wait()
	refused("the same again, submitted", err, `"y"`)
	_, err = rt.Run(t.Context(), g, bind(48, 31)...)
	refused("the output, by one element", err, `data "y" is bound to memory that overlaps data "y"`)
	_, err = rt.Run(t.Context(), g, bind(16, 48)...)
	refused("its output as input", err, `data "x" is bound to memory that overlaps data "y"`)
	_, err = rt.Run(t.Context(), g, bind(48, 0)...)
	refused("its input as output", err, `data "y" is bound to memory that overlaps data "x"`)
	beside := p.Submit(nil, weft.Bind("y", m[32:48])) // the same input, and an output of its own
	other := rt.Submit(g, nil, bind(0, 48)...)
	other.Cancel()
	release()
	for name, h := range map[string]*weft.Handle{"first": first, "beside": beside} {
		if _, err := h.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := other.Wait(); err != nil && !errors.Is(err, weft.ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
	for range 3 {
		for _, b := range [][]weft.Binding{bind(0, 16), bind(16, 0), bind(32, 48), bind(48, 20)} {
			if _, err := rt.Run(t.Context(), g, b...); err != nil {
				t.Errorf("when the others have ended: %v", err)
			}
		}
	}
}

// Of many runs at once on the same output, those that are not refused leave what one run
// leaves, and memory is free again when the last has ended.
func TestOverlapOfManyRuns(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	p, err := rt.Prepare(small(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]int64, 16), make([]int64, 16)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_, err := p.Run(context.Background(), weft.Bind("x", x), weft.Bind("y", y))
				if err != nil && !errors.Is(err, weft.ErrBinding) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := p.Run(context.Background(), weft.Bind("x", y), weft.Bind("y", x)); err != nil || x[3] != 6 {
		t.Errorf("afterwards: %d, %v", x[3], err)
	}
}
