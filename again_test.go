package weft_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/fake"
)

// long is a limit for what a test waits for, which ends a hang and nothing else.
const long = 2 * time.Minute

// meeting makes a kernel whose calls wait until two of them are under way.
func meeting() (weft.Func, *atomic.Int32) {
	both, met := make(chan struct{}), new(atomic.Int32)
	var came atomic.Int32
	return func(c *weft.Call, _, _ int) {
		if came.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
			met.Add(1)
		case <-time.After(long):
			c.Fail(errors.New("the other branch did not begin"))
		}
	}, met
}

// Two branches of a graph that do not depend on each other run on two devices at once:
// the task of each waits for that of the other.
func TestBranchesAtOnce(t *testing.T) {
	var b graph.Builder
	step := func(k string) []graph.Step {
		return []graph.Step{{Kernel: &graph.Kernel{Name: k, Impls: []graph.Impl{{Dialect: graph.Go, Entry: k}, {Dialect: graph.PTX, Entry: k}}}, Launch: graph.Launch{Grid: [3]uint32{1, 1, 1}}}}
	}
	x := b.Data(graph.Data{Name: "x", Bytes: 8, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 8, Output: true})
	work := graph.Work{Ops: 1e9} // so that nobody takes them for too short to part
	var ends []graph.Use
	for range 2 {
		a, m := b.Data(graph.Data{Bytes: 8}), b.Data(graph.Data{Bytes: 8})
		b.Add(graph.Task{Steps: step("up"), Work: work, Uses: []graph.Use{{Data: x, Access: graph.Read}, {Data: a, Access: graph.Write}}})
		b.Add(graph.Task{Steps: step("meet"), Work: work, Uses: []graph.Use{{Data: a, Access: graph.Read}, {Data: m, Access: graph.Write}}})
		ends = append(ends, graph.Use{Data: m, Access: graph.Read})
	}
	b.Add(graph.Task{Steps: step("up"), Work: work, Uses: append(ends, graph.Use{Data: y, Access: graph.Write})})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	for _, kind := range []string{"cpu/2", "fake"} {
		meet, met := meeting()
		o := weft.Options{Funcs: map[string]weft.Func{"up": func(*weft.Call, int, int) {}, "meet": meet}}
		var rt *weft.Runtime
		if kind == "fake" {
			rt, _ = fakes(t, o)
		} else {
			o.Devices = kind
			rt = open(t, o)
		}
		if _, err := rt.Run(ctx, g, weft.Bind("x", make([]byte, 8)), weft.Bind("y", make([]byte, 8))); err != nil || met.Load() != 2 {
			t.Errorf("%s: %d of 2 tasks met: %v", kind, met.Load(), err)
		}
	}
}

