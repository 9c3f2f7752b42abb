package verify

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// One task in so many is picked, whatever its place, and the same ones every time.
func TestPick(t *testing.T) {
	for _, every := range []int{1, 2, 3, 10, 1000} {
		const n = 200_000
		var picked, runs, distance int
		last := -1
		for i := range n {
			if !Pick(7, 3, graph.TaskID(i), every) {
				continue
			}
			if !Pick(7, 3, graph.TaskID(i), every) {
				t.Fatalf("task %d is picked once", i)
			}
			picked++
			if last >= 0 && i-last == distance {
				runs++
			}
			distance, last = i-last, i
		}
		p := 1 / float64(every)
		if off := math.Abs(float64(picked) - n*p); off > 6*math.Sqrt(n*p*(1-p))+1e-9 {
			t.Errorf("one in %d: %d of %d", every, picked, n)
		}
		if every > 1 && runs > picked*3/4 {
			t.Errorf("one in %d: picked in even distances", every)
		}
	}
	var known []int // the same in every version and on every machine, by a program of its own
	for i := range 60 {
		if Pick(7, 3, graph.TaskID(i), 4) {
			known = append(known, i)
		}
	}
	if want := []int{0, 2, 5, 10, 11, 15, 24, 31, 32, 36, 43, 47, 48, 58}; !slices.Equal(known, want) {
		t.Errorf("of the first tasks %v are picked, want %v", known, want)
	}
	if Pick(1, 1, 1, 0) {
		t.Error("a task is picked of none")
	}
	same := 0
	for i := range graph.TaskID(1000) {
		if Pick(0, 1, i, 10) && Pick(0, 2, i, 10) {
			same++
		}
	}
	if same > 40 { // 10 are expected
		t.Errorf("%d tasks in a thousand are picked in two runs", same)
	}
}

// world is a machine of devices of one kind by the digit they have, all of which take work.
func world(kinds string, across, reference bool) World {
	kind := func(d machine.DeviceID) byte {
		if d == machine.Host {
			return 'h'
		}
		return kinds[d]
	}
	w := World{
		Alike:     func(a, b machine.DeviceID) bool { return kind(a) == kind(b) },
		Reference: reference,
	}
	w.Comparable = func(a, b machine.DeviceID) bool { return across || w.Alike(a, b) }
	for i := range kinds {
		w.Able = append(w.Able, machine.DeviceID(i))
	}
	return w
}

// Any number of devices of which fewer than two are wrong in the same way: the result that two
// agree on is used, all devices that had another are named, and no device is asked twice.
func TestCaseIsRight(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for wrong := range 1 << n {
			for _, reference := range []bool{false, true} {
				kinds := "aaaaa"[:n]
				w := world(kinds, true, reference)
				var c Case
				var ran []machine.DeviceID
				result := func(d machine.DeviceID) int {
					if d >= 0 && wrong>>d&1 == 1 {
						return 1 + int(d) // every wrong one is wrong in its own way
					}
					return 0
				}
				for {
					next := c.Next(w)
					if next.Do == Execute || next.Do == Reference {
						d := machine.Host
						if next.Do == Execute {
							d = machine.DeviceID(n / 2) // wherever it likes
							if len(ran) > 0 {
								d = next.Only[len(ran)*7%len(next.Only)]
							}
						}
						if slices.Contains(ran, d) {
							t.Fatalf("device %d executes the task again", d)
						}
						var agrees []bool
						for _, o := range ran {
							agrees = append(agrees, result(o) == result(d))
						}
						ran = append(ran, d)
						c.Ran(d, agrees)
						continue
					}
					right := n
					for i := range n {
						right -= wrong >> i & 1
					}
					if reference {
						right++
					}
					switch {
					case next.Do == Settle:
						if result(ran[next.Right]) != 0 {
							t.Errorf("%d devices, wrong %b: a wrong result is taken", n, wrong)
						}
						for i, d := range ran {
							if slices.Contains(next.Wrong, i) != (result(d) != 0) {
								t.Errorf("%d devices, wrong %b: blamed are %v of %v", n, wrong, next.Wrong, ran)
							}
						}
						if len(ran) > 2 && len(next.Wrong) == 0 {
							t.Errorf("%d devices, wrong %b: %d executions, and none was wrong", n, wrong, len(ran))
						}
					case next.Do != GiveUp || right >= 2:
						t.Errorf("%d devices, wrong %b, reference %v: ends with %d after %v", n, wrong, reference, next.Do, ran)
					}
					break
				}
			}
		}
	}
}

