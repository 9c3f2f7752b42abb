package weft_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
)

// mix is a kernel whose result depends on everything it is given: which task it
// is, every word it reads in order, and, where it updates, what was there.
// Scripted devices take it for PTX.
var mixKernel = &graph.Kernel{Name: "mix", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "mix"}, {Dialect: graph.PTX, Entry: "mix"}}}

func mix(task, at uint64, reads [][]uint64, out uint64) uint64 {
	h := task*0x9e3779b97f4a7c15 + out
	for k, r := range reads {
		h = (h ^ r[at%uint64(len(r))]) * (2*uint64(k) + 0xbf58476d1ce4e5b9)
	}
	return h
}

// What a mix does besides, a bit each.
const (
	mixUpdates = 1 << iota // its result also depends on what was there
	mixLooks               // it has a workspace, in which nothing secret may be left of others
	mixSecret              // it fills its workspace with what is secret
)

// secretMark has the upper 48 bits of every word of a secret input; the lower 16 differ.
const secretMark = 0x5ec2e7_5ec2e7 << 16

var errSecretLeft = errors.New("a secret is left in a workspace")

func mixFunc(c *weft.Call, lo, hi int) {
	task, does, args := binary.LittleEndian.Uint64(c.Params), c.Params[8], c.Args
	if does&mixLooks != 0 {
		space := weft.View[uint64](args[len(args)-1])
		args = args[:len(args)-1]
		for i := lo; i < min(hi, len(space)); i++ {
			if space[i]&^0xffff == secretMark {
				c.Fail(errSecretLeft)
				return
			}
			if does&mixSecret != 0 {
				space[i] = secretMark
			}
		}
	}
	update := does&mixUpdates != 0
	var reads [][]uint64
	for _, a := range args[:len(args)-1] {
		reads = append(reads, weft.View[uint64](a))
	}
	out := weft.View[uint64](args[len(args)-1])
	for i := lo; i < hi; i++ {
		was := uint64(0)
		if update {
			was = out[i]
		}
		out[i] = mix(task, uint64(i), reads, was)
	}
}