// An array may be cut into more pieces than 15 bits count: tasks write a hundred each one
// by one, others read those of their neighbours, and all are read by the last.
func TestManyPieces(t *testing.T) {
	const n, each = 33_000, 100
	put := func(c *weft.Call, _, _ int) {
		first := binary.LittleEndian.Uint64(c.Params)
		for i, a := range c.Args {
			weft.View[uint64](a)[0] = first + uint64(i)
		}
	}
	turn := func(c *weft.Call, _, _ int) {
		for i := range each {
			weft.View[uint64](c.Args[each+i])[0] = weft.View[uint64](c.Args[i])[0] + 1
		}
	}
	all := func(c *weft.Call, _, _ int) { copy(c.Args[1], c.Args[0]) }
	step := func(name string, params []byte) []graph.Step {
		k := &graph.Kernel{Name: name, Impls: []graph.Impl{{Dialect: graph.Go, Entry: name}, {Dialect: graph.PTX, Entry: name}}}
		return []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{1, 1, 1}}, Params: params}}
	}
	var b graph.Builder
	x, y := b.Data(graph.Data{Name: "x", Bytes: 8 * n}), b.Data(graph.Data{Name: "y", Bytes: 8 * n})
	out := b.Data(graph.Data{Name: "out", Bytes: 8 * n, Output: true})
	pieces := func(d graph.DataID, first int, a graph.Access) (uses []graph.Use) {
		for i := range each {
			uses = append(uses, graph.Use{Data: d, Offset: int64(8 * ((first + i) % n)), Bytes: 8, Access: a})
		}
		return uses
	}
	for i := 0; i < n; i += each {
		b.Add(graph.Task{Steps: step("put", binary.LittleEndian.AppendUint64(nil, uint64(i))), Uses: pieces(x, i, graph.Write)})
	}
	for i := 0; i < n; i += each {
		b.Add(graph.Task{Steps: step("turn", nil), Uses: append(pieces(x, i+1, graph.Read), pieces(y, i, graph.Write)...)})
	}
	b.Add(graph.Task{Steps: step("all", nil), Uses: []graph.Use{{Data: y, Access: graph.Read}, {Data: out, Access: graph.Write}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	o := weft.Options{Funcs: map[string]weft.Func{"put": put, "turn": turn, "all": all}}
	devices, _ := fakes(t, o)
	o.Devices = "cpu/2"
	for name, rt := range map[string]*weft.Runtime{"cpu": open(t, o), "fake": devices} {
		got := make([]uint64, n)
		if _, err := rt.Run(t.Context(), g, weft.Bind("out", got)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, v := range got {
			if v != uint64((i+1)%n)+1 {
				t.Fatalf("%s: piece %d is %d", name, i, v)
			}
		}
	}
}

// A prepared graph is run again and again while devices are lost in and between its runs:
// what is kept of one run for the next does not outlive the device it was made for.
func TestPreparedAfterLoss(t *testing.T) {
	var drv *fake.Driver
	var armed atomic.Int32
	lost := make(chan error, 100)
	rt, d := fakes(t, weft.Options{Funcs: map[string]weft.Func{
		"up": func(c *weft.Call, lo, hi int) {
			countUp(c, lo, hi)
			if armed.CompareAndSwap(1, 0) {
				lost <- drv.Play("on 0 lose; on 1 lose")
			}
		},
	}})
	drv = d
	w, err := weft.Alloc[int64](rt, "w", 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Prepare(row(t, "", slices.Repeat([]string{"up"}, 6)...))
	if err != nil {
		t.Fatal(err)
	}
	q, err := rt.Prepare(row(t, "", "up", "up"), w.As("x"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	losses := 0
	for i := range int64(6) {
		switch i {
		case 1, 4: // between two runs
			losses++
			if err := drv.Play([]string{"on 0 lose", "on 1 lose"}[i%2]); err != nil {
				t.Fatal(err)
			}
		case 2, 3: // within one
			losses++
			armed.Store(1)
		}
		x := []int64{100 * i}
		if _, err := p.Run(ctx, weft.Bind("x", x)); err != nil || x[0] != 100*i+6 {
			t.Fatalf("run %d: %d, %v", i, x[0], err)
		}
		if _, err := q.Run(ctx); err != nil {
			t.Fatalf("run %d with resident data: %v", i, err)
		}
	}
	if got, err := w.Get(ctx); err != nil || got[0] != 12 {
		t.Errorf("resident data after 6 runs: %v, %v", got, err)
	}
	for range 2 {
		if err := <-lost; err != nil {
			t.Error(err)
		}
	}
	if m := rt.Metrics(); m.Losses < int64(losses)-1 { // one of a device that is down goes unseen
		t.Errorf("%d losses were seen of %d", m.Losses, losses)
	}
}

// Two runs read one buffer of the program; a task of one fails and its device is lost, and
// it is run again while the other goes on. Both have what the buffer holds, which no attempt
// changes.
func TestSharedInputOfARetry(t *testing.T) {
	for _, trouble := range []string{"fails", "lost"} {
		var drv *fake.Driver
		var calls atomic.Int32
		played := make(chan error, 1)
		rt, d := fakes(t, weft.Options{Funcs: map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) {
			first := calls.Add(1) == 1
			incFuncs["inc"](c, lo, hi)
			switch {
			case first && trouble == "lost":
				played <- drv.Play("on 0 lose")
			case first:
				clear(c.Args[1]) // half done
				c.Fail(errors.New("for once"))
			}
		}}})
		drv = d
		p, err := rt.Prepare(small(t, 3))
		if err != nil {
			t.Fatal(err)
		}
		in, err := weft.NewBuffer[int64](rt, 16)
		if err != nil {
			t.Fatal(err)
		}
		for i := range in.Slice() {
			in.Slice()[i] = int64(10 * i)
		}
		was := slices.Clone(in.Slice())
		var outs [4][]int64
		var hs [4]*weft.Handle
		for i := range outs {
			outs[i] = make([]int64, 16)
			hs[i] = p.Submit(nil, weft.Bind("x", in.Slice()), weft.Bind("y", outs[i]))
		}
		for i, h := range hs {
			if _, err := h.Wait(); err != nil || outs[i][5] != 53 || outs[i][15] != 153 {
				t.Errorf("%s: run %d: %v, %v", trouble, i, outs[i], err)
			}
		}
		if !slices.Equal(in.Slice(), was) {
			t.Errorf("%s: the input became %v", trouble, in.Slice())
		}
		if trouble == "lost" {
			if err := <-played; err != nil {
				t.Error(err)
			}
		}
		in.Release()
	}
}
