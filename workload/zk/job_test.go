package zk

import (
	"errors"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// A job proves on any number of devices, every time anew, and its check finds what is wrong.
func TestJob(t *testing.T) {
	for parts := 1; parts <= 3; parts++ {
		j := workloadtest.New[*Job](t)(New(t.Context(), Config{Circuit: Range, Constraints: 130, Seed: 2, VerifyEach: true}))
		j.per = 1
		if err := j.Check(); err == nil {
			t.Error("a proof that was not made passes")
		}
		rt := workloadtest.Open(t, parts, Funcs())
		var proofs []string
		for range 2 {
			if res := workloadtest.Run(t, rt, j); res.Tasks < 5*parts || !strings.Contains(res.Rule, "for each 1 constraints") {
				t.Errorf("%d tasks for %d devices by the rule %s", res.Tasks, parts, res.Rule)
			}
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			proofs = append(proofs, j.Summary())
		}
		if proofs[0] == proofs[1] {
			t.Errorf("two proofs are the same: %v", proofs)
		}
		j.Proof().Krs = j.Proof().Ar
		if err := j.Check(); !errors.Is(err, ErrProof) {
			t.Errorf("a wrong proof: %v", err)
		}
		j.Release()
	}
}

// One device for each 10,000 constraints takes part at most, GPUs first.
func TestRule(t *testing.T) {
	m := &machine.Machine{Devices: []machine.Device{
		{Name: "cpu:0", Kind: machine.CPU, ComputeUnits: 4, HostMemory: true}, {Name: "vulkan:0", Kind: machine.Integrated},
		{Name: "cuda:0", Kind: machine.Discrete}, {Name: "cuda:1", Kind: machine.Discrete},
	}}
	for constraints, want := range map[int]struct {
		shares int
		only   string
	}{
		1: {1, ""}, 10_000: {1, ""}, 10_001: {2, "cuda:0 cuda:1"}, 30_000: {3, "cuda:0 cuda:1 vulkan:0"}, 30_001: {4, ""}, 1_000_000: {4, ""},
	} {
		s := newShape(constraints, 20, [numSums]int{})
		if err := s.Place(m); err != nil {
			t.Fatal(err)
		}
		if got := s.shares(); got != want.shares || strings.Join(s.only, " ") != want.only || s.hosted || s.cores != 4 {
			t.Errorf("%d constraints: %d devices, only %v", constraints, got, s.only)
		}
		items := s.Items()
		if k := (items.Extent + items.Align - 1) / items.Align; want.shares < 4 && k != int64(want.shares) || want.shares == 4 && k != 4*finer {
			t.Errorf("%d constraints are cut into %d", constraints, k)
		}
		if !strings.Contains(s.Rule(), "10000 constraints") {
			t.Error(s.Rule())
		}
	}
}

// What a whole proof takes is what its tasks take. A sum takes half of the cores, because other tasks run beside it, and
// has nothing for GPUs where there are none.
func TestWork(t *testing.T) {
	for _, hosted := range []bool{false, true} {
		s := newShape(4000, 12, [numSums]int{4000, 4000, 4000, 4000, 4000})
		s.devices, s.cores, s.hosted = 1, 8, hosted
		g, err := s.Graph([]sched.Range{{Hi: 4000}})
		if err != nil {
			t.Fatal(err)
		}
		ops := 0.0
		for i := range s.sums {
			ops += s.sums[i].work().Ops
		}
		for id := range g.NumTasks() {
			k := g.Task(graph.TaskID(id))
			if k.Name == "quotient" || strings.HasPrefix(k.Name, "transform ") {
				if ops += k.Work.Ops; k.Priority != 3 { // what the longest waits for goes first
					t.Errorf("%s has priority %d", k.Name, k.Priority)
				}
				continue
			}
			if n := k.Steps[0].Launch.Grid[0]; n != 4 {
				t.Errorf("%s takes %d of 8 cores", k.Name, n)
			}
			if own := len(k.Steps) > 1 || k.Workspace > 0; own == hosted {
				t.Errorf("%s has %d steps and %d bytes beside its data, without GPUs: %v", k.Name, len(k.Steps), k.Workspace, hosted)
			}
		}
		if whole := s.Whole().Work.Ops; ops != whole {
			t.Errorf("the tasks have %g operations, and a whole proof %g", ops, whole)
		}
		if one, two := s.sums[sumB1].work().Ops, s.sums[sumB2].work().Ops; two != 3*one {
			t.Errorf("a sum in G2 has %g operations, and one in G1 %g: a product there is three", two, one)
		}
	}
}

// Configurations that make no circuit are refused.
func TestConfig(t *testing.T) {
	for _, c := range []Config{{Circuit: "md5", Constraints: 100}, {Circuit: Chain}, {Circuit: Chain, Constraints: 1 << 30}} {
		if _, err := New(t.Context(), c); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Trees with several leaves have one root.
func TestManyLeaves(t *testing.T) {
	compiled, w, err := Shipped(Member, 2*maxDepth*664, 7)
	if err != nil {
		t.Fatal(err)
	}
	if n := compiled.GetNbSecretVariables(); n != 2*(2+maxDepth) {
		t.Errorf("%d secrets", n)
	}
	if _, err := compiled.Solve(w); err != nil {
		t.Error(err)
	}
}

// An outline has the name and the sums of the proof, of which no keys were made.
func TestOutline(t *testing.T) {
	for _, name := range Circuits() {
		c := Config{Circuit: name, Constraints: 130}
		o, err := Outline(c)
		if err != nil {
			t.Fatal(err)
		}
		j := workloadtest.New[*Job](t)(New(t.Context(), c))
		got := o.(outlined)
		if got.Name() != j.Name() || got.log != j.log || got.sums != j.sums || got.constraints != j.constraints {
			t.Errorf("%s: %+v, want %+v", name, got.shape, j.shape)
		}
	}
	if _, err := Outline(Config{Circuit: "md5", Constraints: 100}); !errors.Is(err, workload.ErrConfig) {
		t.Error(err)
	}
}