// randomGraph draws a graph and returns it with what to bind and, for every
// binding, what must be in it afterwards, as computed task by task.
func randomGraph(t *rapid.T) (g *graph.Graph, mem, want [][]uint64) {
	var b graph.Builder
	nd := rapid.IntRange(1, 6).Draw(t, "data")
	ids := make([]graph.DataID, nd)
	var now [][]uint64
	outputs := make([]bool, nd)
	secret := make([]bool, nd)
	for d := range nd {
		words := rapid.IntRange(1, 40).Draw(t, "words")
		outputs[d] = rapid.Bool().Draw(t, "output")
		data := graph.Data{
			Name: fmt.Sprintf("d%d", d), Bytes: int64(8 * words), Input: true, Output: outputs[d],
			Durability: rapid.SampledFrom([]graph.Durability{graph.Versioned, graph.Mirrored, graph.Volatile}).Draw(t, "durability"),
			Tolerance:  rapid.SampledFrom([]float64{0, graph.SameBytes}).Draw(t, "tolerance"),
			Secret:     rapid.IntRange(0, 5).Draw(t, "secret") == 5,
		}
		ids[d] = b.Data(data)
		first := uint64(d * 1000)
		if secret[d] = data.Secret; data.Secret {
			first |= secretMark
		}
		m := make([]uint64, words)
		for i := range m {
			m[i] = first + uint64(i)
		}
		mem = append(mem, m)
		now = append(now, slices.Clone(m))
	}
	slice := func(d int) (lo, hi int) {
		n := len(now[d])
		lo = rapid.IntRange(0, n-1).Draw(t, "lo")
		return lo, rapid.IntRange(lo+1, n).Draw(t, "hi")
	}
	for task := range rapid.IntRange(0, 40).Draw(t, "tasks") {
		order := rapid.Permutation(indices(nd)).Draw(t, "uses")
		order = order[:rapid.IntRange(1, min(nd, 4)).Draw(t, "n")]
		var uses []graph.Use
		var reads [][]uint64
		for k, d := range order {
			lo, hi := slice(d)
			u := graph.Use{Data: ids[d], Offset: int64(8 * lo), Bytes: int64(8 * (hi - lo)), Access: graph.Read}
			if k < len(order)-1 {
				reads = append(reads, now[d][lo:hi])
				uses = append(uses, u)
				continue
			}
			params := binary.LittleEndian.AppendUint64(nil, uint64(task))
			u.Access = graph.Write
			params = append(params, 0)
			if rapid.Bool().Draw(t, "update") {
				u.Access = graph.ReadWrite
				params[8] |= mixUpdates
			}
			space := int64(8 * max(0, rapid.IntRange(-40, 40).Draw(t, "workspace")))
			if space > 0 {
				params[8] |= mixLooks
			}
			if slices.ContainsFunc(order, func(d int) bool { return secret[d] }) {
				params[8] |= mixSecret
			}
			out := now[d][lo:hi]
			for i := range out {
				was := uint64(0)
				if u.Access == graph.ReadWrite {
					was = out[i]
				}
				out[i] = mix(uint64(task), uint64(i), reads, was)
			}
			b.Add(graph.Task{
				Steps:    []graph.Step{{Kernel: mixKernel, Launch: graph.Launch{Grid: [3]uint32{uint32(hi - lo), 1, 1}}, Params: params}},
				Uses:     append(uses, u),
				Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Workspace: space,
			})
		}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	want = now
	for d := range nd {
		if !outputs[d] {
			want[d] = slices.Clone(mem[d]) // an input is the caller's: it stays
		}
	}
	return g, mem, want
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func bindAll(mem [][]uint64) []weft.Binding {
	var out []weft.Binding
	for d := range mem {
		out = append(out, weft.Bind(fmt.Sprintf("d%d", d), mem[d]))
	}
	return out
}

// mixed are the kernels of random graphs, also in worker processes.
var mixed = map[string]weft.Func{"mix": mixFunc}

// Any graph on any number of devices, in worker processes too, by any way of running it, gives what its
// tasks give one after another.
func TestRunsEqualSequential(t *testing.T) {
	var rts []*weft.Runtime
	for n := 1; n <= 4; n++ {
		rts = append(rts, open(t, weft.Options{Devices: fmt.Sprintf("cpu/%d", n), Funcs: mixed, Checksums: n%2 == 0}))
	}
	if runtime.GOOS == "linux" {
		rts = append(rts, open(t, weft.Options{Devices: "cpu/2", Funcs: mixed, Isolate: true, Checksums: true}))
	}
	rapid.Check(t, func(rt *rapid.T) {
		g, mem, want := randomGraph(rt)
		start := make([][]uint64, len(mem))
		for d := range mem {
			start[d] = slices.Clone(mem[d])
		}
		for n, r := range rts {
			p, err := r.Prepare(g)
			if err != nil {
				rt.Fatal(err)
			}
			for _, way := range []struct {
				name string
				run  func() error
			}{
				{"run", func() error { _, err := r.Run(context.Background(), g, bindAll(mem)...); return err }},
				{"prepared", func() error { _, err := p.Run(context.Background(), bindAll(mem)...); return err }},
				{"submitted", func() error { _, err := r.Submit(g, nil, bindAll(mem)...).Wait(); return err }},
			} {
				for d := range mem {
					copy(mem[d], start[d])
				}
				if err := way.run(); err != nil {
					rt.Fatalf("%s on runtime %d: %v", way.name, n, err)
				}
				for d := range mem {
					if !slices.Equal(mem[d], want[d]) {
						rt.Fatalf("%s on runtime %d: d%d is\n%x\nand one task after another gives\n%x", way.name, n, d, mem[d], want[d])
					}
				}
			}
		}
	})
}

func TestBindings(t *testing.T) {
	rt, other := open(t, weft.Options{Funcs: incFuncs}), open(t, weft.Options{Funcs: incFuncs})
	g := small(t, 2)
	x, y := make([]int64, 16), make([]int64, 16)
	foreign, err := weft.Put(other, "foreign", x)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := weft.Put(rt, "gone", x)
	if err != nil {
		t.Fatal(err)
	}
	gone.Release()
	gone.Release()
	short, err := weft.Alloc[int32](rt, "short", 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says string
		b    []weft.Binding
	}{
		{`nothing is bound to data "y"`, []weft.Binding{weft.Bind("x", x)}},
		{`no input or output "z"`, []weft.Binding{weft.Bind("x", x), weft.Bind("y", y), weft.Bind("z", y)}},
		{`"t0" is neither input nor output`, []weft.Binding{weft.Bind("x", x), weft.Bind("y", y), weft.Bind("t0", y)}},
		{`"y" has 128 bytes and is bound to 8`, []weft.Binding{weft.Bind("x", x), weft.Bind("y", y[:1])}},
		{`"x" has 128 bytes and is bound to 12`, []weft.Binding{short.As("x"), weft.Bind("y", y)}},
		{`belongs to another runtime`, []weft.Binding{foreign.As("x"), weft.Bind("y", y)}},
		{`values of type *int64 hold pointers`, []weft.Binding{weft.Bind("x", make([]*int64, 16)), weft.Bind("y", y)}},
		{`hold pointers`, []weft.Binding{weft.Bind("x", make([]struct{ s string }, 8)), weft.Bind("y", y)}},
		{`hold pointers`, []weft.Binding{weft.Bind("x", make([][2]any, 4)), weft.Bind("y", y)}},
		{`"gone" was released`, []weft.Binding{gone.As("x"), weft.Bind("y", y)}},
	} {
		check := func(way string, err error) {
			t.Helper()
			if !errors.Is(err, weft.ErrBinding) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v; want %s", way, err, c.says)
			}
		}
		_, err := rt.Run(context.Background(), g, c.b...)
		check("run", err)
		_, err = rt.Submit(g, nil, c.b...).Wait()
		check("submit", err)
	}
	if _, err := gone.Get(context.Background()); !errors.Is(err, weft.ErrBinding) {
		t.Errorf("get after release: %v", err)
	}
	if _, err := weft.Put(rt, "empty", []int{}); !errors.Is(err, weft.ErrBinding) || !strings.Contains(err.Error(), `put "empty"`) {
		t.Errorf("put of nothing: %v", err)
	}
	if _, err := weft.Put(rt, "texts", []string{"a"}); !errors.Is(err, weft.ErrBinding) || !strings.Contains(err.Error(), "type string hold pointers") {
		t.Errorf("put of texts: %v", err)
	}
	if d, err := weft.Put(rt, "structs", []struct {
		a [2]float32
		b struct{ c complex64 }
	}{{}}); err != nil {
		t.Errorf("put of a struct of numbers: %v", err)
	} else {
		d.Release()
	}
	if none := weft.View[struct{}](make([]byte, 8)); len(none) != 0 {
		t.Errorf("8 bytes hold %d values of no size", len(none))
	}
	if _, err := weft.Alloc[int](rt, "less", -1); !errors.Is(err, weft.ErrBinding) {
		t.Errorf("alloc of less than nothing: %v", err)
	}
}

func TestPrepared(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	g := small(t, 3)
	x := make([]int64, 16)
	p, err := rt.Prepare(g, weft.Bind("x", x))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(context.Background()); !errors.Is(err, weft.ErrBinding) {
		t.Fatalf("without an output: %v", err)
	}
	// What Prepare bound holds where a run says nothing else, and only there.
	for i := range int64(5) {
		y, other := make([]int64, 16), make([]int64, 16)
		x[0], other[0] = 10*i, 1000*i
		if rep, err := p.Run(context.Background(), weft.Bind("y", y)); err != nil || y[0] != 10*i+3 || rep.Executed != 3 {
			t.Fatalf("run %d: %v, %v", i, y[0], err)
		}
		if _, err := p.Run(context.Background(), weft.Bind("y", y), weft.Bind("x", other)); err != nil || y[0] != 1000*i+3 {
			t.Fatalf("run %d with x bound anew: %v, %v", i, y[0], err)
		}
	}
	// Many at once, each with its own memory.
	var wg sync.WaitGroup
	for i := range int64(16) {
		wg.Go(func() {
			x, y := make([]int64, 16), make([]int64, 16)
			for k := range int64(50) {
				x[7] = 100*i + k
				var err error
				if k%2 == 0 {
					_, err = p.Run(context.Background(), weft.Bind("x", x), weft.Bind("y", y))
				} else {
					_, err = p.Submit(nil, weft.Bind("y", y), weft.Bind("x", x)).Wait()
				}
				if err != nil || y[7] != 100*i+k+3 {
					t.Errorf("%d, %d: %d, %v", i, k, y[7], err)
				}
			}
		})
	}
	wg.Wait()
	alien := &graph.Kernel{Name: "alien", Impls: []graph.Impl{{Dialect: graph.PTX, Entry: "alien"}}}
	var b graph.Builder
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: alien}}})
	g, err = b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Prepare(g); !errors.Is(err, weft.ErrNoDevice) || !strings.Contains(err.Error(), "alien") {
		t.Errorf("a kernel nobody can run: %v", err)
	}
}

