package workloads

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/reservoir"
)

// The work of every workload grows as its entry says. Sizes are a sixteenth of
// the usual ones, so that making them takes no time, and rounding shows.
func TestGrowth(t *testing.T) {
	for _, w := range list {
		sizes := make(map[string]int)
		if _, err := sized(w, sizes); err != nil {
			t.Fatal(err)
		}
		for name := range sizes {
			if w.Growth.Power <= 4 { // a sixteenth of another is nothing
				sizes[name] /= 16
			}
		}
		small, err := Sized(t.Context(), w, sizes)
		if err != nil {
			t.Fatal(err)
		}
		if !w.Growth.By(sizes, 4, math.MaxInt) {
			t.Errorf("%s does not grow", w.Name)
		}
		large, err := Sized(t.Context(), w, sizes)
		if err != nil {
			t.Fatal(err)
		}
		if grown := large.Whole().Work.Ops / small.Whole().Work.Ops; grown < 3 || grown > 8 {
			t.Errorf("%s: 4 times the work is %.2f times the operations", w.Name, grown)
		}
		part, err := Sized(t.Context(), w, w.Growth.Times(sizes, 1./4))
		if err != nil {
			t.Fatal(err)
		}
		if shrunk := large.Whole().Work.Ops / part.Whole().Work.Ops; shrunk < 2 || shrunk > 6 {
			t.Errorf("%s: a quarter of the work is 1/%.2f of the operations", w.Name, shrunk)
		}
		if w.Growth.By(sizes, 4, 1) {
			t.Errorf("%s grew past its limit", w.Name)
		}
	}
}

// What a job binds fits into the memory that its configuration states, and that is at
// most twice the data of its graph, or of the graph for CPUs where that is larger.
func TestBytes(t *testing.T) {
	for _, w := range list {
		for _, args := range variantsOf(t, w) {
			o, j := ordered(t, w, args)
			jobs := []workload.Job{j}
			if h, ok := j.(workload.Hosted); ok {
				jobs = append(jobs, h.Hosted())
			}
			bound, all := 0., 0.
			for _, j := range jobs {
				for _, gpus := range []bool{false, true} {
					more, total := dataBytes(t, j, gpus)
					bound, all = max(bound, more), max(all, total)
				}
			}
			if strings.Contains(args, "--strategy") {
				// Dense weights of 32 neurons and 64 channels, padded, and the runtime's copy: their
				// graph is there with a runtime that has such a GPU.
				all += 2 * 4 * 32 * 128
			}
			if w.Name == "network" && strings.Contains(args, "--nodes") {
				all += 8 * 16 * 500 // the list of the edges, while the graph is drawn
			}
			if stated := o.Bytes(); stated < bound || stated > 2*all {
				t.Errorf("%s %s: %.0f bytes are stated, %.0f are bound, %.0f are in the graph", w.Name, args, stated, bound, all)
			}
		}
	}
	// Sizes that no machine has do not overflow.
	for _, w := range list {
		f, o := w.Order()
		if err := f.Lookup(w.Growth.Flags[0]).Set(strconv.Itoa(math.MaxInt)); err != nil {
			t.Fatal(err)
		}
		if stated := o.Bytes(); !(stated > math.MaxInt) {
			t.Errorf("%s: %.3g bytes are stated for the largest size there is", w.Name, stated)
		}
	}
	// The weights of a reservoir are most of its memory where there are many neurons.
	c := reservoir.Config{Params: reservoir.Params{Size: 30_000, Inputs: 100, Connectivity: 1}, Batch: 1, Steps: 1}
	if got, least := c.Bytes(), 8*30000.0*30100; got < least {
		t.Errorf("a reservoir is said to take %.3g bytes, and its weights alone are %.3g", got, least)
	}
	// Every replica of a stream has inputs and states of its own.
	w, _ := Find("reservoir")
	o, _ := ordered(t, w, "--strategy eager --replicas 7 --batch 100 --neurons 50 --channels 8 --steps 10")
	if got, least := o.Bytes(), 4*7*100*(8*10+3*50.0); got < least {
		t.Errorf("a stream is said to take %.3g bytes, and its replicas alone take %.3g", got, least)
	}
}

