package backendtest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// testLaunch computes y += k*x on parts of buffers, in sizes around those that
// devices are cut into. Numbers are small integers, so the result is exact on any
// device. Bytes outside the parts must not change.
func testLaunch(r *rig) {
	d := r.devs[0]
	for _, n := range []int{1, 3, 31, 32, 33, 255, 256, 257, 1000, 100_003} {
		const off = 3 // in words, before and after
		floats := func(at func(i int) int) []byte {
			b := make([]byte, 4*(n+2*off))
			for i := range n + 2*off {
				set(b, i, math.Float32bits(float32(at(i))))
			}
			return b
		}
		x := d.put(floats(func(i int) int { return i % 1000 }))
		y := d.put(floats(func(i int) int { return 7 - i%500 }))
		want := floats(func(i int) int {
			if v := 7 - i%500; i < off || i >= off+n {
				return v
			} else {
				return v + 3*(i%1000)
			}
		})
		made := filled(x, y)
		args := []driver.Arg{x.part(4*off, int64(4*n)), y.part(4*off, int64(4*n))}
		o := d.launch(d.compute(), []graph.Step{r.step("saxpy", n, math.Float32bits(3))}, args, made...)
		if got := y.get(o); !slices.Equal(got, want) {
			i := firstDifference(got, want) / 4
			r.Errorf("%d items: word %d is %v, want %v", n, i-off, math.Float32frombits(get(got, i)), math.Float32frombits(get(want, i)))
		}
	}
	// A grid of zeros is one item.
	x := d.put(words(5, 5))
	s := r.step("add", 1, 2)
	s.Launch = graph.Launch{}
	if got := numbers(x.get(d.launch(d.compute(), []graph.Step{s}, []driver.Arg{x.all()}, filled(x)...))); !slices.Equal(got, []uint32{7, 5}) {
		r.Errorf("a launch of no shape made %d of 5, 5; want 7, 5", got)
	}
	// Nothing at all.
	o := d.launch(d.compute(), []graph.Step{r.step("noop", 1, 0)}, nil)
	r.sent(d, o)
}

// testSteps runs a task of three steps with a workspace. The second step reads
// what all of the first wrote, back to front, and the third changes what the
// first read.
func testSteps(r *rig) {
	d := r.devs[0]
	const n = 3001
	before := ramp(n, 1)
	in, out, work := d.put(words(before...)), d.put(make([]byte, 4*n)), d.put(make([]byte, 4*n))
	t := &graph.Task{
		Name: "steps", Steps: []graph.Step{r.step("spread", n, 0), r.step("gather", n, 5), r.step("add", n, 1)}, Workspace: 4 * n,
		Uses: []graph.Use{{Data: 0, Bytes: 4 * n, Access: graph.ReadWrite}, {Data: 1, Bytes: 4 * n, Access: graph.Write}},
	}
	made := filled(in, out, work)
	var last op
	const rounds = 5
	for range rounds {
		last = d.add(driver.Op{Kind: driver.Launch, Lane: d.compute(), Task: t, Args: []driver.Arg{in.all(), out.all(), work.all()}}, made...)
	}
	gotOut, gotIn := numbers(out.get(last)), numbers(in.get(last))
	for i := range n {
		if want := 2*(before[n-1-i]+rounds-1) + 5; gotOut[i] != want {
			r.Fatalf("out[%d] is %d, want %d", i, gotOut[i], want)
		}
		if want := before[i] + rounds; gotIn[i] != want {
			r.Fatalf("in[%d] is %d, want %d", i, gotIn[i], want)
		}
	}
}