// A prepared graph that keeps resident data: every run sees what the last left,
// and the runs after its release are refused.
func TestPreparedResident(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	a, err := weft.Alloc[int64](rt, "a", 16)
	if err != nil {
		t.Fatal(err)
	}
	b, err := weft.Alloc[int64](rt, "b", 16)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Prepare(small(t, 1), a.As("x"), b.As("y"))
	if err != nil {
		t.Fatal(err)
	}
	q, err := rt.Prepare(small(t, 1), a.As("y"), b.As("x"))
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		for _, r := range []*weft.Prepared{p, q} {
			if _, err := r.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := a.Get(context.Background()); err != nil || got[3] != 8 {
		t.Fatalf("after 8 runs: %v, %v", got, err)
	}
	b.Release()
	if _, err := p.Run(context.Background()); !errors.Is(err, weft.ErrBinding) {
		t.Fatalf("after release: %v", err)
	}
}

// A run that is submitted while its data is released either has that data or is
// refused: never what took its place.
func TestReleaseAgainstRun(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	g := small(t, 1)
	for round := range 300 {
		a, err := weft.Alloc[int64](rt, "a", 16)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			a.Release()
			b, err := weft.Put(rt, "b", slices.Repeat([]int64{1000}, 16))
			if err != nil {
				t.Error(err)
				return
			}
			b.Release()
		})
		y := make([]int64, 16)
		_, err = rt.Run(t.Context(), g, a.As("x"), weft.Bind("y", y))
		if err == nil && y[3] != 1 || err != nil && !errors.Is(err, weft.ErrBinding) {
			t.Fatalf("round %d: %d, %v", round, y[3], err)
		}
		wg.Wait()
	}
}

