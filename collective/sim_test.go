package collective_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/collective/fold"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sim"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the files under testdata")

// simulate runs an operation over data that is on the devices already, in
// virtual time. It returns how the operation ended; the simulator checks what
// every task read and left.
func simulate(t *testing.T, p *collective.Plan, m *machine.Machine) sim.RunResult {
	t.Helper()
	s := &p.Spec
	size := s.Type.Size()
	var first, second graph.Builder
	var resident []graph.Data
	var bind []sim.Binding
	var owner []int // rank of each data
	in, out := make([]collective.Buffer, len(s.Ranks)), make([]collective.Buffer, len(s.Ranks))
	for r := range s.Ranks {
		add := func(name string, count int64, input bool) (b collective.Buffer) {
			if count == 0 {
				return b
			}
			data := graph.Data{Name: name, Bytes: count * size}
			owner = append(owner, r)
			resident = append(resident, data)
			first.Data(data)
			data.Input = input
			id := second.Data(data)
			bind = append(bind, sim.Binding{Data: id, Resident: len(resident) - 1})
			return collective.Buffer{Data: id}
		}
		in[r], out[r] = add(collective.InName(r), s.InCount(r), true), add(collective.OutName(r), s.OutCount(r), false)
	}
	p.Add(&second, in, out)
	op, err := second.Build()
	if err != nil {
		t.Fatal(err)
	}
	// All is written once before, where it belongs and piece by piece as it is
	// used later: data that is cut anew would be brought home first.
	write := &graph.Kernel{Name: "write", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	for id := range resident {
		cuts := []int64{0, resident[id].Bytes}
		for i := range op.NumTasks() {
			for _, u := range op.Task(graph.TaskID(i)).Uses {
				if u.Data == graph.DataID(id) {
					cuts = append(cuts, u.Offset, u.Offset+u.Bytes)
				}
			}
		}
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		for k, hi := range cuts[1:] {
			first.Add(graph.Task{
				Steps: []graph.Step{{Kernel: write}},
				Uses:  []graph.Use{{Data: graph.DataID(id), Offset: cuts[k], Bytes: hi - cuts[k], Access: graph.Write}},
				On:    graph.Constraint{Only: []string{m.Devices[s.Ranks[owner[id]]].Name}},
			})
		}
	}
	fill, err := first.Build()
	if err != nil {
		t.Fatal(err)
	}
	const start = time.Second // the data is there by then
	c := sim.Config{
		Machine: m, Resident: resident,
		Jobs: []sim.Job{{Name: "fill", Graph: fill, Bind: bind}, {Name: s.Op.String(), At: start, Graph: op, Bind: bind}},
	}
	res, err := sim.Run(c)
	if err != nil {
		t.Fatalf("%v by %s: %v", s.Op, s.Algorithm, err)
	}
	if res.Runs[0].Err != nil || res.Runs[0].Ended > start {
		t.Fatalf("the data was not there in time: %v, %v", res.Runs[0].Ended, res.Runs[0].Err)
	}
	return res.Runs[1]
}

// Every operation by every algorithm is right on a described machine, whose
// copies and memories the simulator follows.
func TestSimulated(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		m := gpus(n)
		for op := range collective.Op(collective.NumOps) {
			for k, algorithm := range collective.Algorithms() {
				if (op == collective.AllToAll || op == collective.Send) && k > 0 || op == collective.Send && n == 1 || op == collective.Barrier {
					continue
				}
				p := plan(t, m, collective.Spec{Op: op, Ranks: ranks(n), Count: 1000, Type: fold.F32, Algorithm: algorithm, Root: n / 2, Pieces: 3})
				if r := simulate(t, p, m); r.Err != nil {
					t.Errorf("%v by %s over %d: %v", op, algorithm, n, r.Err)
				}
			}
		}
	}
}

