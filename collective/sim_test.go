package collective_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

var (
	rewrite = flag.Bool("rewrite", false, "rewrite the files under testdata")
	full    = flag.Bool("full", false, "lose a participant in all operations, not in a sample")
	seed    = flag.Uint64("seed", 1, "what the sample is drawn with")
)

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
				if (op == collective.OpAllToAll || op == collective.OpSend) && k > 0 || op == collective.OpSend && n == 1 || op == collective.OpBarrier {
					continue
				}
				p := plan(t, m, collective.Spec{Op: op, Ranks: ranks(n), Count: 1000, Type: collective.F32, Algorithm: algorithm, Root: n / 2, Pieces: 3})
				if r := simulate(t, p, m); r.Err != nil {
					t.Errorf("%v by %s over %d: %v", op, algorithm, n, r.Err)
				}
			}
		}
	}
}

// lossCase is an operation in which a participant is lost.
type lossCase struct {
	collective.Spec
	victim machine.DeviceID
}

// lossCases are all operations by all algorithms for all types on one to nine
// devices with sizes that do not fit; the victim is another one each time.
func lossCases() (out []lossCase) {
	for n := 1; n <= 9; n++ {
		for op := range collective.Op(collective.NumOps) {
			for k, algorithm := range collective.Algorithms() {
				if (op == collective.OpAllToAll || op == collective.OpSend) && k > 0 || op == collective.OpSend && n == 1 {
					continue
				}
				for typ := range collective.Type(collective.NumTypes) {
					for _, count := range []int64{0, 1, int64(n) - 1, 2*int64(n) + 3, 10_007} {
						if op == collective.OpBarrier && (typ > 0 || count > 0) {
							continue
						}
						c := lossCase{Spec: collective.Spec{
							Op: op, Ranks: ranks(n), Count: count, Type: typ, Fold: collective.Fold(len(out) % collective.NumFolds),
							Algorithm: algorithm, Root: len(out) % n, Pieces: 1 + len(out)%2,
						}}
						c.Peer = (c.Root + 1) % n
						c.victim = machine.DeviceID(len(out) / 3 % n)
						out = append(out, c)
					}
				}
			}
		}
	}
	return out
}

// lossSample is the number of cases that are drawn unless all are asked for. Short tests draw
// an eighth of them.
const lossSample = 40

// A participant is lost at every step of the way: whenever in the undisturbed run
// something began or ended. If it comes back, the operation ends well all the same;
// if it does not, the operation fails unless all was done, and worked out anew for
// the devices left, with one of them in its place, it ends well. The simulator
// compares what every task reads and every output holds with the sequential run.
// Inputs and outputs are in host memory, as those of package live are.
func TestSimulatedLoss(t *testing.T) {
	cases := lossCases()
	if !*full {
		r := rand.New(rand.NewPCG(*seed, 1))
		r.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		cases = cases[:lossSample]
		if testing.Short() {
			cases = cases[:lossSample/8]
		}
	}
	moments, failed := 0, 0
	for _, c := range cases {
		m, f := c.run(t)
		moments, failed = moments+m, failed+f
	}
	t.Logf("%d operations, lost at %d moments, of which %d ended the operation", len(cases), moments, failed)
	if failed == 0 {
		t.Error("the loss of a participant was never noticed")
	}
}

// run loses the victim at every moment, and says how many there were and how many
// losses ended the operation.
func (c *lossCase) run(t *testing.T) (moments, failed int) {
	t.Helper()
	m := gpus(len(c.Ranks))
	built := func(s collective.Spec) *graph.Graph {
		t.Helper()
		g, err := plan(t, m, s).Graph()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	simulate := func(g *graph.Graph, rec *trace.Recorder, faults ...sim.Fault) sim.RunResult {
		t.Helper()
		config := sim.Config{Machine: m, Jobs: []sim.Job{{Graph: g}}, Faults: faults}
		config.Trace = rec
		res, err := sim.Run(config)
		if err != nil {
			t.Fatalf("%+v with %v: %v", c, faults, err)
		}
		return res.Runs[0]
	}
	g := built(c.Spec)
	rec := trace.NewRecorder(1 << 14)
	if r := simulate(g, rec); r.Err != nil {
		t.Fatalf("%+v: %v", c, r.Err)
	}
	var at []time.Duration
	works := false
	for _, e := range rec.Events() {
		switch e.Kind {
		case trace.Missing:
			t.Fatalf("%+v: the recorder is too small", c)
		case trace.Exec:
			works = works || e.Device == c.victim
		case trace.Copy:
		default:
			continue
		}
		at = append(at, e.Start, e.End)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	for _, when := range at {
		lose := sim.Fault{At: when, Kind: sim.Lose, Device: c.victim}
		back := sim.Fault{At: when + 50*time.Microsecond, Kind: sim.Back, Device: c.victim}
		if r := simulate(g, nil, lose, back); r.Err != nil {
			t.Errorf("%+v, lost after %v and back: %v", c, when, r.Err)
		}
		r := simulate(g, nil, lose)
		switch {
		case r.Err == nil && works && when == 0:
			t.Errorf("%+v, lost at once: nobody noticed", c)
		case r.Err != nil && !errors.Is(r.Err, engine.ErrNoDevice):
			t.Errorf("%+v, lost after %v: %v", c, when, r.Err)
		case r.Err != nil:
			failed++
		}
	}
	if n := len(c.Ranks); n > 1 {
		s := c.Spec
		s.Ranks = slices.Clone(s.Ranks)
		s.Ranks[c.victim] = (c.victim + 1) % machine.DeviceID(n)
		if r := simulate(built(s), nil, sim.Fault{Kind: sim.Lose, Device: c.victim}); r.Err != nil {
			t.Errorf("%+v on the devices left: %v", c, r.Err)
		}
	}
	return len(at), failed
}

// How close all-reduce comes to what the links allow on machines nobody here
// has: simulated, so exact to the nanosecond.
func TestBandwidthOfMachines(t *testing.T) {
	var got strings.Builder
	fmt.Fprintln(&got, "# simulated: all-reduce of f32 against the bound 2(n-1)/n bytes over the widest link")
	machines := []string{"2xh100", "4xh100", "8xh100", "16xh100", "4x5070-ring", "8x5070-hier"}
	if testing.Short() {
		machines = machines[:2]
	}
	for _, name := range machines {
		m, ok := machine.Named(name)
		if !ok {
			t.Fatalf("no machine %s", name)
		}
		n := 0 // GPUs, which come first
		for n < len(m.Devices) && !m.Devices[n].HostMemory {
			n++
		}
		for _, bytes := range []int64{64 << 10, 4 << 20, 256 << 20, 1 << 30} {
			for _, algorithm := range append([]string{""}, collective.Algorithms()...) {
				if algorithm != "" && bytes != 1<<30 {
					continue
				}
				p := plan(t, m, collective.Spec{Op: collective.OpAllReduce, Ranks: ranks(n), Count: bytes / 4, Type: collective.F32, Algorithm: algorithm})
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
					name, text.FormatSize(bytes), chosen, p.Spec.Pieces, took, p.Predicted, 100*p.Bound().Seconds()/took.Seconds())
			}
		}
	}
	const file = "testdata/bandwidth.txt"
	if *rewrite && !testing.Short() {
		if err := os.WriteFile(file, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) && !(testing.Short() && strings.HasPrefix(string(want), got.String())) {
		t.Errorf("got\n%s\nwant\n%s\n(-rewrite to accept)", got.String(), want)
	}
}