// Data may be released right after it was put and given to a run, or while it is
// fetched: the run and the fetch have it, or are refused, and none waits for ever.
func TestReleaseAtOnce(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g := small(t, 1)
	for round := range 300 {
		a, err := weft.Put(rt, "a", slices.Repeat([]int64{int64(round)}, 16))
		if err != nil {
			t.Fatal(err)
		}
		y := make([]int64, 16)
		h := rt.Submit(g, nil, a.As("x"), weft.Bind("y", y))
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := a.Get(ctx); err == nil && got[3] != int64(round) || err != nil && !errors.Is(err, weft.ErrBinding) {
				t.Errorf("round %d: got %v, %v", round, got, err)
			}
		})
		a.Release()
		if _, err := h.Wait(); err == nil && y[3] != int64(round)+1 || err != nil && !errors.Is(err, weft.ErrBinding) {
			t.Fatalf("round %d: %d, %v", round, y[3], err)
		}
		wg.Wait()
	}
}

// Explain may look at the runtime, and has heard of every task of a run when that
// has ended.
func TestExplainOffTheLoop(t *testing.T) {
	var rt *weft.Runtime
	told := 0
	rt = open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs, Explain: func(e sched.Explanation) {
		if len(rt.Devices()) == 2 && e.Task != "" {
			told++
		}
	}})
	g := small(t, 5)
	x, y := make([]int64, 16), make([]int64, 16)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 1; n <= 3; n++ {
		if _, err := rt.Run(ctx, g, weft.Bind("x", x), weft.Bind("y", y)); err != nil || told != n*g.NumTasks() {
			t.Fatalf("run %d: told of %d tasks, %v", n, told, err)
		}
	}
	if _, err := rt.Submit(g, nil, weft.Bind("x", x), weft.Bind("y", y)).Wait(); err != nil || told != 4*g.NumTasks() {
		t.Fatalf("told of %d tasks, %v", told, err)
	}
}