// Which devices a case asks, by what there is.
func TestCaseAsks(t *testing.T) {
	for _, c := range []struct {
		name   string
		w      World
		ran    []machine.DeviceID // each disagrees with all before
		do     Do
		only   []machine.DeviceID
		unable []machine.DeviceID
	}{
		{"any device first", world("ab", false, false), nil, Execute, nil, nil},
		{"any device first, where none takes work", world("ab", false, false), nil, Execute, nil, []machine.DeviceID{0, 1}},
		{"one of the same kind", world("abba", true, true), []machine.DeviceID{1}, Execute, []machine.DeviceID{2}, nil},
		{"one of another kind", world("abb", true, true), []machine.DeviceID{0}, Execute, []machine.DeviceID{1, 2}, nil},
		{"none of another kind", world("abb", false, true), []machine.DeviceID{0}, Pass, nil, nil},
		{"none that is out of service", world("aa", true, true), []machine.DeviceID{0}, Pass, nil, []machine.DeviceID{1}},
		{"a third", world("aaa", false, true), []machine.DeviceID{0, 1}, Execute, []machine.DeviceID{2}, nil},
		{"a third of another kind", world("aab", true, true), []machine.DeviceID{0, 1}, Execute, []machine.DeviceID{2}, nil},
		{"the process", world("aa", true, true), []machine.DeviceID{0, 1}, Reference, nil, nil},
		{"not a process of another kind", world("aa", false, true), []machine.DeviceID{0, 1}, GiveUp, nil, nil},
		{"no process without functions", world("hh", false, false), []machine.DeviceID{0, 1}, GiveUp, nil, nil},
		{"the process for a third", world("hhh", false, true), []machine.DeviceID{0, 1}, Reference, nil, []machine.DeviceID{2}},
		{"one of another kind for one of the same", world("aab", true, true), []machine.DeviceID{0}, Execute, []machine.DeviceID{2}, []machine.DeviceID{1}},
		{"the process once", world("hh", false, true), []machine.DeviceID{0, 1, machine.Host}, GiveUp, nil, nil},
	} {
		var at Case
		for i, d := range c.ran {
			at.Ran(d, make([]bool, i))
		}
		failed := Case{ran: at.ran}
		failed.Failed(c.unable...) // which is as if they were out of service
		fails := failed.Next(c.w)
		c.w.Able = slices.DeleteFunc(c.w.Able, func(d machine.DeviceID) bool { return slices.Contains(c.unable, d) })
		for how, next := range map[string]Next{"out of service": at.Next(c.w), "failed": fails} {
			if next.Do != c.do || !slices.Equal(next.Only, c.only) {
				t.Errorf("%s, with %v %s: does %d on %v, want %d on %v", c.name, c.unable, how, next.Do, next.Only, c.do, c.only)
			}
		}
	}
	var at Case
	at.Ran(0, nil)
	at.Ran(1, []bool{false})
	at.Failed(machine.Host)
	if next := at.Next(world("hh", false, true)); next.Do != GiveUp {
		t.Errorf("after the process has failed it does %d", next.Do)
	}
}