// testStepArgs runs a task whose steps have arguments of their own, in an order of
// their own and some of them twice, and steps that name arguments that do not
// exist. It does so many times and on changing buffers, because devices may record
// tasks that come again.
func testStepArgs(r *rig) {
	d := r.devs[0]
	const n = 1009
	with := func(s graph.Step, args ...int) graph.Step {
		s.Args = args
		return s
	}
	t := &graph.Task{Name: "own arguments", Steps: []graph.Step{
		with(r.step("add", n, 1), 2),           // c += 1
		with(r.step("spread", n, 0), 2, 0, 1),  // b = 2c
		with(r.step("gather", n, 5), 0, 0, 1),  // a = b backwards + 5
		with(r.step("noop", 1, 0), []int{}...), // nothing
		r.step("add", n, 100),                  // a += 100
		with(r.step("spread", n, 0), 0, 0, 3),  // w = 2a
		with(r.step("gather", n, 7), 3, 2, 3),  // c = w backwards + 7
		with(r.step("add", n, 3), 1),           // b += 3
	}}
	for _, round := range ramp(6, 1) {
		var bufs []block
		for range 4 {
			bufs = append(bufs, d.put(make([]byte, 4*n)))
		}
		bufs[2] = d.put(words(ramp(n, round)...))
		args := []driver.Arg{bufs[0].all(), bufs[1].all(), bufs[2].all(), bufs[3].all()}
		var last op
		for range 3 {
			last = d.add(driver.Op{Kind: driver.Launch, Lane: d.compute(), Task: t, Args: args}, filled(bufs...)...)
		}
		a, b, c, w := make([]uint32, n), make([]uint32, n), ramp(n, round), make([]uint32, n)
		for range 3 {
			for i := range c {
				c[i]++
				b[i] = 2 * c[i]
			}
			for i := range a {
				a[i] = b[n-1-i] + 105
				w[i] = 2 * a[i]
			}
			for i := range c {
				c[i] = w[n-1-i] + 7
				b[i] += 3
			}
		}
		for i, want := range [][]uint32{a, b, c, w} {
			if got := numbers(bufs[i].get(last)); !slices.Equal(got, want) {
				r.Fatalf("round %d: argument %d is %d…, want %d…", round, i, got[:3], want[:3])
			}
		}
	}
	x := d.put(words(5))
	bad := d.launch(d.compute(), []graph.Step{with(r.step("add", 1, 1), 1)}, []driver.Arg{x.all()}, filled(x)...)
	d.send()
	r.fails("a step with an argument its task does not have", bad, driver.ErrKernel)
	if got := numbers(x.get()); got[0] != 5 {
		r.Errorf("a step with an argument its task does not have ran: %d", got)
	}
	d.alive("a step had an argument its task does not have")
}

// testParams runs a kernel whose parameters lie at their places in Go, C and GLSL
// alike, and kernels with fewer bytes of them and more than they take.
func testParams(r *rig) {
	d := r.devs[0]
	p := LayoutParams{N: math.MaxUint32, A: -math.Pi, B: -5, C: 0x0123456789abcdef, D: math.E}
	s := graph.Step{Kernel: r.kernel("layout"), Launch: graph.Launch{Grid: [3]uint32{100, 1, 1}}}.With(p)
	out := d.put(make([]byte, 4*len(p.words())))
	o := d.launch(d.compute(), []graph.Step{s}, []driver.Arg{out.all()}, filled(out)...)
	if got, want := numbers(out.get(o)), p.words(); !slices.Equal(got, want) {
		r.Errorf("parameters arrive as %x, want %x", got, want)
	}
	for _, n := range []int{0, 4, 12, 16, 400} {
		for _, first := range [][]graph.Step{nil, {r.step("add", 1, 1)}} {
			s := r.step("add", 1, 1)
			s.Params = append(s.Params, make([]byte, 400)...)[:n]
			x := d.put(words(5))
			bad := d.launch(d.compute(), append(first, s), []driver.Arg{x.all()}, filled(x)...)
			d.send()
			r.fails("a kernel with parameters of another length", bad, driver.ErrKernel)
			if says := fmt.Sprint(bad.wait().Err); !strings.Contains(says, `"add"`) || strings.Contains(says, "\n") ||
				!strings.Contains(says, fmt.Sprintf("it takes 8 bytes, given are %d", n)) && !strings.Contains(says, fmt.Sprintf("%d bytes of parameters; the device takes", n)) {
				r.Errorf("%d bytes of parameters: %s", n, says)
			}
			if got := numbers(x.get()); first == nil && got[0] != 5 {
				r.Errorf("a kernel with %d bytes of parameters ran", n)
			}
		}
	}
	d.alive("a kernel had parameters of another length")
}