// Close returns when the callbacks have.
func TestCloseWaitsForCallbacks(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	var ended atomic.Int32
	begun := make(chan struct{}, 2)
	then := func(*weft.Report, error) {
		begun <- struct{}{}
		rt.Devices()                      // it may use the runtime, also one that closes
		time.Sleep(10 * time.Millisecond) // a Close that does not wait returns meanwhile
		ended.Add(1)
	}
	rt.Submit(small(t, 1), then, weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16)))
	rt.Submit(small(t, 1), then) // refused
	<-begun
	<-begun
	if err := rt.Close(); err != nil || ended.Load() != 2 {
		t.Errorf("%d of 2 callbacks had ended, %v", ended.Load(), err)
	}
}

func TestSplitOddities(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2"})
	for _, task := range []graph.Task{{}, {Steps: []graph.Step{{}}}} {
		if _, err := rt.Split(sched.Items{Extent: 10}, task); !errors.Is(err, graph.ErrKernel) {
			t.Errorf("a task without a kernel was split: %v", err)
		}
	}
	// The caller's functions may use the runtime.
	looks := 0
	if _, err := rt.Split(sched.Items{Extent: 10, Cost: func(lo, hi int64) float64 {
		looks += len(rt.Devices())
		return float64(hi - lo)
	}}, graph.Task{Steps: []graph.Step{{Kernel: mixKernel}}}); looks == 0 {
		t.Errorf("the cost was not asked for: %v", err)
	}
}

// held is a runtime whose kernel waits until it is let go.
func held(t *testing.T, o weft.Options) (rt *weft.Runtime, begun chan struct{}, release func()) {
	t.Helper()
	begun, hold := make(chan struct{}, 1000), make(chan struct{})
	o.Funcs = map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) {
		begun <- struct{}{}
		<-hold
		incFuncs["inc"](c, lo, hi)
	}}
	rt = open(t, o)
	release = sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release) // before the Close of open, which would wait for it
	return rt, begun, release
}

// The callback comes exactly once, whatever happens.
func TestSubmitCallsBackOnce(t *testing.T) {
	boom := errors.New("boom")
	rt := open(t, weft.Options{Devices: "cpu/2", Retries: -1, Funcs: map[string]weft.Func{
		"inc": func(c *weft.Call, lo, hi int) {
			if weft.View[int64](c.Args[0])[0] < 0 {
				c.Fail(boom)
			}
			incFuncs["inc"](c, lo, hi)
		}}})
	g := small(t, 2)
	var calls atomic.Int64
	type end struct {
		rep *weft.Report
		err error
	}
	submit := func(rt *weft.Runtime, b ...weft.Binding) (*weft.Handle, chan end) {
		ch := make(chan end, 10)
		return rt.Submit(g, func(rep *weft.Report, err error) {
			calls.Add(1)
			ch <- end{rep, err}
		}, b...), ch
	}
	x, bad, y := make([]int64, 16), make([]int64, 16), make([]int64, 16)
	bad[0] = -5
	h, ch := submit(rt, weft.Bind("x", x), weft.Bind("y", y))
	if e := <-ch; e.err != nil || e.rep.Executed != 2 {
		t.Errorf("a good run: %+v", e)
	}
	h.Cancel() // too late, and without effect
	if _, err := h.Wait(); err != nil {
		t.Errorf("a good run: %v", err)
	}
	_, ch = submit(rt, weft.Bind("x", bad), weft.Bind("y", y))
	var te *weft.TaskError
	var re *weft.RunError
	if e := <-ch; !errors.Is(e.err, boom) || !errors.As(e.err, &te) || !errors.As(e.err, &re) || len(re.Names) != 2 {
		t.Errorf("a failing kernel: %+v", e)
	}
	_, ch = submit(rt)
	if e := <-ch; !errors.Is(e.err, weft.ErrBinding) || e.rep != nil {
		t.Errorf("nothing bound: %+v", e)
	}
	hung, begun, release := held(t, weft.Options{Devices: "cpu/1"})
	h, ch = submit(hung, weft.Bind("x", x), weft.Bind("y", y))
	<-begun
	h.Cancel()
	hung.Metrics() // comes after it, so that the loop knows
	release()
	if e := <-ch; !errors.Is(e.err, weft.ErrCancelled) {
		t.Errorf("cancelled: %+v", e)
	}
	<-h.Done()
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	_, ch = submit(rt, weft.Bind("x", x), weft.Bind("y", y))
	if e := <-ch; !errors.Is(e.err, weft.ErrClosed) {
		t.Errorf("after Close: %+v", e)
	}
	if n := calls.Load(); n != 5 {
		t.Errorf("%d calls back for 5 runs", n)
	}
}