// A device that is coming back is waited for where no other can be asked, if it could be compared
// and has not executed the task.
func TestCaseWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		w      World
		coming []machine.DeviceID // not able
		ran    []machine.DeviceID // each disagrees with all before
		do     Do
	}{
		{"not for the first", world("aa", true, false), []machine.DeviceID{1}, nil, Execute},
		{"for a second", world("aa", true, true), []machine.DeviceID{1}, []machine.DeviceID{0}, Await},
		{"not where another is there", world("aaa", true, true), []machine.DeviceID{1}, []machine.DeviceID{0}, Execute},
		{"for a third", world("aaa", true, false), []machine.DeviceID{2}, []machine.DeviceID{0, 1}, Await},
		{"not where the process decides", world("hhh", true, true), []machine.DeviceID{2}, []machine.DeviceID{0, 1}, Reference},
		{"not for one of another kind", world("ab", false, false), []machine.DeviceID{1}, []machine.DeviceID{0}, Pass},
		{"not for one that has executed it", world("aa", true, false), []machine.DeviceID{1}, []machine.DeviceID{0, 1}, GiveUp},
	} {
		var at Case
		for i, d := range c.ran {
			at.Ran(d, make([]bool, i))
		}
		c.w.Able = slices.DeleteFunc(c.w.Able, func(d machine.DeviceID) bool { return slices.Contains(c.coming, d) })
		c.w.Coming = c.coming
		if next := at.Next(c.w); next.Do != c.do {
			t.Errorf("%s: does %d, want %d", c.name, next.Do, c.do)
		}
	}
	var at Case
	at.Ran(0, nil)
	at.Failed(1)
	w := world("aa", true, true)
	w.Able, w.Coming = w.Able[:1], w.Able[1:]
	if next := at.Next(w); next.Do != Pass {
		t.Errorf("for one on which the task failed it does %d", next.Do)
	}
}

func floats(xs ...float32) (b []byte) {
	for _, x := range xs {
		b = binary.NativeEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func TestCompare(t *testing.T) {
	nan, otherNaN, inf := float32(math.NaN()), math.Float32frombits(0xffc00001), float32(math.Inf(1))
	f2, f4, f8 := graph.Data{Elem: graph.F2, Tolerance: 0.01}, graph.Data{Elem: graph.F4, Tolerance: 0.01}, graph.Data{Elem: graph.F8, Tolerance: 0.01}
	same := graph.Data{Elem: graph.F4, Tolerance: graph.SameBytes}
	raw := graph.Data{}
	for _, c := range []struct {
		name  string
		d     graph.Data
		alike bool
		a, b  []byte
		at    int64 // -1: they agree
	}{
		{"the same bytes", raw, true, []byte("abc"), []byte("abc"), -1},
		{"another byte", raw, true, []byte("abc"), []byte("abd"), 2},
		{"another byte, of other kinds", raw, false, []byte("abc"), []byte("xbc"), 0},
		{"numbers of one kind", f4, true, floats(1, 100), floats(1, 100.5), 4},
		{"numbers of other kinds", f4, false, floats(1, 100), floats(1, 100.5), -1},
		{"by the largest magnitude", f4, false, floats(0, -100), floats(0.9, -100), -1},
		{"too far apart", f4, false, floats(0, -100), floats(1.1, -100), 0},
		{"no numbers", f4, true, floats(nan, 2), floats(otherNaN, 2), -1},
		{"a number and none", f4, false, floats(nan, 2), floats(1, 2), 0},
		{"infinite", f4, false, floats(inf, 2), floats(inf, 2.01), -1},
		{"infinite and not", f4, false, floats(inf, 2), floats(3e38, 2), 0},
		{"zeros of either sign", f4, false, floats(0, 0), floats(0, float32(math.Copysign(0, -1))), -1},
		{"zeros of one kind", f4, true, floats(0, 0), floats(0, float32(math.Copysign(0, -1))), 4},
		{"same bytes of other kinds", same, false, floats(1, 100), floats(1, 100.00001), 4},
		{"no numbers in same bytes", same, false, floats(1, nan), floats(1, otherNaN), -1},
		{"numbers of double precision", f8, false, doubles(2, 1), doubles(2, 1.019), -1},
		{"doubles too far apart", f8, false, doubles(2, 1), doubles(2, 1.021), 8},
		{"numbers of half precision", f2, false, halves(0x4000, 0x3c00), halves(0x4000, 0x3c14), -1}, // 1 and 1 + 20/1024
		{"halves too far apart", f2, false, halves(0x4000, 0x3c00), halves(0x4000, 0x3c1a), 2},       // 1 and 1 + 26/1024
		{"another length", raw, true, []byte("ab"), []byte("abc"), 2},
	} {
		at := int64(-1)
		if d := Compare(&c.d, c.alike, c.a, c.b); d != nil {
			at = d.Byte - d.Byte%max(c.d.Elem.Size(), 1) // where the element begins
			if d.A == d.B {
				t.Errorf("%s: %+v", c.name, d)
			}
		}
		if at != c.at {
			t.Errorf("%s: differ at %d, want %d", c.name, at, c.at)
		}
	}
}

func doubles(xs ...float64) (out []byte) {
	for _, x := range xs {
		out = binary.NativeEndian.AppendUint64(out, math.Float64bits(x))
	}
	return out
}

func halves(xs ...uint16) (out []byte) {
	for _, x := range xs {
		out = binary.NativeEndian.AppendUint16(out, x)
	}
	return out
}

// Results of devices that are not alike can be compared if all data that is written says how.
func TestComparable(t *testing.T) {
	cpu, cuda := machine.Device{Backend: "cpu"}, machine.Device{Backend: "cuda"}
	for _, c := range []struct {
		a, b  float64 // tolerances of what it writes
		other *machine.Device
		want  bool
	}{{0, 0, &cpu, true}, {0, 0, &cuda, false}, {0.1, 0, &cuda, false}, {0, 0.1, &cuda, false}, {0.1, 0.1, &cuda, true}, {graph.SameBytes, 0.1, &cuda, true}} {
		var b graph.Builder
		in := b.Data(graph.Data{Bytes: 8, Input: true}) // which nobody compares
		x, y := b.Data(graph.Data{Bytes: 8, Elem: graph.F4, Tolerance: c.a}), b.Data(graph.Data{Bytes: 8, Elem: graph.F4, Tolerance: c.b})
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("k")}}, Uses: []graph.Use{{Data: in}, {Data: x, Access: graph.Write}, {Data: y, Access: graph.Write}}})
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if got := Comparable(g, 0, &cpu, c.other); got != c.want {
			t.Errorf("tolerances %v and %v, cpu and %s: %v", c.a, c.b, c.other.Backend, got)
		}
	}
}