// A participant is lost at every step of the way. If it comes back, the
// operation ends well all the same; if it does not, the operation fails unless
// all was done, and worked out anew for the devices left, with one of them in
// its place, it ends well. Inputs and outputs are in host memory, as those of
// package live are.
func TestSimulatedLoss(t *testing.T) {
	const n, victim = 4, 2
	m := gpus(n)
	run := func(p *collective.Plan, faults sim.Faults) sim.RunResult {
		t.Helper()
		g, err := p.Graph()
		if err != nil {
			t.Fatal(err)
		}
		res, err := sim.Run(sim.Config{Machine: m, Jobs: []sim.Job{{Graph: g}}, Faults: faults})
		if err != nil {
			t.Fatalf("%v by %s with %v: %v", p.Spec.Op, p.Spec.Algorithm, faults, err)
		}
		return res.Runs[0]
	}
	for op := range collective.Op(collective.NumOps) {
		for _, algorithm := range collective.Algorithms() {
			if (op == collective.AllToAll || op == collective.Send) && algorithm != "direct" {
				continue
			}
			s := collective.Spec{Op: op, Ranks: ranks(n), Count: 100_000, Type: fold.F32, Algorithm: algorithm, Peer: victim, Pieces: 2}
			if op == collective.Reduce {
				s.Root = victim // the only one that always has something to do
			}
			p := plan(t, m, s)
			took := run(p, nil).Ended
			failed := 0
			const moments = 12
			for k := range moments {
				lose := sim.Fault{At: took * time.Duration(k) / moments, Kind: sim.Lose, Device: victim}
				back := sim.Fault{At: lose.At + 50*time.Microsecond, Kind: sim.Back, Device: victim}
				if r := run(p, sim.Faults{lose, back}); r.Err != nil {
					t.Errorf("%v by %s, lost after %v and back: %v", op, algorithm, lose.At, r.Err)
				}
				if r := run(p, sim.Faults{lose}); r.Err != nil {
					failed++
					if !errors.Is(r.Err, engine.ErrNoDevice) {
						t.Errorf("%v by %s, lost after %v: %v", op, algorithm, lose.At, r.Err)
					}
				}
			}
			if failed == 0 {
				t.Errorf("%v by %s: the loss of a participant was never noticed", op, algorithm)
			}
			s.Ranks = []machine.DeviceID{0, 1, 3, 3}
			if r := run(plan(t, m, s), sim.Faults{{Kind: sim.Lose, Device: victim}}); r.Err != nil {
				t.Errorf("%v by %s on the devices left: %v", op, algorithm, r.Err)
			}
		}
	}
}

// How close all-reduce comes to what the links allow on machines nobody here
// has: simulated, so exact to the nanosecond.
func TestBandwidthOfMachines(t *testing.T) {
	var got strings.Builder
	fmt.Fprintln(&got, "# simulated: all-reduce of f32 against the bound 2(n-1)/n bytes over the widest link")
	for _, name := range []string{"2xh100", "4xh100", "8xh100", "16xh100", "4x5070-ring", "8x5070-hier"} {
		m, ok := machine.Named(name)
		if !ok {
			t.Fatalf("no machine %s", name)
		}
		n := len(m.Devices)
		for _, bytes := range []int64{64 << 10, 4 << 20, 256 << 20, 1 << 30} {
			for _, algorithm := range append([]string{""}, collective.Algorithms()...) {
				if algorithm != "" && bytes != 1<<30 {
					continue
				}
				p := plan(t, m, collective.Spec{Op: collective.AllReduce, Ranks: ranks(n), Count: bytes / 4, Type: fold.F32, Algorithm: algorithm})
				r := simulate(t, p, m)
				if r.Err != nil {
					t.Fatalf("%s on %s: %v", algorithm, name, r.Err)
				}
				took := r.Ended - r.Submitted
				chosen := p.Spec.Algorithm
				if algorithm == "" {
					chosen = "chose " + chosen
				}
				fmt.Fprintf(&got, "%-11s %9s  %-18s %3d pieces  %12v  predicted %12v  %5.1f %% of the bound\n",
					name, machine.FormatBytes(bytes), chosen, p.Spec.Pieces, took, p.Predicted, 100*p.Bound().Seconds()/took.Seconds())
			}
		}
	}
	const file = "testdata/bandwidth.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s\n(-rewrite to accept)", got.String(), want)
	}
}