// A callback may use the runtime.
func TestSubmitFromCallback(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	p, err := rt.Prepare(small(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	a, b := make([]int64, 16), make([]int64, 16)
	end := make(chan error)
	left := 500
	var again func(*weft.Report, error)
	again = func(_ *weft.Report, err error) {
		if left--; left == 0 || err != nil {
			end <- err
			return
		}
		a, b = b, a
		rt.Metrics()
		p.Submit(again, weft.Bind("x", a), weft.Bind("y", b))
	}
	p.Submit(again, weft.Bind("x", a), weft.Bind("y", b))
	if err := <-end; err != nil || b[0] != 500 {
		t.Fatalf("%d after 500 runs in a chain, %v", b[0], err)
	}
}

func TestManySubmitters(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/3", Funcs: incFuncs, Trace: 1000})
	const people, each = 16, 40
	g := small(t, 4)
	var wg sync.WaitGroup
	var back atomic.Int64
	for i := range int64(people) {
		wg.Go(func() {
			var hs []*weft.Handle
			var xs, ys [][]int64
			for k := range int64(each) {
				x, y := make([]int64, 16), make([]int64, 16)
				x[1] = i*each + k
				xs, ys = append(xs, x), append(ys, y)
				wg.Add(1)
				hs = append(hs, rt.Submit(g, func(*weft.Report, error) { back.Add(1); wg.Done() }, weft.Bind("x", x), weft.Bind("y", y)))
			}
			for k, h := range hs {
				if _, err := h.Wait(); err != nil || ys[k][1] != xs[k][1]+4 {
					t.Errorf("%d, %d: %d, %v", i, k, ys[k][1], err)
				}
			}
		})
	}
	wg.Wait()
	m := rt.Metrics()
	if back.Load() != people*each || m.Runs.Submitted != people*each || m.Runs.Completed != people*each || m.Runs.Failed+m.Runs.Cancelled != 0 {
		t.Errorf("%d calls back, metrics %+v; want %d", back.Load(), m.Runs, people*each)
	}
	if len(rt.Trace()) == 0 {
		t.Error("nothing was traced")
	}
}

func TestCancelledContext(t *testing.T) {
	begun, step := make(chan struct{}, 1000), make(chan struct{})
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) {
		begun <- struct{}{}
		<-step
		incFuncs["inc"](c, lo, hi)
	}}})
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(context.Background())
	g := small(t, 500)
	end := make(chan error)
	x, y := make([]int64, 16), make([]int64, 16)
	go func() {
		_, err := rt.Run(ctx, g, weft.Bind("x", x), weft.Bind("y", y))
		end <- err
	}()
	<-begun
	cancel(why)
	// What is in flight must end before the run does; what is not never begins.
	var err error
	for running := true; running; {
		select {
		case err = <-end:
			running = false
		case step <- struct{}{}:
			time.Sleep(time.Millisecond) // let the loop hear of the cancellation
		}
	}
	if !errors.Is(err, why) || !errors.Is(err, weft.ErrCancelled) {
		t.Errorf("cancelled while running: %v", err)
	}
	close(step)
	if _, err := rt.Run(ctx, g, weft.Bind("x", x), weft.Bind("y", y)); !errors.Is(err, why) || !errors.Is(err, weft.ErrCancelled) {
		t.Errorf("cancelled before: %v", err)
	}
	if m := rt.Metrics(); m.Runs.Cancelled != 1 || m.Runs.Submitted != 1 {
		t.Errorf("metrics: %+v", m.Runs)
	}
	// The runtime goes on.
	if _, err := rt.Run(context.Background(), g, weft.Bind("x", x), weft.Bind("y", y)); err != nil || y[0] != 500 {
		t.Errorf("afterwards: %d, %v", y[0], err)
	}
}

