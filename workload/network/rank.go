package network

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// rankOnDevices takes a step of PageRank for blocks of rows. A node gives rank along its edges. The
// arguments are the bounds of the blocks, the starts of their rows, the nodes that edges come from,
// weights of edges, the rank that every node gave along an edge of weight one in the step before, the
// share of its rank that each node of the rows gives along such an edge, the rank that it gives now,
// and for each block the sum of the changes of its ranks in the last step.
var rankOnDevices = workload.With(graph.GoKernel("network.rank", 1),
	workload.PTX(ptx, "network_rank", 128), workload.SPIRV(spirv, "network_rank", 64))

// rankParams are the parameters of rankOnDevices.
type rankParams struct {
	blocks   int     // of this task
	first    int     // row of this task
	rows     int     // of this task
	all      int     // nodes
	weighted uint32  // whether edges have weights
	last     uint32  // whether it is the last step, whose changes are summed
	damping  float64 // probability to follow an edge
}

var rankKernel = signature.Of(signature.Kernel{
	Name: rankOnDevices.Name, Does: "a step of PageRank for blocks of rows of a graph", Grid: "blocks", Per: []uint32{1},
	Args: []signature.Arg{
		signature.In("bounds", graph.U4), signature.In("starts", graph.U4), signature.In("columns", graph.U4), signature.In("weights", graph.F8),
		signature.In("given", graph.F8), signature.In("shares", graph.F8), signature.Out("given now", graph.F8), signature.Out("changes", graph.F8),
	},
}, func(_ *weft.Call, p rankParams) (n signature.Need, err error) {
	if int64(p.first)+int64(p.rows) > int64(p.all) {
		return n, fmt.Errorf("rows %d to %d of %d", p.first, p.first+p.rows, p.all)
	}
	n.Items = int64(p.blocks)
	rows := int64(p.rows)
	n.Elements = [12]int64{int64(p.blocks) + 1, rows + 1, 0, 0, int64(p.all), rows, rows, int64(p.blocks)}
	return n, signature.Positive([]string{"blocks", "rows", "all"}, p.blocks, p.rows, p.all)
}, func(c *weft.Call, p rankParams, lo, hi int) {
	m := view(c, p.blocks, p.rows)
	weights := weft.View[float64](c.Args[3])
	given, shares := weft.View[float64](c.Args[4])[:p.all], weft.View[float64](c.Args[5])
	to, changes := weft.View[float64](c.Args[6]), weft.View[float64](c.Args[7])
	for b := lo; b < hi && !c.Stopped(); b++ {
		from, end, ok := m.block(b)
		if ok = ok && m.ordered(from, end); ok && from < end {
			out, share := to[from:end], shares[from:end]
			if p.weighted == 0 {
				ok = gather(out, share, m.starts[from:end+1], m.columns, given, p.damping, m.starts[0])
			} else if ok = int(m.starts[end]-m.starts[0]) <= len(weights); ok {
				ok = m.weigh(out, share, from, weights, given, p.damping)
			}
		}
		if !ok {
			c.Fail(fmt.Errorf("block %d has rows or edges outside of the graph", b))
			return
		}
		change := 0.
		if p.last != 0 {
			for row := from; row < end; row++ {
				diff := to[row] - given[p.first+row]
				change += max(diff, -diff) / shares[row]
			}
		}
		changes[b] = change
	}
})

// rowsOf holds the rows of a task: bounds of blocks, starts of rows, and columns. Bounds and starts
// are relative to the first of each.
type rowsOf struct{ bounds, starts, columns []uint32 }

// view returns the rows that are the first arguments of a call.
func view(c *weft.Call, blocks, rows int) rowsOf {
	return rowsOf{weft.View[uint32](c.Args[0])[:blocks+1], weft.View[uint32](c.Args[1])[:rows+1], weft.View[uint32](c.Args[2])}
}

// block returns the rows of a block, and whether they are rows of the task.
func (m *rowsOf) block(b int) (from, end int, ok bool) {
	from, end = int(m.bounds[b]-m.bounds[0]), int(m.bounds[b+1]-m.bounds[0])
	return from, end, from <= end && end < len(m.starts)
}

// row returns the columns of a row and where they begin, and whether they are there.
func (m *rowsOf) row(i int) (columns []uint32, first int, ok bool) {
	from, end := int(m.starts[i]-m.starts[0]), int(m.starts[i+1]-m.starts[0])
	if from > end || end > len(m.columns) {
		return nil, 0, false
	}
	return m.columns[from:end], from, true
}

