package live

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync/atomic"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// program is a random graph over bytes: what it computes follows from the tasks as they
// were added, which interpret runs one after another.
type program struct {
	g     *graph.Graph
	data  []graph.Data // as declared
	tasks []graph.Task // as added, before the builder adds combining tasks
	bound []int        // residents that stand for data, by data; -1 for none
	need  int64        // memory of the largest task on its device, with everything that it updates twice
	total int64        // all data, with what the builder adds, twice
}

// Kernels of programs. Each writes what follows from its number and the bytes that it reads.
var (
	mixes    = graph.GoKernel("mix")  // one item: every byte depends on all that is read and updated
	widens   = graph.GoKernel("wide") // an item for each byte, so that CPU devices cut it: each depends on all that is read and on what it was
	combines = graph.GoKernel("add")
)

// What a task's kernel does besides, a bit each.
const (
	fragile = 1 << iota // fails now and then, after it has written nonsense
	deadly              // ends its process now and then, where that is a worker
)

// params are the parameters of a step: the task's number, what it does besides, and the access to
// each argument.
func params(id uint64, extra byte, access []graph.Access) []byte {
	p := append(binary.LittleEndian.AppendUint64(nil, id), extra)
	for _, a := range access {
		p = append(p, byte(a))
	}
	return p
}

// compute is what a step does to bytes lo to hi of its arguments; whole says that these are all.
func compute(p []byte, args [][]byte, lo, hi int, whole bool) {
	h := scramble(binary.LittleEndian.Uint64(p))
	access := func(i int) graph.Access { return graph.Access(p[9+i]) }
	for i := range len(p) - 9 {
		if access(i) == graph.Read || whole && access(i) == graph.ReadWrite {
			for _, c := range args[i] {
				h = (h ^ uint64(c) ^ 0x55) * 0x9e3779b97f4a7c15
			}
			h = scramble(h)
		}
	}
	for i := range len(p) - 9 {
		if access(i) == graph.Read {
			continue
		}
		for k := lo; k < min(hi, len(args[i])); k++ {
			v := byte(scramble(h + uint64(i)<<32 + uint64(k)))
			if access(i) == graph.ReadWrite {
				v ^= 3 * args[i][k]
			}
			args[i][k] = v
		}
	}
}

// scramble spreads every bit over all (the finalizer of splitmix64).
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// interpret runs the tasks one after another. mem is the memory of the data.
func (p *program) interpret(mem [][]byte) {
	for i := range p.tasks {
		t := &p.tasks[i]
		type sum struct{ to, part []byte }
		var sums []sum
		for rank := range max(t.Gang, 1) {
			var args [][]byte
			for _, u := range t.Uses {
				if int(u.Rank) != rank {
					continue
				}
				arg := mem[u.Data][u.Offset : u.Offset+u.Bytes]
				if u.Access == graph.Reduce {
					sums = append(sums, sum{arg, make([]byte, u.Bytes)})
					arg = sums[len(sums)-1].part
				}
				args = append(args, arg)
			}
			for _, s := range t.Steps {
				of := args
				if s.Args != nil {
					of = nil
					for _, a := range s.Args {
						of = append(of, args[a])
					}
				}
				compute(s.Params, of, 0, math.MaxInt, s.Kernel == mixes)
			}
		}
		for _, s := range sums {
			for k, c := range s.part {
				s.to[k] += c
			}
		}
	}
}

// kernels count their calls, which decide when one fails: the same bytes come out however
// often they did.
type kernels struct {
	calls    atomic.Uint64
	failures atomic.Int64
	worker   bool // they may end their process
}

// maxFailures is how often kernels of a process fail: a task that failed a few times in a row waits
// for up to a second before the next.
const maxFailures = 6

var errFragile = errors.New("the kernel failed on purpose")

// funcs returns the kernels by name.
func (k *kernels) funcs() map[string]weft.Func {
	return map[string]weft.Func{
		"mix":  func(c *weft.Call, lo, hi int) { k.run(c, lo, math.MaxInt, true) },
		"wide": func(c *weft.Call, lo, hi int) { k.run(c, lo, hi, false) },
		"add": func(c *weft.Call, lo, hi int) {
			for _, a := range c.Args[1:] {
				for i, v := range a[:min(len(a), len(c.Args[0]))] {
					c.Args[0][i] += v
				}
			}
		},
	}
}

