package collective_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// cpus is n devices in one memory, gpus n with memories of their own on two
// switches.
func cpus(n int) *machine.Machine {
	m := &machine.Machine{Name: "cpus"}
	for i := range n {
		m.Devices = append(m.Devices, machine.Device{
			Name: fmt.Sprint("cpu:", i), Backend: "cpu", HostMemory: true,
			Rates: machine.Rates{MemoryBPS: 10e9, LaunchNS: 1000},
		})
	}
	return m
}

func gpus(n int) *machine.Machine {
	m := &machine.Machine{Name: "gpus"}
	for i := range n {
		m.Devices = append(m.Devices, machine.Device{
			Name: fmt.Sprint("cuda:", i), Kind: machine.Discrete, Backend: "cuda", MemBytes: 1 << 30,
			Rates: machine.Rates{MemoryBPS: 1e12, LaunchNS: 5000},
		})
		m.Links = append(m.Links, machine.Link{A: machine.DeviceID(i), B: machine.Host, BPS: 20e9, LatencyNS: 9000})
		for j := range i {
			if i%2 == j%2 { // the others meet in host memory
				m.Links = append(m.Links, machine.Link{A: machine.DeviceID(j), B: machine.DeviceID(i), Kind: machine.NVLink, BPS: 100e9, LatencyNS: 3000})
			}
		}
	}
	return m
}

func ranks(n int) (out []machine.DeviceID) {
	for i := range n {
		out = append(out, machine.DeviceID(i))
	}
	return out
}

func plan(t *testing.T, m *machine.Machine, s collective.Spec) *collective.Plan {
	t.Helper()
	p, err := collective.NewPlan(m, machine.NewRoofline(m), s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var funcs = collective.Funcs()

// perform runs the tasks of a graph one after the other by their Go functions.
func perform(t *testing.T, g *graph.Graph, inputs map[string][]byte) map[string][]byte {
	t.Helper()
	data := make([][]byte, g.NumData())
	for i := range data {
		d := g.Data(graph.DataID(i))
		// Aligned as weft's buffers are.
		words := make([]uint64, (d.Bytes+7)/8)
		data[i] = weftBytes(words)[:d.Bytes]
		for k := range data[i] {
			data[i][k] = 0xa5 // what nobody wrote must not look like a result
		}
		if d.Input {
			copy(data[i], inputs[d.Name])
		}
	}
	for i := range g.NumTasks() {
		task := g.Task(graph.TaskID(i))
		for s := range task.Steps {
			st := &task.Steps[s]
			c := &weft.Call{Params: st.Params, Launch: st.Launch}
			for _, u := range task.Uses {
				if u.Bytes != task.Uses[0].Bytes {
					t.Fatalf("%s: arrays of %d and %d bytes", task.Name, task.Uses[0].Bytes, u.Bytes)
				}
				c.Args = append(c.Args, data[u.Data][u.Offset:u.Offset+u.Bytes])
			}
			impl := &st.Kernel.Impls[0]
			items := int(impl.Shape(st.Launch).Grid[0])
			funcs[impl.Entry](c, 0, items)
		}
	}
	out := make(map[string][]byte)
	for i := range data {
		if d := g.Data(graph.DataID(i)); d.Output {
			out[d.Name] = data[i]
		}
	}
	return out
}

// weftBytes sees words as bytes.
func weftBytes(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
}

// encode writes a small whole number as an element; decode reads one.
func encode(t collective.Type, x int) []byte {
	switch t {
	case collective.F32:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x)))
	case collective.F64:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(x)))
	case collective.F16:
		return binary.LittleEndian.AppendUint16(nil, uint16(collective.NewHalf(float32(x))))
	case collective.BF16:
		return binary.LittleEndian.AppendUint16(nil, uint16(collective.NewBFloat(float32(x))))
	case collective.I32:
		return binary.LittleEndian.AppendUint32(nil, uint32(int32(x)))
	}
	return binary.LittleEndian.AppendUint64(nil, uint64(int64(x)))
}