// ordered reports whether the rows from one to another have starts in order, and columns to the end.
func (m *rowsOf) ordered(from, end int) bool {
	before := m.starts[0]
	for _, s := range m.starts[from : end+1] {
		if s < before {
			return false
		}
		before = s
	}
	return int(before-m.starts[0]) <= len(m.columns)
}

// gatherScalar is gather without vectors: eight sums for each row, which are added in pairs. A node
// gives the share of one and of the damped sum of its row.
func gatherScalar(to, shares []float64, starts, columns []uint32, x []float64, damping float64, base uint32) bool {
	for i := range to {
		row := columns[starts[i]-base : starts[i+1]-base]
		var s [8]float64
		for len(row) > 0 {
			n := min(8, len(row))
			for k, c := range row[:n] {
				if uint(c) >= uint(len(x)) {
					return false
				}
				s[k] += x[c]
			}
			row = row[n:]
		}
		sum := ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
		to[i] = (1 + float64(damping*sum)) * shares[i]
	}
	return true
}

// weigh is gather with weights, for rows from one on.
func (m *rowsOf) weigh(to, shares []float64, from int, weights, x []float64, damping float64) bool {
	for i := range to {
		columns, first, ok := m.row(from + i)
		if !ok {
			return false
		}
		sum := 0.
		of := weights[first:][:len(columns)]
		for k, c := range columns {
			if uint(c) >= uint(len(x)) {
				return false
			}
			sum += float64(of[k] * x[c])
		}
		to[i] = (1 + float64(damping*sum)) * shares[i]
	}
	return true
}

// rankingJob is the PageRank of one graph.
//
// Steps do not keep the sum of ranks at one. A walk goes from a node without edges to any node, with
// the same probabilities as it begins, so that such nodes only multiply all ranks by one factor.
// Steps leave that factor out, and ranks are divided by their sum at the end: no step needs a sum
// over all nodes.
//
// Kernels have nodes in the order of the numbers of edges that lead to them. Rows of equal length are
// then side by side, so that a processor predicts where each ends, and the ranks that are read most
// often lie close together.
type rankingJob struct {
	workload.Stop

	c       Config
	graph   *Graph   // as it was given
	in      *Graph   // with edges turned round, and nodes in order
	place   []uint32 // of each node of graph among those of in
	bounds  []uint32
	devices int

	columns []uint32  // of edges, and one more, so that a row without edges at the end begins inside
	weights []float64 // of edges, and one more
	shares  []float64
	start   []float64 // rank that nodes give along an edge of weight one, before the first step
	// given and before are that rank after the last step and after the one before it.
	given, before []float64
	changes       []float64 // of blocks in the last step
	ranks         []float64
	misses        []workload.Miss
}

func newRankJob(c Config) (*rankingJob, error) {
	g, err := c.graph()
	if err != nil {
		return nil, err
	}
	if c.Undirected {
		g = g.Undirected()
	}
	return rankJob(c, g)
}

func rankJob(c Config, g *Graph) (*rankingJob, error) {
	if err := g.weighable(); err != nil {
		return nil, err
	}
	n := g.Rows()
	j := &rankingJob{c: c, graph: g, devices: 1}
	j.in, j.place = g.Transposed().byLength()
	j.bounds = blocks(j.in.Starts)
	j.columns, j.weights = append(j.in.Columns, 0), append(j.in.Values, 0)
	j.shares, j.start, j.given, j.before = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i, p := range j.place {
		j.shares[p] = 1 / g.out(i)
		j.start[p] = j.shares[p] / (1 - c.Damping)
	}
	j.changes = make([]float64, j.blocks())
	return j, nil
}

// out is the weight of all edges from a node, or one if it has none: the rank that such a node gives is
// never read.
func (g *Graph) out(i int) float64 {
	columns, values := g.Row(i)
	sum := float64(len(columns))
	if values != nil {
		sum = 0
		for _, v := range values {
			sum += v
		}
	}
	if sum == 0 {
		return 1
	}
	return sum
}

func (j *rankingJob) blocks() int { return len(j.bounds) - 1 }

// Name names the graph.
func (j *rankingJob) Name() string {
	return fmt.Sprintf("network PageRank of %s, %s, %s", j.graph.Name, j.graph.edges(), text.Count(j.c.Steps, "step"))
}

// Class is R: sums are taken over rows and blocks, which do not depend on devices.
func (j *rankingJob) Class() workload.Class { return workload.RowExact }

// spread says which rows and edges belong to each block.
type spread struct {
	bounds, starts []uint32
}