// testKernelFails runs a kernel that fails by itself.
func testKernelFails(r *rig) {
	d := r.devs[0]
	k := r.kernel("fail")
	if len(k.Impls) == 0 {
		return // on this backend a kernel cannot, and leave the device alive
	}
	x := d.put(words(5))
	bad := graph.Step{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{100, 1, 1}}}
	o := d.launch(d.compute(), []graph.Step{bad, r.step("add", 1, 1)}, []driver.Arg{x.all()})
	dep := d.on("add", 1, 1, []op{o}, x)
	d.send()
	r.fails("a kernel that fails", o, nil)
	if c := o.wait(); errors.Is(c.Err, driver.ErrKernel) || errors.Is(c.Err, driver.ErrDeviceLost) {
		r.Errorf("a kernel that ran and failed: %v", c.Err)
	}
	r.fails("what depends on a kernel that failed", dep, driver.ErrDependency)
	if got := numbers(x.get()); got[0] != 5 {
		r.Errorf("a step behind one that failed ran: %d", got)
	}
	d.alive("a kernel failed")
}

// testWrongKernels launches what cannot run.
func testWrongKernels(r *rig) {
	d := r.devs[0]
	impls := r.c.Impls("add")
	with := func(change func(*graph.Impl)) []graph.Impl {
		out := slices.Clone(impls)
		for i := range out {
			change(&out[i])
		}
		return out
	}
	wrong := map[string][]graph.Impl{
		"no implementation":                 nil,
		"an unknown dialect":                {{Dialect: "none", Entry: "add"}},
		"an entry its source does not have": with(func(i *graph.Impl) { i.Entry = "weft_no_such_entry" }),
	}
	if len(impls) > 0 && len(impls[0].Source) > 0 {
		wrong["a broken source"] = with(func(i *graph.Impl) { i.Source = []byte("this is no kernel") })
		wrong["half a source"] = with(func(i *graph.Impl) { i.Source = i.Source[:len(i.Source)/2] })
		wrong["an empty source"] = with(func(i *graph.Impl) { i.Source = nil })
	}
	for name, impls := range wrong {
		s := r.step("add", 1, 1)
		s.Kernel = &graph.Kernel{Name: "add", Impls: impls}
		x := d.put(words(5))
		alone := d.launch(d.compute(), []graph.Step{s}, []driver.Arg{x.all()}, filled(x)...)
		second := d.launch(d.compute(), []graph.Step{r.step("noop", 1, 0), s}, []driver.Arg{x.all()}, filled(x)...)
		d.send()
		r.fails("a kernel with "+name, alone, driver.ErrKernel)
		r.fails("a second step with "+name, second, driver.ErrKernel)
		if got := numbers(x.get()); got[0] != 5 {
			r.Errorf("a kernel with %s ran", name)
		}
		d.alive("a kernel with " + name)
	}
	// An implementation without an entry has nothing to do, which is no mistake.
	s := r.step("add", 1, 1)
	s.Kernel = &graph.Kernel{Name: "add", Impls: with(func(i *graph.Impl) { i.Entry, i.Source = "", nil })}
	x := d.put(words(5))
	if got := numbers(x.get(d.launch(d.compute(), []graph.Step{s, r.step("add", 1, 2)}, []driver.Arg{x.all()}, filled(x)...))); got[0] != 7 {
		r.Errorf("a step without an entry, then one that adds 2 to 5: got %d", got)
	}
}