func decode(t collective.Type, b []byte) float64 {
	switch t {
	case collective.F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case collective.F64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case collective.F16:
		return float64(collective.Half(binary.LittleEndian.Uint16(b)).Float32())
	case collective.BF16:
		return float64(collective.BFloat(binary.LittleEndian.Uint16(b)).Float32())
	case collective.I32:
		return float64(int32(binary.LittleEndian.Uint32(b)))
	}
	return float64(int64(binary.LittleEndian.Uint64(b)))
}

// value is what rank r has at element i: small enough for sums, and where they
// are multiplied of few enough factors, that no type rounds in any order.
func value(o collective.Fold, r int, i int64) int {
	x := (r*7+int(i)*3)%13 - 6
	if o == collective.Product {
		return []int{1, -1, 1, 2}[(r+int(i))%4] // at most 2³ times 1 of 9
	}
	return x
}

// expected is element i of the whole fold, in plain arithmetic.
func expected(s *collective.Spec, i int64) float64 {
	acc := value(s.Fold, 0, i)
	for r := 1; r < len(s.Ranks); r++ {
		switch x := value(s.Fold, r, i); s.Fold {
		case collective.Product:
			acc *= x
		case collective.Max:
			acc = max(acc, x)
		case collective.Min:
			acc = min(acc, x)
		default:
			acc += x
		}
	}
	if s.Fold != collective.Average {
		return float64(acc)
	}
	n := len(s.Ranks)
	switch s.Type {
	case collective.I32, collective.I64:
		return float64(acc / n)
	case collective.F64:
		return float64(acc) / float64(n)
	case collective.F32:
		return float64(float32(acc) / float32(n))
	case collective.F16:
		return float64(collective.NewHalf(float32(acc) / float32(n)).Float32())
	}
	return float64(collective.NewBFloat(float32(acc) / float32(n)).Float32())
}

// brought is what rank r brings, gets what it must get, element by element.
func brought(s *collective.Spec, r int) (out []byte) {
	first := int64(0)
	if s.Op == collective.OpAllGather {
		first, _ = blockOf(s, r)
	}
	for i := range s.InCount(r) {
		out = append(out, encode(s.Type, value(s.Fold, r, first+i))...)
	}
	return out
}

// blockOf is the block of a rank.
func blockOf(s *collective.Spec, r int) (lo, hi int64) {
	if s.Ends == nil {
		return collective.Cut(s.Count, len(s.Ranks), r)
	}
	ends := append([]int64{0}, s.Ends...)
	return ends[r], ends[r+1]
}

func gets(s *collective.Spec, r int, i int64) float64 {
	n := len(s.Ranks)
	switch s.Op {
	case collective.OpReduceScatter:
		first, _ := blockOf(s, r)
		return expected(s, first+i)
	case collective.OpBroadcast, collective.OpSend:
		return float64(value(s.Fold, s.Root, i))
	case collective.OpAllGather:
		for from := range n {
			if lo, hi := blockOf(s, from); i >= lo && i < hi {
				return float64(value(s.Fold, from, i))
			}
		}
	case collective.OpAllToAll:
		lo, hi := blockOf(s, r)
		from := i / (hi - lo)
		return float64(value(s.Fold, int(from), lo+i%(hi-lo)))
	}
	return expected(s, i)
}

// verify performs a plan and compares what every rank gets with the reference.
func verify(t *testing.T, p *collective.Plan) {
	t.Helper()
	s := &p.Spec
	name := fmt.Sprintf("%v %v %v of %d over %d by %s in %d", s.Op, s.Fold, s.Type, s.Count, len(s.Ranks), s.Algorithm, s.Pieces)
	g, err := p.Graph()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	in := make(map[string][]byte)
	for r := range s.Ranks {
		in[collective.InName(r)] = brought(s, r)
	}
	out := perform(t, g, in)
	size := s.Type.Size()
	for r := range s.Ranks {
		got := out[collective.OutName(r)]
		if int64(len(got)) != s.OutCount(r)*size {
			t.Fatalf("%s: rank %d gets %d bytes, want %d elements", name, r, len(got), s.OutCount(r))
		}
		for i := range s.OutCount(r) {
			if x, want := decode(s.Type, got[i*size:]), gets(s, r, i); x != want {
				t.Fatalf("%s: element %d of rank %d is %v, want %v", name, i, r, x, want)
			}
		}
	}
}