// dataBytes adds up what a job binds and all data of its graph in two parts.
func dataBytes(t *testing.T, j workload.Job, gpus bool) (bound, all float64) {
	t.Helper()
	m := twoGPUs()
	if gpus {
		for i := range m.Devices {
			m.Devices[i].Backend, m.Devices[i].Cluster = "cuda", 16
		}
	}
	g := graphOf(t, j, m)
	for id := range g.NumData() {
		d := g.Data(graph.DataID(id))
		all += float64(d.Bytes)
		if d.Input || d.Output {
			bound += float64(d.Bytes)
		}
	}
	return bound, all
}

// A job whose results are the same bytes on every backend says so of all that its tasks write, so
// that runs which check results compare them between devices of any kind. No other job does, but
// of what it only copies.
func TestExactData(t *testing.T) {
	exact := 0
	for _, w := range list {
		for _, args := range variantsOf(t, w) {
			_, j := ordered(t, w, args)
			jobs := []workload.Job{j}
			if h, ok := j.(workload.Hosted); ok {
				jobs = append(jobs, h.Hosted())
			}
			for _, j := range jobs {
				g := graphOf(t, j, twoGPUs())
				for id := range g.NumTasks() {
					for _, u := range g.Task(graph.TaskID(id)).Uses {
						d := g.Data(u.Data)
						if !u.Access.Writes() {
							continue
						}
						if j.Class() == workload.Exact {
							exact++
						}
						if same := d.Tolerance == graph.SameBytes; same != (j.Class() == workload.Exact) && d.Name != "packed B" {
							t.Fatalf("%s %s is of class %s, and data %q has tolerance %v", w.Name, args, j.Class(), d.Name, d.Tolerance)
						}
					}
				}
			}
		}
	}
	if exact == 0 {
		t.Error("no job is of class X")
	}
}

// A part of a job is smaller, and what else its flags say is the same.
func TestPart(t *testing.T) {
	given := map[string][2]string{ // a flag that is no size, with a value of its own
		"clifford": {"op", "rotor"}, "relativity": {"problem", "boosts"}, "gemm": {"seed", "7"}, "reduce": {"op", "max"},
	}
	for _, w := range All() {
		f := pflag.NewFlagSet(w.Name, pflag.ContinueOnError)
		Flags(f, w)
		if set, ok := given[w.Name]; ok {
			if err := f.Set(set[0], set[1]); err != nil {
				t.Fatal(err)
			}
		}
		if w.Name == "gemm" { // which sets the sizes
			if err := f.Set("size", "640"); err != nil {
				t.Fatal(err)
			}
		}
		part, err := Part(t.Context(), w, f, 1./64)
		if err != nil {
			t.Errorf("%s: %v", w.Name, err)
			continue
		}
		larger, err := Part(t.Context(), w, f, 1./8)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := part.Whole().Work, larger.Whole().Work; !(a.Ops+a.Bytes < (b.Ops+b.Bytes)/3) {
			t.Errorf("%s: %q has %v operations and %v bytes, and %q %v and %v", w.Name, part.Name(), a.Ops, a.Bytes, larger.Name(), b.Ops, b.Bytes)
		}
		if set, ok := given[w.Name]; ok && w.Name != "gemm" && !strings.Contains(part.Name(), strings.TrimSuffix(set[1], "s")) {
			t.Errorf("%s: %q is not with --%s %s", w.Name, part.Name(), set[0], set[1])
		}
	}
}

// What takes longer to make than to compute is planned by an outline of it.
func TestOutline(t *testing.T) {
	for _, w := range list {
		_, o := w.Order()
		if w.Name != "msm" && w.Name != "zk" {
			continue
		}
		if j, runs, err := Outline(t.Context(), o); err != nil || runs || j.Name() == "" {
			t.Errorf("%s: %v, runs: %v, %v", w.Name, j, runs, err)
		}
	}
}