// Half precision by its definition: sign, five bits of exponent, ten of fraction.
func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0: 0, 1: math.Ldexp(1, -24), 0x03ff: math.Ldexp(1023, -24), 0x0400: math.Ldexp(1, -14), 0x3c00: 1, 0xc000: -2, 0x7bff: 65504,
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1), 0x3555: 0.333251953125,
	} {
		if got := half(bits); got != want {
			t.Errorf("%#04x is %v, want %v", bits, got, want)
		}
	}
	if !math.IsNaN(half(0x7e00)) {
		t.Error("0x7e00 is a number")
	}
}

// A graph keeps its tasks, data and order; those picked run the kernel that checks. A task alone
// has each use for itself.
func TestRewrite(t *testing.T) {
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 64, Input: true, Output: true})
	k := graph.GoKernel("k")
	for i := range 3 {
		b.Add(graph.Task{
			Name: "t" + strconv.Itoa(i), Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(4)}}, Workspace: 8, Work: graph.Work{Ops: 5},
			Uses: []graph.Use{{Data: x, Offset: 32, Bytes: 32}, {Data: x, Bytes: 32, Access: graph.ReadWrite}},
			On:   graph.Constraint{Only: []string{"cpu"}}, Retries: 7,
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out := Rewrite(g, []graph.TaskID{1}, func(id graph.TaskID) []byte { return []byte{byte(id)} })
	for i := range graph.TaskID(3) {
		was, is := g.Task(i), out.Task(i)
		checked := is.Steps[0].Kernel == Kernel
		if checked != (i == 1) || is.Name != was.Name || !slices.Equal(is.Uses, was.Uses) || checked && (is.Steps[0].Params[0] != 1 || is.Steps[0].Launch != graph.Grid(1) || is.Work != (graph.Work{}) || is.Workspace != 0 || is.On.Only != nil || is.Retries != -1) {
			t.Errorf("task %d is %+v", i, is)
		}
		if !slices.Equal(out.Flow().Preds(i), g.Flow().Preds(i)) {
			t.Errorf("task %d has other predecessors", i)
		}
	}
	one, err := Alone(g, 2, []string{"cuda:1"})
	if err != nil {
		t.Fatal(err)
	}
	a := one.Task(0)
	if one.NumTasks() != 1 || a.Name != "t2" || a.Workspace != 8 || a.Retries != 7 || !slices.Equal(a.On.Only, []string{"cuda:1"}) || a.Steps[0].Kernel != k {
		t.Errorf("alone it is %+v", a)
	}
	if in, out := one.Data(0), one.Data(1); in.Bytes != 32 || !in.Input || in.Output || !out.Input || !out.Output || out.Name != "1" {
		t.Errorf("its data is %+v and %+v", in, out)
	}
	for _, n := range []int{0, 9, 10, 305} {
		if Port(n) != strconv.Itoa(n) {
			t.Errorf("port %d is %q", n, Port(n))
		}
	}
}