// Every operation by every algorithm, for every type, on one to nine devices in
// one memory and in several, with sizes that do not fit, is what a plain loop
// gives. Numbers are such that no order rounds, so all must agree bit by bit.
func TestOperations(t *testing.T) {
	for k, machine := range []func(int) *machine.Machine{cpus, gpus} {
		for n := 1; n <= 9; n++ {
			if testing.Short() && n > 4 {
				break
			}
			m := machine(n)
			for op := range collective.Op(collective.NumOps) {
				for _, algorithm := range collective.Algorithms() {
					if (op == collective.OpAllToAll || op == collective.OpSend) && algorithm != "direct" || op == collective.OpSend && n == 1 {
						continue
					}
					for typ := range collective.Type(collective.NumTypes) {
						if k > 0 && int(typ) != n%collective.NumTypes {
							continue // routes, which differ from those above, know no types
						}
						for o := range collective.Fold(collective.NumFolds) {
							if !op.Folds() && o > 0 || op == collective.OpBarrier && typ > 0 {
								continue
							}
							for _, count := range []int64{0, 1, int64(n) - 1, 2*int64(n) + 3} {
								// All reductions at one size, one of them at the others.
								if op.Folds() && count <= int64(n) && int(o) != (n+int(typ))%collective.NumFolds {
									continue
								}
								verify(t, plan(t, m, collective.Spec{
									Op: op, Ranks: ranks(n), Count: count, Type: typ, Fold: o, Algorithm: algorithm,
									Root: n / 2, Pieces: 1 + int(count)%3,
								}))
							}
						}
					}
				}
			}
		}
	}
}

// Blocks of any size, also none, in place of equal ones.
func TestOwnBlocks(t *testing.T) {
	for _, op := range []collective.Op{collective.OpAllGather, collective.OpReduceScatter, collective.OpAllToAll} {
		for _, algorithm := range collective.Algorithms() {
			if op == collective.OpAllToAll && algorithm != "direct" {
				continue
			}
			for _, m := range []*machine.Machine{cpus(4), gpus(4)} {
				for _, ends := range [][]int64{{0, 0, 0, 41}, {1, 1, 40, 41}, {7, 14, 30, 41}, {41, 41, 41, 41}} {
					verify(t, plan(t, m, collective.Spec{Op: op, Ranks: ranks(4), Count: 41, Ends: ends, Type: collective.I32, Algorithm: algorithm, Pieces: 2}))
				}
			}
		}
	}
}

// Blocks that begin at any byte and are larger than what a kernel takes at once.
func TestLargeVectors(t *testing.T) {
	for _, algorithm := range collective.Algorithms() {
		for _, m := range []*machine.Machine{cpus(3), gpus(3)} {
			verify(t, plan(t, m, collective.Spec{Op: collective.OpAllReduce, Ranks: ranks(3), Count: 3*collective.ItemElements + 7, Type: collective.F32, Algorithm: algorithm}))
		}
	}
}

// A vector is cut into as few pieces as launches can count. Nothing of it is made.
func TestPiecesOfALaunch(t *testing.T) {
	const most = 1 << 30 // elements of a launch
	for _, c := range []struct {
		op    collective.Op
		count int64
		tasks int
	}{
		{collective.OpSend, 1, 1},
		{collective.OpSend, most - 1, 1},
		{collective.OpSend, most, 1},
		{collective.OpSend, most + 1, 2},
		{collective.OpSend, 2 * most, 2},
		{collective.OpAllToAll, 2 * most, 4},
		{collective.OpAllToAll, 2*most + 2, 8},
	} {
		p := plan(t, gpus(2), collective.Spec{Op: c.op, Ranks: ranks(2), Count: c.count, Peer: 1, Pieces: 1})
		g, err := p.Graph()
		if err != nil {
			t.Fatal(err)
		}
		if g.NumTasks() != c.tasks {
			t.Errorf("%v of %d elements: %d tasks, want %d", c.op, c.count, g.NumTasks(), c.tasks)
		}
		for i := range g.NumTasks() {
			if grid := g.Task(graph.TaskID(i)).Steps[0].Launch.Grid[0]; grid > most {
				t.Errorf("%v of %d elements: a launch of %d", c.op, c.count, grid)
			}
		}
	}
}

