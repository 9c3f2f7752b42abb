package weft_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/fake"
)

// fakes opens two devices with memory of their own.
func fakes(t *testing.T, o weft.Options) (*weft.Runtime, *fake.Driver) {
	t.Helper()
	drv, err := fake.New(fake.Options{Devices: 2, MemBytes: 1 << 20, Funcs: o.Funcs})
	if err != nil {
		t.Fatal(err)
	}
	o.Drivers = []driver.Driver{drv}
	return open(t, o), drv
}

// strands draws a graph of a few strands of tasks, each of which goes on from where
// the one before it ended: in place, into data of its own, or into that of its
// strand; now and then it looks at another strand. It returns what to bind and what
// must be there afterwards.
func strands(t *rapid.T) (g *graph.Graph, mem, want [][]uint64) {
	const words = 5
	var b graph.Builder
	now := make(map[graph.DataID][]uint64)
	n := rapid.IntRange(1, 3).Draw(t, "strands")
	at := make([]graph.DataID, n)    // where a strand is
	own := make([][]graph.DataID, n) // what it may write again
	for s := range n {
		m := make([]uint64, words)
		for i := range m {
			m[i] = uint64(100*s + i)
		}
		at[s] = b.Data(graph.Data{Name: fmt.Sprintf("d%d", s), Bytes: 8 * words, Input: true, Output: true})
		mem, now[at[s]] = append(mem, m), slices.Clone(m)
		own[s] = []graph.DataID{at[s]}
	}
	task := func(i int, out graph.DataID, access graph.Access, in ...graph.DataID) {
		var uses []graph.Use
		var reads [][]uint64
		for _, d := range in {
			uses = append(uses, graph.Use{Data: d, Access: graph.Read})
			reads = append(reads, now[d])
		}
		params := append(binary.LittleEndian.AppendUint64(nil, uint64(i)), 0)
		was := make([]uint64, words)
		if access == graph.ReadWrite {
			params[8] = 1
			was = now[out]
		}
		made := make([]uint64, words)
		for k := range made {
			made[k] = mix(uint64(i), uint64(k), reads, was[k])
		}
		now[out] = made
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: mixKernel, Launch: graph.Launch{Grid: [3]uint32{words, 1, 1}}, Params: params}},
			Uses:  append(uses, graph.Use{Data: out, Access: access}),
		})
	}
	for i := range rapid.IntRange(4, 150).Draw(t, "tasks") {
		s := rapid.IntRange(0, n-1).Draw(t, "strand")
		in := []graph.DataID{at[s]}
		if rapid.IntRange(0, 15).Draw(t, "another") == 0 {
			if o := at[rapid.IntRange(0, n-1).Draw(t, "which")]; o != at[s] {
				in = append(in, o)
			}
		}
		switch rapid.IntRange(0, 2).Draw(t, "way") {
		case 0:
			task(i, at[s], graph.ReadWrite, in[1:]...)
		case 1:
			d := b.Data(graph.Data{Bytes: 8 * words})
			own[s] = append(own[s], d)
			task(i, d, graph.Write, in...)
			at[s] = d
		default:
			d := rapid.SampledFrom(own[s]).Draw(t, "again")
			if slices.Contains(in, d) {
				continue
			}
			task(i, d, graph.Write, in...)
			at[s] = d
		}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for s := range n {
		want = append(want, now[graph.DataID(own[s][0])])
	}
	return g, mem, want
}

// What is prepared gives what its tasks give one after another, however many of
// them became one.
func TestFusedEqualsSequential(t *testing.T) {
	o := weft.Options{Funcs: map[string]weft.Func{"mix": mixFunc}}
	fake, _ := fakes(t, o)
	rts := map[string]*weft.Runtime{"fake": fake}
	for _, d := range []string{"cpu/1", "cpu/2"} {
		o.Devices = d
		rts[d] = open(t, o)
	}
	rapid.Check(t, func(rt *rapid.T) {
		g, start, want := strands(rt)
		for name, r := range rts {
			p, err := r.Prepare(g)
			if err != nil {
				rt.Fatal(err)
			}
			mem := make([][]uint64, len(start))
			for round := range 2 {
				for d := range mem {
					mem[d] = slices.Clone(start[d])
				}
				if _, err := p.Run(context.Background(), bindAll(mem)...); err != nil {
					rt.Fatalf("%s: %v", name, err)
				}
				if !slices.EqualFunc(mem, want, slices.Equal) {
					rt.Fatalf("%s, round %d: %d tasks made of %d give\n%x\nwant\n%x", name, round, p.Graph().NumTasks(), g.NumTasks(), mem, want)
				}
			}
		}
	})
}