// rows returns the rows of some blocks.
func (s spread) rows(lo, hi int64) sched.Range {
	return sched.Range{Lo: int64(s.bounds[lo]), Hi: int64(s.bounds[hi])}
}

// edges returns the edges of some blocks.
func (s spread) edges(lo, hi int64) sched.Range {
	r := s.rows(lo, hi)
	return sched.Range{Lo: int64(s.starts[r.Lo]), Hi: int64(s.starts[r.Hi])}
}

// slice returns the use of the part of data that belongs to a range, with each bytes per element, and
// more elements behind it.
func slice(d graph.DataID, a graph.Access, r sched.Range, each, more int64) graph.Use {
	return graph.Use{Data: d, Access: a, Offset: each * r.Lo, Bytes: each * (r.Len() + more)}
}

func (j *rankingJob) spread() spread { return spread{j.bounds, j.in.Starts} }

// Items are the blocks of rows. They have about as many edges each.
func (j *rankingJob) Items() sched.Items {
	s, steps := j.spread(), int64(j.c.Steps)
	each := int64(4) // bytes of an edge
	if j.in.Values != nil {
		each = 12
	}
	return sched.Items{
		Extent: int64(j.blocks()),
		// Each device gets one task per step, since all tasks of a step wait for all tasks of the one before.
		Grain: int64((j.blocks() + j.devices - 1) / j.devices),
		Cost:  func(lo, hi int64) float64 { return cost(j.work(lo, hi)) },
		Bytes: func(lo, hi int64) (in, out int64) {
			if lo == hi {
				return 0, 0
			}
			return each*s.edges(lo, hi).Len() + 8*steps*int64(j.in.Rows()), 8 * steps * s.rows(lo, hi).Len()
		},
	}
}

// work is the operations and bytes of a step for some blocks, in which a row is as much as some
// edges.
func (j *rankingJob) work(lo, hi int64) graph.Work {
	s := j.spread()
	edges := float64(s.edges(lo, hi).Len() + rowWork*s.rows(lo, hi).Len())
	bytes := 12 * edges
	if j.in.Values != nil {
		bytes += 8 * edges
	}
	return graph.Work{Ops: 2 * edges, Bytes: bytes, Unit: graph.FP64}
}

// cost combines operations and bytes in one number: a core does about four operations in the time that
// a byte from memory takes.
func cost(w graph.Work) float64 { return w.Ops + 4*w.Bytes }

// Place remembers how many devices there are.
func (j *rankingJob) Place(m *machine.Machine) error {
	on, err := workload.Able(m, rankOnDevices)
	j.devices = len(on)
	return err
}

// Whole is all steps as one task.
func (j *rankingJob) Whole() graph.Task {
	t := j.task(0, int64(j.blocks()), 0)
	one := t.Steps[0]
	for range j.c.Steps - 1 {
		t.Steps = append(t.Steps, one)
	}
	t.Work.Ops *= float64(j.c.Steps)
	t.Work.Bytes *= float64(j.c.Steps)
	return t
}

func (j *rankingJob) task(lo, hi int64, step int) graph.Task {
	rows := j.spread().rows(lo, hi)
	p := rankParams{blocks: int(hi - lo), first: int(rows.Lo), rows: int(rows.Len()), all: j.in.Rows(), damping: j.c.Damping}
	if j.in.Values != nil {
		p.weighted = 1
	}
	if step == j.c.Steps-1 {
		p.last = 1
	}
	return graph.Task{
		Name:  fmt.Sprintf("step %d of rows %d-%d", step, rows.Lo, rows.Hi),
		Steps: []graph.Step{graph.Step{Kernel: rankOnDevices, Launch: graph.Grid(hi - lo)}.With(p)},
		Work:  j.work(lo, hi),
	}
}