// free is a cost model of a machine on which nothing takes time.
type free struct{}

func (free) Task(*graph.Task, machine.DeviceID) machine.Estimate { return machine.Estimate{} }
func (free) Copy(int64, machine.DeviceID, machine.DeviceID) machine.Estimate {
	return machine.Estimate{}
}
func (free) Epoch() uint64 { return 0 }

// Of plans that are predicted to end at the same time the first is taken: by the first
// algorithm, in one piece.
func TestEqualPlans(t *testing.T) {
	for _, m := range []*machine.Machine{cpus(4), gpus(4)} {
		for _, algorithm := range append(collective.Algorithms(), "") {
			p, err := collective.NewPlan(m, free{}, collective.Spec{Op: collective.OpAllReduce, Ranks: ranks(4), Count: 1 << 24, Algorithm: algorithm})
			if err != nil {
				t.Fatal(err)
			}
			if want := cmp.Or(algorithm, "direct"); p.Spec.Pieces != 1 || p.Spec.Algorithm != want || p.Predicted != 0 {
				t.Errorf("%s: %s in %d pieces, predicted %v; want %s in one", m.Name, p.Spec.Algorithm, p.Spec.Pieces, p.Predicted, want)
			}
		}
	}
}

// Who asks for the library of devices that have one gets it, with all that ranks bring
// and get, be it one element.
func TestNativeAsked(t *testing.T) {
	m := gpus(2)
	for i := range m.Devices {
		m.Devices[i].Joins = "nccl"
	}
	for _, asked := range []string{collective.Native, ""} {
		for op, uses := range map[collective.Op]int{collective.OpAllReduce: 4, collective.OpBroadcast: 2} {
			p := plan(t, m, collective.Spec{Op: op, Ranks: ranks(2), Count: 1, Algorithm: asked, Communicator: 1})
			if p.Spec.Algorithm != collective.Native {
				t.Errorf("asked for %q, got %s", asked, p.Spec.Algorithm)
			}
			g, err := p.Graph()
			if err != nil {
				t.Fatal(err)
			}
			if got := g.Task(0).Uses; g.NumTasks() != 1 || len(got) != uses {
				t.Errorf("%v: %d tasks, the first of which uses %v; want %d uses", op, g.NumTasks(), got, uses)
			}
			if got := g.Task(0).Steps[0].Launch.Grid; got != [3]uint32{1, 1, 1} {
				t.Errorf("%v: a launch of %v for one element", op, got)
			}
		}
	}
}

// A device may stand for several ranks, as one does for another that was lost.
func TestRanksShareADevice(t *testing.T) {
	for _, algorithm := range collective.Algorithms() {
		verify(t, plan(t, gpus(4), collective.Spec{
			Op: collective.OpAllReduce, Ranks: []machine.DeviceID{0, 2, 2, 3, 0}, Count: 41, Type: collective.I64, Algorithm: algorithm, Pieces: 2,
		}))
	}
}

// random are vectors whose sums depend on the order.
func random(s *collective.Spec, seed uint64) map[string][]byte {
	r := rand.New(rand.NewPCG(seed, 7))
	in := make(map[string][]byte)
	for rank := range s.Ranks {
		var b []byte
		for range s.Count {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(r.NormFloat64())*float32(math.Exp2(float64(r.IntN(20))))))
		}
		in[collective.InName(rank)] = b
	}
	return in
}

// sumIn adds vectors element by element in an order of ranks that may depend on
// the element.
func sumIn(s *collective.Spec, in map[string][]byte, order func(i int64) []int) []byte {
	var out []byte
	for i := range s.Count {
		at := func(r int) float32 {
			return math.Float32frombits(binary.LittleEndian.Uint32(in[collective.InName(r)][4*i:]))
		}
		ranks := order(i)
		acc := at(ranks[0])
		for _, r := range ranks[1:] {
			acc += at(r)
		}
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(acc))
	}
	return out
}

