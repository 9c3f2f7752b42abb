package weft_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// Spoil leaves alone what a graph reads, and what it does not know.
func TestSpoil(t *testing.T) {
	var b graph.Builder
	b.Data(graph.Data{Name: "in", Bytes: 3, Input: true})
	b.Data(graph.Data{Name: "both", Bytes: 3, Input: true, Output: true})
	out := b.Data(graph.Data{Name: "out", Bytes: 3, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go}}}}},
		Uses:  []graph.Use{{Data: out, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	memory := make(map[string][]byte)
	var bindings []weft.Binding
	for _, name := range []string{"in", "both", "out", "other"} {
		memory[name] = []byte{1, 2, 3}
		bindings = append(bindings, weft.Bind(name, memory[name]))
	}
	weft.Spoil(g, bindings...)
	weft.Spoil(g, weft.Bind("out", []byte(nil)))
	for name, got := range memory {
		want := []byte{1, 2, 3}
		if name == "out" {
			want = []byte{0xff, 0xff, 0xff}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// A kernel that asks ends when its run is cancelled, also if the run reads resident data.
func TestCancelWithResidentData(t *testing.T) {
	begun := make(chan struct{})
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", CancelWait: time.Minute, Funcs: map[string]weft.Func{
		"k": func(c *weft.Call, lo, hi int) {
			close(begun)
			for !c.Stopped() {
				runtime.Gosched()
			}
		}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	d, err := weft.Put(rt, "w", make([]byte, 64))
	if err != nil {
		t.Fatal(err)
	}
	var b graph.Builder
	w := b.Data(graph.Data{Name: "w", Bytes: 64, Input: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("k")}}, Uses: []graph.Use{{Data: w}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := rt.Run(ctx, g, d.As("w")); !errors.Is(err, weft.ErrCancelled) || errors.Is(err, weft.ErrHeld) {
		t.Error(err)
	}
}

// Resident data is bound to two data of a graph only if that cuts both alike: its values are those of its pieces,
// and a task that reads what others write in parts would get the first of them alone.
func TestResidentCutTwice(t *testing.T) {
	rt := mustKeep(t, weft.Checkpoint{}, nil)
	defer rt.Close()
	halves := func(whole bool) *graph.Graph {
		var b graph.Builder
		now := b.Data(graph.Data{Name: "now", Bytes: 64, Input: true})
		next := b.Data(graph.Data{Name: "next", Bytes: 64, Output: true})
		for i := range int64(2) {
			from := graph.Use{Data: now, Access: graph.Read}
			if !whole {
				from.Offset, from.Bytes = 32*i, 32
			}
			b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("mix"), Launch: graph.Grid(1)}},
				Uses: []graph.Use{from, {Data: next, Access: graph.Write, Offset: 32 * i, Bytes: 32}}})
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	x, err := weft.Put(rt, "x", make([]uint64, 8))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	y, err := weft.Put(rt, "y", make([]uint64, 8))
	if err != nil {
		t.Fatal(err)
	}
	defer y.Release()
	if _, err := rt.Run(t.Context(), halves(true), x.As("now"), x.As("next")); !errors.Is(err, weft.ErrBinding) || !strings.Contains(err.Error(), "cuts differently, in 1 and 2 pieces") {
		t.Errorf("cut in one and in two: %v", err)
	}
	if _, err := rt.Run(t.Context(), halves(false), x.As("now"), x.As("next")); err != nil {
		t.Errorf("cut alike: %v", err)
	}
	if _, err := rt.Run(t.Context(), halves(true), x.As("now"), y.As("next")); err != nil {
		t.Errorf("of two: %v", err)
	}
}