// row is n tasks in a row, each of the kernel named, that count up x in place.
func row(t *testing.T, hint string, kernels ...string) *graph.Graph {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8, Input: true, Output: true})
	for i, k := range kernels {
		b.Add(graph.Task{
			Name: fmt.Sprint("t", i), On: graph.Constraint{Hint: hint},
			Steps: []graph.Step{{Kernel: &graph.Kernel{Name: k, Impls: []graph.Impl{{Dialect: graph.Go, Entry: k}}}}},
			Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func countUp(c *weft.Call, _, _ int) { weft.View[int64](c.Args[0])[0]++ }

// Prepare makes one task of several, and a run of a graph that was not prepared is
// what the graph says.
func TestPrepareFuses(t *testing.T) {
	for n, want := range map[int]int{1: 1, 3: 3, 4: 1, 64: 1, 65: 2, 130: 4} { // 130 is 64, 64 and two that are too few
		// Of a kernel that never ran nothing is known that would make it long.
		rt := open(t, weft.Options{Devices: "cpu/2", Funcs: map[string]weft.Func{"up": countUp}})
		g := row(t, "", slices.Repeat([]string{"up"}, n)...)
		p, err := rt.Prepare(g)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Graph().NumTasks(); got != want {
			t.Errorf("%d tasks become %d, want %d", n, got, want)
		}
		x := []int64{7}
		rep, err := p.Run(context.Background(), weft.Bind("x", x))
		if err != nil || x[0] != 7+int64(n) || rep.Executed != want {
			t.Errorf("%d tasks: %d, %v", n, x[0], err)
		}
		if rep, err = rt.Run(context.Background(), g, weft.Bind("x", x)); err != nil || x[0] != 7+2*int64(n) || rep.Executed != n {
			t.Errorf("%d tasks, not prepared: %d, %v", n, x[0], err)
		}
	}
}

// A step that fails ends its task by the name of its kernel, and no step after it
// begins.
func TestFusedStepFails(t *testing.T) {
	boom := errors.New("boom")
	var after atomic.Int32
	o := weft.Options{Devices: "cpu/2", Retries: -1, Funcs: map[string]weft.Func{
		"up":    countUp,
		"fails": func(c *weft.Call, _, _ int) { c.Fail(boom) },
		"after": func(*weft.Call, int, int) { after.Add(1) },
	}}
	check := func(name string, rt *weft.Runtime) {
		p, err := rt.Prepare(row(t, "", "up", "up", "up", "fails", "after", "after"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(context.Background(), weft.Bind("x", []int64{0}))
		var te *weft.TaskError
		if !errors.Is(err, boom) || !errors.As(err, &te) || te.Task != "t0 … t5" || !strings.Contains(err.Error(), `kernel "fails"`) {
			t.Errorf("%s: %v", name, err)
		}
		if after.Load() != 0 {
			t.Errorf("%s: steps after the one that failed ran", name)
		}
	}
	check("cpu", open(t, o))
	o.Devices = ""
	rt, _ := fakes(t, o)
	check("fake", rt)
}

// A run is cancelled within a fused task, and the next one is as if it had not been.
func TestFusedCancelled(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: map[string]weft.Func{
		"up": countUp,
		"waits": func(*weft.Call, int, int) {
			once.Do(func() { close(begun) })
			<-release
		},
	}})
	kernels := append([]string{"up", "up", "waits"}, slices.Repeat([]string{"up"}, 200)...)
	p, err := rt.Prepare(row(t, "", kernels...))
	if err != nil {
		t.Fatal(err)
	}
	x := []int64{0}
	h := p.Submit(nil, weft.Bind("x", x))
	<-begun
	h.Cancel()
	close(release)
	if _, err := h.Wait(); !errors.Is(err, weft.ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
	x[0] = 5
	if _, err := p.Run(context.Background(), weft.Bind("x", x)); err != nil || x[0] != 5+202 {
		t.Errorf("the next run: %d, %v", x[0], err)
	}
}

// A device that is lost in the middle of a fused task takes it along; it is run
// again from where it began, so that every step has its effect once.
func TestFusedLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var drv *fake.Driver
	var lose sync.Once
	lost := make(chan error, 1)
	o := weft.Options{Funcs: map[string]weft.Func{
		"up": countUp,
		"trips": func(c *weft.Call, lo, hi int) {
			countUp(c, lo, hi)
			lose.Do(func() { lost <- drv.Play("on 0 lose") })
		},
	}}
	rt, d := fakes(t, o)
	drv = d
	g := row(t, "fake:0", "up", "up", "up", "trips", "up", "up", "up", "up")
	p, err := rt.Prepare(g)
	if err != nil {
		t.Fatal(err)
	}
	if p.Graph().NumTasks() != 1 {
		t.Fatalf("%d tasks", p.Graph().NumTasks())
	}
	for i := range int64(3) {
		x := []int64{100 * i}
		if _, err := p.Run(ctx, weft.Bind("x", x)); err != nil || x[0] != 100*i+8 {
			t.Errorf("run %d: %d, %v", i, x[0], err)
		}
	}
	if err := <-lost; err != nil {
		t.Error(err)
	}
	if m := rt.Metrics(); m.Losses != 1 {
		t.Errorf("%d losses, want 1", m.Losses)
	}
}