// What folds in the order of ranks gives the bits of a loop over ranks, on any
// machine and however it is cut; what does not gives the same bits for any cut.
func TestOrder(t *testing.T) {
	for _, n := range []int{2, 3, 5, 8} {
		s := collective.Spec{Op: collective.OpAllReduce, Ranks: ranks(n), Count: 513, Type: collective.F32}
		in := random(&s, uint64(n))
		forward := make([]int, n)
		for i := range forward {
			forward[i] = i
		}
		want := sumIn(&s, in, func(int64) []int { return forward })
		sum := func(m *machine.Machine, algorithm string, exact bool, pieces int) []byte {
			s := s
			s.Algorithm, s.Exact, s.Pieces = algorithm, exact, pieces
			g, err := plan(t, m, s).Graph()
			if err != nil {
				t.Fatal(err)
			}
			out := perform(t, g, in)
			for r := range n {
				if !bytes.Equal(out[collective.OutName(r)], out[collective.OutName(0)]) {
					t.Fatalf("%s: rank %d has another result than rank 0", algorithm, r)
				}
			}
			return out[collective.OutName(0)]
		}
		for _, m := range []*machine.Machine{cpus(n), gpus(n)} {
			for _, algorithm := range []string{"direct", "chain", ""} {
				for pieces := range 3 {
					if !bytes.Equal(sum(m, algorithm, true, pieces), want) {
						t.Errorf("%d ranks on %s, %q in %d pieces: not the sum in the order of ranks", n, m.Name, algorithm, pieces)
					}
				}
			}
			for _, algorithm := range collective.Algorithms() {
				one := sum(m, algorithm, false, 1)
				if !bytes.Equal(one, sum(m, algorithm, false, 7)) {
					t.Errorf("%d ranks, %s: the result depends on the pieces", n, algorithm)
				}
			}
		}
		// Slice k of a ring begins at rank k.
		ring := sumIn(&s, in, func(i int64) []int {
			k := 0
			for _, hi := alignedCut(s.Count, n, k); i >= hi; _, hi = alignedCut(s.Count, n, k) {
				k++
			}
			return slices.Concat(forward[k:], forward[:k])
		})
		if !bytes.Equal(sum(cpus(n), "ring", false, 1), ring) {
			t.Errorf("%d ranks: slices of the ring do not begin at their rank", n)
		}
	}
}

// alignedCut is where slices of float32 begin: at multiples of 16.
func alignedCut(count int64, n, k int) (int64, int64) {
	at := func(k int) int64 {
		if k == n {
			return count
		}
		lo, _ := collective.Cut(count, n, k)
		return lo / 16 * 16
	}
	return at(k), at(k + 1)
}

