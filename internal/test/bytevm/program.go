package bytevm

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weft-run/weft/graph"
)

// program is a random graph over bytes: what it computes follows from the tasks as
// they were added, which reference runs one after another.
type program struct {
	graph *graph.Graph
	data  []graph.Data // as declared, before the builder adds partial results
	tasks []graph.Task // as added, before the builder adds combining tasks
	bound []int        // resident data each handle stands for, -1 for none
	// need is the memory the largest task takes on its device: every use, twice
	// where it is updated, and the workspace. total is all data twice.
	need, total int64
	volatile    bool
	poison      string // a task that never succeeds, "" for none
	work        *Work  // what tasks compute, nil for a random graph
}

var (
	mixing    = &graph.Kernel{Name: "mix", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	combining = &graph.Kernel{Name: "combine", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
)

// maxBytes is the size of the largest handle: small, so that slices overlap often.
const maxBytes = 96

// drawProgram makes a graph. residents may be bound to its inputs.
func drawProgram(r *rand.Rand, t Trait, residents []*resident) *program {
	p := &program{}
	var b graph.Builder
	p.drawData(r, t, &b, residents)
	for range 1 + r.IntN(50) {
		p.add(&b, p.drawTask(r, t))
	}
	if t.has(Poison) && r.IntN(2) == 0 {
		p.poison = p.tasks[r.IntN(len(p.tasks))].Name
	}
	g, err := b.Build()
	if err != nil {
		panic(fmt.Sprintf("bytevm: a random graph is wrong: %v", err))
	}
	p.graph = g
	for i := range g.NumTasks() {
		p.need = max(p.need, taskNeed(g.Task(graph.TaskID(i))))
	}
	for i := range g.NumData() {
		p.total += 2 * g.Data(graph.DataID(i)).Bytes
	}
	return p
}

// drawData declares the handles. One that is no input is written whole by a few
// tasks first, whose writes overlap, so that anything may read any of it.
func (p *program) drawData(r *rand.Rand, t Trait, b *graph.Builder, residents []*resident) {
	n := 1 + r.IntN(7)
	if t.has(Wide) {
		n = 8 + r.IntN(16)
	}
	free := r.Perm(len(residents))
	for i := range n {
		d := graph.Data{
			Name: fmt.Sprint("d", i), Bytes: int64(1 + r.IntN(maxBytes)),
			Input: r.IntN(2) == 0, Output: r.IntN(2) == 0, Durability: graph.Durability(r.IntN(2)),
		}
		d.Secret = (d.Bytes*31+int64(i)*17)%4 == 0 // drawn by no number, so that known seeds are of the same graphs
		if t.has(Volatile) && r.IntN(3) == 0 {
			d.Durability = graph.Volatile
		}
		if r.IntN(2) == 0 {
			d.Combine = combining
		}
		bound := -1
		if len(free) > 0 && r.IntN(2) == 0 {
			bound, free = free[0], free[1:]
			d.Input, d.Bytes, d.Durability = true, int64(len(residents[bound].mem)), residents[bound].kind
		}
		p.volatile = p.volatile || d.Durability == graph.Volatile
		p.data, p.bound = append(p.data, d), append(p.bound, bound)
		id := b.Data(d)
		for at := int64(0); !d.Input && at < d.Bytes; {
			n := min(1+r.Int64N(d.Bytes), d.Bytes-at)
			lo := max(0, at-r.Int64N(4))
			p.add(b, graph.Task{Uses: []graph.Use{{Data: id, Offset: lo, Bytes: at + n - lo, Access: graph.Write}}})
			at += n
		}
	}
}

// drawTask makes a task of up to four handles, slices of them mostly.
func (p *program) drawTask(r *rand.Rand, t Trait) graph.Task {
	var task graph.Task
	if t.has(Gangs) && r.IntN(8) == 0 {
		task.Gang = 2
	}
	for _, d := range r.Perm(len(p.data))[:min(len(p.data), 1+r.IntN(4))] {
		for range 1 + r.IntN(5)/4 {
			if u := p.drawUse(r, d, task.Gang); !clashes(task.Uses, u) {
				task.Uses = append(task.Uses, u)
			}
		}
	}
	if r.IntN(6) == 0 {
		task.Workspace = int64(1 + r.IntN(maxBytes))
	}
	if r.IntN(4) == 0 {
		task.Priority = r.IntN(7) - 3
	}
	if n := len(p.tasks); n > 0 && r.IntN(8) == 0 {
		task.After = []graph.TaskID{graph.TaskID(r.IntN(n))}
	}
	if t.has(FewRetries) && r.IntN(4) == 0 {
		task.Retries = []int{-1, 1, 2, 3}[r.IntN(4)]
	}
	if t.has(Hangs) && r.IntN(4) == 0 {
		task.Timeout = time.Duration(10+r.IntN(40)) * time.Millisecond
	}
	if t.has(Constraints) && task.Gang == 0 {
		switch r.IntN(8) {
		case 0:
			task.On.Only = []string{"cpu"}
		case 1:
			task.On.Only = []string{"cuda"}
		case 2:
			task.On.Hint = "cuda:0"
		}
	}
	return task
}

func (p *program) drawUse(r *rand.Rand, d, gang int) graph.Use {
	size := p.data[d].Bytes
	u := graph.Use{Data: graph.DataID(d), Access: graph.Access(r.IntN(3)), Bytes: size}
	if p.data[d].Combine != nil && r.IntN(3) == 0 {
		u.Access = graph.Reduce
	}
	if r.IntN(3) > 0 {
		u.Offset = r.Int64N(size)
		u.Bytes = 1 + r.Int64N(size-u.Offset)
	}
	if gang > 1 {
		u.Rank = int16(r.IntN(gang))
	}
	return u
}

// clashes reports whether a use overlaps one of others and one of both writes: what
// a task then holds there is undefined.
func clashes(others []graph.Use, u graph.Use) bool {
	for _, v := range others {
		if v.Data == u.Data && (v.Access != graph.Read || u.Access != graph.Read) && v.Offset < u.Offset+u.Bytes && u.Offset < v.Offset+v.Bytes {
			return true
		}
	}
	return false
}

// add gives a task its name, kernel and number and hands it to the builder.
func (p *program) add(b *graph.Builder, t graph.Task) {
	id := len(p.tasks)
	t.Name = fmt.Sprint("t", id)
	t.Steps = []graph.Step{{Kernel: mixing, Launch: graph.Launch{Grid: [3]uint32{1 + uint32(id)%5, 1, 1}}, Params: binary.LittleEndian.AppendUint64(nil, uint64(id))}}
	t.Work = graph.Work{Ops: float64(100_000 * (1 + id%20)), Bytes: 10_000}
	p.tasks = append(p.tasks, t)
	b.Add(t)
}

// taskNeed is the memory a task can take on its device.
func taskNeed(t *graph.Task) int64 {
	n := t.Workspace
	for _, u := range t.Uses {
		n += u.Bytes
		if u.Access == graph.ReadWrite {
			n += u.Bytes
		}
	}
	return n
}

// reference runs the tasks as added, one after another, on what the handles hold.
func (p *program) reference(mem [][]byte) {
	if p.work != nil {
		p.work.reference(mem)
		return
	}
	for id := range p.tasks {
		t := &p.tasks[id]
		type result struct {
			to, bytes []byte
			fold      bool
		}
		var results []result
		for rank := range int16(max(t.Gang, 1)) {
			var args [][]byte
			uses := usesOf(t, rank)
			for _, u := range uses {
				args = append(args, mem[u.Data][u.Offset:u.Offset+u.Bytes])
			}
			for i, out := range mix(uint64(id), uses, args) {
				if out != nil {
					results = append(results, result{args[i], out, uses[i].Access == graph.Reduce})
				}
			}
		}
		for _, r := range results {
			for i, c := range r.bytes {
				if r.fold {
					c += r.to[i]
				}
				r.to[i] = c
			}
		}
	}
}

// usesOf returns the uses of one member of a task.
func usesOf(t *graph.Task, rank int16) (uses []graph.Use) {
	for _, u := range t.Uses {
		if u.Rank == rank {
			uses = append(uses, u)
		}
	}
	return uses
}

// mix is what a task computes: every byte it writes depends on every byte it
// reads, on the task and on the place. The result has nil where a use only reads.
func mix(id uint64, uses []graph.Use, args [][]byte) [][]byte {
	h := scramble(id*77 + 13)
	for i, u := range uses {
		if u.Access == graph.Read || u.Access == graph.ReadWrite {
			for _, c := range args[i] {
				h = scramble(h + uint64(c) + 0x9e37)
			}
		}
	}
	out := make([][]byte, len(uses))
	for i, u := range uses {
		if u.Access == graph.Read {
			continue
		}
		out[i] = make([]byte, len(args[i]))
		for k := range out[i] {
			out[i][k] = byte(scramble(h + uint64(i)*1e6 + uint64(k)))
			if u.Access == graph.ReadWrite {
				out[i][k] ^= 3 * args[i][k]
			}
		}
	}
	return out
}

// combine is what the tasks compute that the builder adds for reductions: the sum
// of all arguments, into the first.
func combine(args [][]byte) [][]byte {
	out := make([][]byte, len(args))
	out[0] = append([]byte(nil), args[0]...)
	for _, a := range args[1:] {
		for i, c := range a {
			out[0][i] += c
		}
	}
	return out
}

// scramble is the finalizer of MurmurHash3, which spreads every bit over all.
func scramble(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