func (k *kernels) run(c *weft.Call, lo, hi int, whole bool) {
	args := len(c.Params) - 9
	for _, space := range c.Args[args:] { // workspace, which is the task's own
		for i := lo; i < min(hi, len(space)); i++ {
			space[i] = byte(i)
		}
	}
	chance := scramble(k.calls.Add(1))
	extra := c.Params[8]
	if (extra&fragile != 0 && chance%40 == 0 || extra&deadly != 0 && k.worker && chance%500 == 1) && k.failures.Add(1) <= maxFailures {
		for i, a := range c.Params[9:] {
			for j := lo; graph.Access(a) != graph.Read && j < min(hi, len(c.Args[i])); j++ {
				c.Args[i][j] = byte(chance >> 8)
			}
		}
		switch {
		case chance%40 != 0:
			os.Exit(3)
		case chance%80 == 0:
			panic(errFragile)
		}
		c.Fail(errFragile)
		return
	}
	compute(c.Params, c.Args[:args], lo, hi, whole)
}

// drawProgram makes a graph for a rig. residents may stand for its inputs.
func (g *rig) drawProgram(r *rand.Rand, residents []*resident) *program {
	p := &program{}
	var b graph.Builder
	g.drawData(r, p, &b, residents)
	for range 1 + r.IntN([]int{4, 30, 120}[r.IntN(3)]) {
		if t := p.drawTask(r, g); len(t.Uses) > 0 {
			p.add(r, g, &b, t)
		}
	}
	var err error
	if p.g, err = b.Build(); err != nil {
		panic(fmt.Sprintf("live: a random graph is wrong: %v", err))
	}
	for i := range p.g.NumTasks() {
		t := p.g.Task(graph.TaskID(i))
		n := t.Workspace
		for _, u := range t.Uses {
			n += 2 * u.Bytes
		}
		p.need = max(p.need, n)
	}
	for i := range p.g.NumData() {
		p.total += 2 * p.g.Data(graph.DataID(i)).Bytes
	}
	return p
}

// drawData declares the data. What is no input is written whole by a few tasks first, whose writes
// overlap, so that anything may read any of it.
func (g *rig) drawData(r *rand.Rand, p *program, b *graph.Builder, residents []*resident) {
	free := r.Perm(len(residents))
	for i := range 1 + r.IntN(6) {
		d := graph.Data{
			Name: fmt.Sprint("d", i), Bytes: int64(1 + r.IntN(g.maxBytes)), Input: r.IntN(3) > 0, Output: r.IntN(2) == 0,
			Durability: graph.Durability(r.IntN(2)), Secret: g.secret && r.IntN(4) == 0,
		}
		if r.IntN(8) > 0 {
			d.Tolerance = graph.SameBytes
		}
		if g.volatile && r.IntN(3) == 0 {
			d.Durability = graph.Volatile
		}
		if r.IntN(2) == 0 {
			d.Combine = combines
		}
		bound := -1
		if len(free) > 0 && r.IntN(2) == 0 {
			bound, free = free[0], free[1:]
			d.Input, d.Output, d.Bytes, d.Durability = true, false, int64(len(residents[bound].mem)), graph.Versioned
		}
		p.data, p.bound = append(p.data, d), append(p.bound, bound)
		id := b.Data(d)
		for at := int64(0); !d.Input && at < d.Bytes; {
			n := min(1+r.Int64N(d.Bytes), d.Bytes-at)
			lo := max(0, at-r.Int64N(4))
			p.add(r, g, b, graph.Task{Uses: []graph.Use{{Data: id, Offset: lo, Bytes: at + n - lo, Access: graph.Write}}})
			at += n
		}
	}
}