// Close while many submit: every run ends well or says why, and so does every
// Close.
func TestCloseDuringRuns(t *testing.T) {
	for range 5 {
		rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
		g := small(t, 16)
		started := make(chan struct{}, 1000)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				x, y := make([]int64, 16), make([]int64, 16)
				for {
					_, err := rt.Run(context.Background(), g, weft.Bind("x", x), weft.Bind("y", y))
					switch {
					case errors.Is(err, weft.ErrClosed):
						return
					case err == nil && y[0] == 16, errors.Is(err, weft.ErrCancelled):
					default:
						t.Errorf("%d, %v", y[0], err)
						return
					}
					select {
					case started <- struct{}{}:
					default:
					}
				}
			})
		}
		<-started
		for range 3 {
			wg.Go(func() {
				if err := rt.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		m := rt.Metrics()
		if m.Runs.Submitted != m.Runs.Completed+m.Runs.Failed+m.Runs.Cancelled {
			t.Errorf("runs got lost: %+v", m.Runs)
		}
	}
}

// A wait ends when sync_timeout says, even if what it waits for does not.
func TestSyncTimeout(t *testing.T) {
	rt, begun, release := held(t, weft.Options{Devices: "cpu/1", SyncTimeout: time.Second})
	d, err := weft.Alloc[int64](rt, "d", 16)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]int64, 16)
	h := rt.Submit(small(t, 1), nil, weft.Bind("x", x), d.As("y"))
	<-begun
	if _, err := d.Get(context.Background()); !errors.Is(err, weft.ErrTimeout) || !strings.Contains(err.Error(), "sync_timeout") {
		t.Errorf("get: %v", err)
	}
	if err := rt.Close(); !errors.Is(err, weft.ErrTimeout) {
		t.Errorf("close: %v", err)
	}
	release()
	if _, err := h.Wait(); err != nil && !errors.Is(err, weft.ErrCancelled) {
		t.Errorf("the run: %v", err)
	}
}

// A kernel that ends its goroutine, as one does that calls t.Fatal, fails its task
// and nothing else.
func TestGoexit(t *testing.T) {
	for _, devices := range []string{"cpu/1", "cpu/2"} {
		var gone atomic.Bool
		rt := open(t, weft.Options{Devices: devices, Funcs: map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) {
			if !gone.Load() {
				runtime.Goexit()
			}
			incFuncs["inc"](c, lo, hi)
		}}})
		g := small(t, 3)
		x, y := make([]int64, 16), make([]int64, 16)
		ctx := context.Background()
		if _, err := rt.Run(ctx, g, weft.Bind("x", x), weft.Bind("y", y)); err == nil || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("%s: %v", devices, err)
		}
		gone.Store(true)
		if _, err := rt.Run(ctx, g, weft.Bind("x", x), weft.Bind("y", y)); err != nil {
			t.Errorf("%s: the next run: %v", devices, err)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMetrics(t *testing.T) {
	boom := errors.New("boom")
	var failures atomic.Int64
	rt := open(t, weft.Options{Devices: "cpu/2", Checksums: true, Funcs: map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) {
		if failures.Add(-1) >= 0 {
			c.Fail(boom)
			return
		}
		incFuncs["inc"](c, lo, hi)
	}}})
	g := small(t, 3)
	x, y := make([]int64, 16), make([]int64, 16)
	run := func() error {
		_, err := rt.Run(context.Background(), g, weft.Bind("x", x), weft.Bind("y", y))
		return err
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	failures.Store(2)
	if err := run(); err != nil {
		t.Fatal(err)
	}
	check := func(m weft.Metrics) {
		t.Helper()
		var tasks, queued int64
		for _, d := range m.Devices {
			tasks += d.Tasks
			queued += int64(d.Queued)
			if d.State != "healthy" || d.MemBytes != 0 || d.Losses != 0 {
				t.Errorf("device %+v", d)
			}
		}
		want := weft.RunMetrics{Submitted: 2, Completed: 2}
		if m.Runs != want || m.Retries != 2 || m.Losses != 0 || tasks != 8 || queued != 0 || m.Uptime <= 0 || len(m.Devices) != 2 {
			t.Errorf("got %+v", m)
		}
	}
	check(rt.Metrics())
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	check(rt.Metrics())
	if ds := rt.Devices(); len(ds) != 2 || ds[0].Tasks+ds[1].Tasks != 8 || ds[1].Name != "cpu:1" {
		t.Errorf("devices after Close: %+v", ds)
	}
}