func TestCheckable(t *testing.T) {
	steps := []graph.Step{{Kernel: graph.GoKernel("k")}}
	use := func(offset int64, access graph.Access) graph.Use {
		return graph.Use{Offset: offset, Bytes: 10, Access: access}
	}
	for _, c := range []struct {
		name string
		task graph.Task
		want bool
	}{
		{"a task", graph.Task{Steps: steps, Uses: []graph.Use{use(0, graph.Read), use(10, graph.Write)}}, true},
		{"reads that overlap", graph.Task{Steps: steps, Uses: []graph.Use{use(0, graph.Read), use(5, graph.Read), use(15, graph.Write)}}, true},
		{"a gang of one", graph.Task{Steps: steps, Gang: 1, Uses: []graph.Use{use(0, graph.Write)}}, true},
		{"a gang", graph.Task{Steps: steps, Gang: 2, Uses: []graph.Use{use(0, graph.Write)}}, false},
		{"no steps", graph.Task{Uses: []graph.Use{use(0, graph.Write)}}, false},
		{"no result", graph.Task{Steps: steps, Uses: []graph.Use{use(0, graph.Read)}}, false},
		{"what it reads and writes overlaps", graph.Task{Steps: steps, Uses: []graph.Use{use(5, graph.Write), use(0, graph.Read)}}, false},
	} {
		if got := Checkable(&c.task); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestAlike(t *testing.T) {
	plain := &graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("k")}}}
	blas := &graph.Task{Steps: []graph.Step{{Kernel: &graph.Kernel{Impls: []graph.Impl{{Dialect: graph.Library}, {Dialect: graph.PTX}}}}}}
	dev := func(backend, arch, model string) machine.Device {
		return machine.Device{Backend: backend, Arch: arch, Rounding: model}
	}
	exact := dev("cuda", "sm_90", "a")
	exact.Exact = true
	for _, c := range []struct {
		name string
		t    *graph.Task
		a, b machine.Device
		want bool
	}{
		{"two CPUs", plain, dev("cpu", "amd64", ""), dev("cpu", "amd64", ""), true},
		{"GPUs of two architectures", plain, dev("cuda", "sm_90", "a"), dev("cuda", "sm_89", "a"), false},
		{"CPU and GPU", plain, dev("cpu", "", ""), dev("cuda", "", ""), false},
		{"models for Vulkan", plain, dev("vulkan", "", "a"), dev("vulkan", "", "b"), false},
		{"a vendor's routine", blas, dev("cuda", "sm_90", "a"), dev("cuda", "sm_90", "a"), false},
		{"none where exact", blas, exact, exact, true},
	} {
		if got := Alike(c.t, &c.a, &c.b); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Within a tolerance, agreement is not passed on: a result may agree with two that do not agree
// with each other. Who agrees with one that agrees with the right one is not blamed, at whatever
// place it was executed.
func TestCaseBlamesNobodyIndirectly(t *testing.T) {
	for _, c := range []struct {
		name   string
		agrees [][]bool
		right  int
		wrong  []int
	}{
		{"the second agrees with the third alone", [][]bool{nil, {false}, {true, true}}, 0, nil},
		{"the second agrees with nobody", [][]bool{nil, {false}, {true, false}}, 0, []int{1}},
		{"the first agrees with nobody", [][]bool{nil, {false}, {false, true}}, 1, []int{0}},
		{"the third agrees with the fourth alone", [][]bool{nil, {false}, {false, false}, {true, false, true}}, 0, []int{1}},
		{"two steps away", [][]bool{nil, {false}, {true, false}, {false, true, true}}, 0, []int{1}},
	} {
		var at Case
		for d, agrees := range c.agrees {
			at.Ran(machine.DeviceID(d), agrees)
		}
		if next := at.Next(world("aaaaa", true, true)); next.Do != Settle || next.Right != c.right || !slices.Equal(next.Wrong, c.wrong) {
			t.Errorf("%s: %+v, want %d right and %v wrong", c.name, next, c.right, c.wrong)
		}
	}
}