// drawTask makes a task of up to four data, slices of them mostly.
func (p *program) drawTask(r *rand.Rand, g *rig) graph.Task {
	var t graph.Task
	if g.gangs > 1 && len(p.data) > 2 && r.IntN(8) == 0 {
		p.drawGang(r, g, &t)
	} else {
		for _, d := range r.Perm(len(p.data))[:min(len(p.data), 1+r.IntN(4))] {
			for range 1 + r.IntN(5)/4 {
				if u := p.drawUse(r, d); !clashes(t.Uses, u) {
					t.Uses = append(t.Uses, u)
				}
			}
		}
		if len(g.only) > 0 && r.IntN(8) == 0 {
			t.On.Only = g.only[r.IntN(len(g.only)):][:1]
		}
		if r.IntN(8) == 0 {
			t.On.Hint = g.names[r.IntN(len(g.names))]
		}
	}
	if r.IntN(6) == 0 {
		t.Workspace = int64(1 + r.IntN(g.maxBytes))
	}
	if r.IntN(4) == 0 {
		t.Priority = r.IntN(7) - 3
	}
	if n := len(p.tasks); n > 0 && r.IntN(8) == 0 {
		t.After = []graph.TaskID{graph.TaskID(r.IntN(n))}
	}
	return t
}

// drawGang has every rank read the same and write a part of its own of other data.
func (p *program) drawGang(r *rand.Rand, g *rig, t *graph.Task) {
	order := r.Perm(len(p.data))
	read, wrote := order[0], order[1]
	access := []graph.Access{graph.Write, graph.ReadWrite}[r.IntN(2)]
	size := p.data[wrote].Bytes
	if t.Gang = 2 + r.IntN(g.gangs-1); size < int64(t.Gang) {
		*t = graph.Task{}
		return
	}
	for rank := range int64(t.Gang) {
		lo, hi := rank*size/int64(t.Gang), (rank+1)*size/int64(t.Gang)
		t.Uses = append(t.Uses,
			graph.Use{Data: graph.DataID(read), Bytes: p.data[read].Bytes, Rank: int16(rank)},
			graph.Use{Data: graph.DataID(wrote), Offset: lo, Bytes: hi - lo, Access: access, Rank: int16(rank)})
	}
}

func (p *program) drawUse(r *rand.Rand, d int) graph.Use {
	size := p.data[d].Bytes
	u := graph.Use{Data: graph.DataID(d), Access: graph.Access(r.IntN(3)), Bytes: size}
	if p.data[d].Combine != nil && r.IntN(3) == 0 {
		u.Access = graph.Reduce
	}
	if r.IntN(3) > 0 {
		u.Offset = r.Int64N(size)
		u.Bytes = 1 + r.Int64N(size-u.Offset)
	}
	return u
}

// clashes reports whether a use overlaps one of others and one of both writes: what a task
// then holds there is undefined.
func clashes(others []graph.Use, u graph.Use) bool {
	for _, v := range others {
		if v.Data == u.Data && (v.Access != graph.Read || u.Access != graph.Read) && v.Offset < u.Offset+u.Bytes && u.Offset < v.Offset+v.Bytes {
			return true
		}
	}
	return false
}

// add gives a task its steps and hands it to the builder: one of all its arguments, and sometimes
// another of those that the first has written.
func (p *program) add(r *rand.Rand, g *rig, b *graph.Builder, t graph.Task) {
	id := uint64(len(p.tasks)) + r.Uint64()<<20
	t.Name = fmt.Sprint("t", len(p.tasks))
	var access []graph.Access
	var written []int
	longest := int64(1)
	for i, u := range t.Uses {
		if u.Rank != 0 {
			continue
		}
		access = append(access, u.Access)
		if u.Access != graph.Read {
			written, longest = append(written, i), max(longest, u.Bytes)
		}
	}
	step := graph.Step{Kernel: mixes, Launch: graph.Grid(1), Params: params(id, g.extra, access)}
	if r.IntN(4) == 0 && t.Gang == 0 {
		step.Kernel, step.Launch = widens, graph.Grid(longest)
	}
	t.Steps = []graph.Step{step}
	if len(written) > 0 && t.Gang == 0 && r.IntN(6) == 0 {
		again := make([]graph.Access, len(written))
		for i := range again {
			again[i] = graph.ReadWrite
		}
		t.Steps = append(t.Steps, graph.Step{Kernel: mixes, Launch: graph.Grid(1), Params: params(id+1, 0, again), Args: written})
	}
	if g.extra&fragile != 0 && !g.few {
		t.Retries = 50 // of its own, so that what it reads is compared and it is tried again on cores
	}
	t.Work = graph.Work{Ops: float64(r.IntN(1_000_000)), Bytes: 1000}
	p.tasks = append(p.tasks, t)
	b.Add(t)
}