func TestMistakes(t *testing.T) {
	m := cpus(2)
	good := collective.Spec{Op: collective.OpAllReduce, Ranks: ranks(2), Count: 8}
	for want, change := range map[string]func(s *collective.Spec){
		"there is no such operation": func(s *collective.Spec) { s.Op = 99 },
		"0 ranks":                    func(s *collective.Spec) { s.Ranks = nil },
		"rank 1 is on device 7 of 2": func(s *collective.Spec) { s.Ranks = []machine.DeviceID{0, 7} },
		"-1 elements":                func(s *collective.Spec) { s.Count = -1 },
		"no element type unknown(9)": func(s *collective.Spec) { s.Type = 9 },
		"no reduction unknown(9)":    func(s *collective.Spec) { s.Fold = 9 },
		"root 2 of 2 ranks":          func(s *collective.Spec) { s.Root = 2 },
		"from rank 0 to rank 0":      func(s *collective.Spec) { s.Op = collective.OpSend },
		"blocks that end at [3 7]":   func(s *collective.Spec) { s.Op, s.Ends = collective.OpAllGather, []int64{3, 7} },
		"blocks of ranks":            func(s *collective.Spec) { s.Ends = []int64{4, 8} },
		"-1 pieces":                  func(s *collective.Spec) { s.Pieces = -1 },
		`unknown algorithm "star"; use one of direct, ring, chain, tree, halving, hierarchical`: func(s *collective.Spec) { s.Algorithm = "star" },
		"not by a library of the devices: cpu:0 has no library":                                 func(s *collective.Spec) { s.Algorithm = collective.Native },
		`"ring"; use one of direct, chain`:                                                      func(s *collective.Spec) { s.Algorithm, s.Exact = "ring", true },
		`by algorithm "tree"; use one of direct`:                                                func(s *collective.Spec) { s.Algorithm, s.Op = "tree", collective.OpAllToAll },
	} {
		s := good
		change(&s)
		if _, err := collective.NewPlan(m, machine.NewRoofline(m), s); !errors.Is(err, collective.ErrSpec) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// The order of maxima does not matter.
	exact := good
	exact.Algorithm, exact.Exact, exact.Fold = "ring", true, collective.Max
	plan(t, m, exact)
	if _, err := collective.ParseOp("gather"); !errors.Is(err, collective.ErrSpec) {
		t.Errorf("an unknown operation gives %v", err)
	}
	for o := range collective.Op(collective.NumOps) {
		if got, err := collective.ParseOp(o.String()); got != o || err != nil {
			t.Errorf("%v reads as %v, %v", o, got, err)
		}
	}
}

// A barrier in a graph keeps what comes after from starting before all have come.
func TestBarrierInAGraph(t *testing.T) {
	const n = 5
	for _, algorithm := range collective.Algorithms() {
		p := plan(t, cpus(n), collective.Spec{Op: collective.OpBarrier, Ranks: ranks(n), Algorithm: algorithm})
		var b graph.Builder
		k := &graph.Kernel{Name: "work", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
		var before [][]graph.TaskID
		for range n {
			before = append(before, []graph.TaskID{b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}})})
		}
		through := p.Add(&b, nil, nil, before...)
		var after []graph.TaskID
		for r := range n {
			after = append(after, b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, After: []graph.TaskID{through[r]}}))
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		for r, a := range after {
			reached := map[graph.TaskID]bool{}
			for open := []graph.TaskID{a}; len(open) > 0; open = open[1:] {
				for _, p := range g.Flow().Preds(open[0]) {
					if id := graph.TaskID(p); !reached[id] {
						reached[id] = true
						open = append(open, id)
					}
				}
			}
			for q := range n {
				if !reached[before[q][0]] {
					t.Errorf("%s: rank %d leaves before rank %d has come", algorithm, r, q)
				}
			}
		}
	}
}

// A library's operation is one task of the devices that take part, and of no other; what it
// moves through the memory of a device is what the largest of them reads and writes.
func TestNativeMembers(t *testing.T) {
	m := gpus(3)
	for i := range m.Devices {
		m.Devices[i].Joins = "nccl"
	}
	for _, c := range []struct {
		s     collective.Spec
		on    []string
		bytes float64
	}{
		{collective.Spec{Op: collective.OpAllReduce, Count: 10, Type: collective.F64}, []string{m.Devices[0].Name, m.Devices[1].Name, m.Devices[2].Name}, 160},
		{collective.Spec{Op: collective.OpSend, Count: 10, Root: 2, Peer: 0}, []string{m.Devices[0].Name, m.Devices[2].Name}, 40},
		{collective.Spec{Op: collective.OpAllGather, Count: 10}, []string{m.Devices[0].Name, m.Devices[1].Name, m.Devices[2].Name}, 4 * (4 + 10)}, // a part of four elements
	} {
		c.s.Ranks, c.s.Algorithm, c.s.Communicator = ranks(3), collective.Native, 1
		g, err := plan(t, m, c.s).Graph()
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Task(0); !slices.Equal(got.On.Only, c.on) || got.Gang != len(c.on) || got.Work.Bytes != c.bytes {
			t.Errorf("%v: %d members on %v, %v bytes; want %v, %v bytes", c.s.Op, got.Gang, got.On.Only, got.Work.Bytes, c.on, c.bytes)
		}
	}
}