// Graph has a task for each step and range of blocks. A task reads what all nodes give, which the
// tasks of the step before wrote.
func (j *rankingJob) Graph(ranges []sched.Range) (*graph.Graph, error) {
	b := graph.Builder{Stop: j.Stopped}
	n, count := int64(j.in.Rows()), int64(j.blocks())
	bounds := b.Data(graph.Data{Name: "bounds", Bytes: 4 * (count + 1), Input: true})
	starts := b.Data(graph.Data{Name: "starts", Bytes: 4 * (n + 1), Input: true})
	columns := b.Data(graph.Data{Name: "columns", Bytes: 4 * int64(len(j.columns)), Input: true})
	weights := b.Data(graph.Data{Name: "weights", Bytes: 8 * int64(len(j.weights)), Input: true})
	shares := b.Data(graph.Data{Name: "shares", Bytes: 8 * n, Input: true})
	start := b.Data(graph.Data{Name: "start", Bytes: 8 * n, Input: true})
	changes := b.Data(graph.Data{Name: "changes", Bytes: 8 * int64(len(j.changes)), Output: true})
	// Steps write to each of two in turn; the last writes to the first.
	var given [2]graph.DataID
	for i, name := range []string{"given", "before"} {
		given[i] = b.Data(graph.Data{Name: name, Bytes: 8 * n, Output: i == 0 || j.c.Steps > 1})
	}
	s := j.spread()
	for step := range j.c.Steps {
		to := (j.c.Steps - 1 - step) % 2
		from := given[1-to]
		if step == 0 {
			from = start
		}
		for _, r := range ranges {
			t := j.task(r.Lo, r.Hi, step)
			rows, edges := s.rows(r.Lo, r.Hi), s.edges(r.Lo, r.Hi)
			weight := slice(weights, graph.Read, edges, 8, 1)
			if j.in.Values == nil {
				weight = graph.Use{Data: weights, Access: graph.Read}
			}
			t.Uses = []graph.Use{
				slice(bounds, graph.Read, r, 4, 1), slice(starts, graph.Read, rows, 4, 1), slice(columns, graph.Read, edges, 4, 1), weight,
				{Data: from, Access: graph.Read}, slice(shares, graph.Read, rows, 8, 0),
				slice(given[to], graph.Write, rows, 8, 0), slice(changes, graph.Write, r, 8, 0),
			}
			b.Add(t)
		}
	}
	return b.Build()
}

// Bind ties the graph and the ranks to the job's memory.
func (j *rankingJob) Bind() []weft.Binding {
	out := []weft.Binding{
		weft.Bind("bounds", j.bounds), weft.Bind("starts", j.in.Starts), weft.Bind("columns", j.columns), weft.Bind("weights", j.weights),
		weft.Bind("shares", j.shares), weft.Bind("start", j.start), weft.Bind("given", j.given), weft.Bind("changes", j.changes),
	}
	if j.c.Steps > 1 {
		out = append(out, weft.Bind("before", j.before))
	}
	return out
}

// Given returns the rank that each node gives along an edge of weight one after the last step, in the
// job's own memory and order: its rank, up to a common factor, divided by the weight of its edges.
func (j *rankingJob) Given() []float64 { return j.given }

// Ranks are the ranks of all nodes, which have a sum of one.
func (j *rankingJob) Ranks() []float64 {
	j.ranks = slices.Grow(j.ranks[:0], len(j.given))
	sum := 0.
	for _, p := range j.place {
		rank := j.given[p] / j.shares[p]
		j.ranks = append(j.ranks, rank)
		sum += rank
	}
	for i := range j.ranks {
		j.ranks[i] /= sum
	}
	return j.ranks
}

// Residual is the sum of the changes of ranks in the last step, relative to the sum of ranks. The sum
// of the errors of all ranks is at most twice the residual, divided by 1 - damping.
func (j *rankingJob) Residual() float64 {
	change, sum := 0., 0.
	for _, c := range j.changes {
		change += c
	}
	for i, g := range j.given {
		sum += g / j.shares[i]
	}
	return change / sum
}

// Unfinished is the reason why ranks are not as exact as was asked for.
func (j *rankingJob) Unfinished() error {
	if r := j.Residual(); !(r <= j.c.Tolerance) {
		return fmt.Errorf("%s: the residual is %.3g, and %.3g was asked for: %w", j.Name(), r, j.c.Tolerance, ErrUnfinished)
	}
	return nil
}

// Rate is edges a second.
func (j *rankingJob) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f M edges/s", float64(j.in.Nonzeros())*float64(j.c.Steps)/d.Seconds()/1e6)
}

// Summary is the nodes with the highest ranks, and the residual.
func (j *rankingJob) Summary() string {
	ranks := j.Ranks()
	return fmt.Sprintf("residual %.3g, highest ranks %s", j.Residual(), highest(ranks, 3))
}

// highest says which nodes have the highest numbers, as in "5: 0.25, 7: 0.12".
func highest(of []float64, count int) string {
	var best []int
	for i, x := range of {
		if len(best) == count && !(x > of[best[count-1]]) {
			continue
		}
		at := slices.IndexFunc(best, func(b int) bool { return x > of[b] })
		if at < 0 {
			at = len(best)
		}
		best = slices.Insert(best, at, i)
		best = best[:min(len(best), count)]
	}
	var out []string
	for _, b := range best {
		out = append(out, fmt.Sprintf("%d: %.6g", b, of[b]))
	}
	return strings.Join(out, ", ")
}
