package elastic

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// job is one network. Blocks of its rows are dealt out.
type job struct {
	workload.Stop

	c         Config
	structure *protein.Structure
	matrix    *network.Matrix
	block     int // rows of a block
	blocks    int
	zeros     int // vectors of the basis that the matrix maps to zero
	steps     int
	devices   int     // that can run it
	width     int     // vectors of the basis
	size      float64 // no eigenvalue is larger

	starts   []uint32  // of the rows, those that fill up the last block included
	vector   []float64 // the first
	basis    []float64 // as params says
	squares  []float64 // for each step, and one more, the sums of squares of its vector
	diagonal []float64 // for each step the sums that make an entry of the tridiagonal matrix
}

// blockRows is the number of rows of a block of a matrix. Small ones let a small matrix be
// dealt out, large ones keep sums short.
func blockRows(rows int) int {
	if rows <= 4096 {
		return 16
	}
	return maxBlock
}

// New reads or makes the structure and its network.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	return newJob(c.withDefaults(), s)
}

func newJob(c Config, s *protein.Structure) (*job, error) {
	matrix, null, err := c.matrix(s)
	if err != nil {
		return nil, err
	}
	n := matrix.Rows()
	j := &job{c: c, structure: s, matrix: matrix, block: blockRows(n), zeros: len(null), steps: c.steps(s.Len()), devices: 1}
	j.blocks = (n + j.block - 1) / j.block
	j.width = j.zeros + j.steps
	rows := j.blocks * j.block
	j.starts = make([]uint32, rows+1)
	for i := range j.starts {
		j.starts[i] = matrix.Starts[min(i, n)]
	}
	j.vector = append(network.Start(n, c.Seed), make([]float64, rows-n)...)
	j.basis = make([]float64, rows*j.width)
	for k, v := range null {
		along := 0.0
		for i, x := range v {
			j.basis[j.at(k, i)] = x
			along += x * j.vector[i]
		}
		for i, x := range v {
			j.vector[i] -= along * x
		}
	}
	for i := range n { // Gershgorin's circles
		_, values := matrix.Row(i)
		sum := 0.0
		for _, v := range values {
			sum += math.Abs(v)
		}
		j.size = max(j.size, sum)
	}
	j.squares = make([]float64, (j.steps+1)*j.blocks)
	for b := range j.blocks {
		own := j.vector[b*j.block:][:j.block]
		dots(j.squares[b:b+1], own, own)
	}
	j.diagonal = make([]float64, j.steps*j.blocks)
	return j, nil
}

// least is the sum of squares up to which a vector is taken as zero.
func (j *job) least() float64 { return 1e-24 * j.size * j.size }

// at returns where a row of a vector is in the basis.
func (j *job) at(vector, row int) int {
	return (row/j.block*j.width+vector)*j.block + row%j.block
}

// Name says of which structure what network is made.
func (j *job) Name() string {
	return fmt.Sprintf("elastic %s %s, %d residues, %d steps", strings.ToUpper(j.c.Network), j.structure.Name, j.structure.Len(), j.steps)
}

// Class is R: sums are taken over blocks, which do not depend on devices.
func (j *job) Class() workload.Class { return workload.RowExact }

// entries is the number of entries in the rows of some blocks.
func (j *job) entries(lo, hi int64) int64 {
	return int64(j.starts[hi*int64(j.block)] - j.starts[lo*int64(j.block)])
}

// Items are the blocks of rows. Those with more entries cost more.
func (j *job) Items() sched.Items {
	return sched.Items{
		Extent: int64(j.blocks),
		// Each device gets one task per step. All tasks of a step wait for all of the step before, so more tasks
		// would only add waiting.
		Grain: int64((j.blocks + j.devices - 1) / j.devices),
		Cost:  func(lo, hi int64) float64 { return j.ops(lo, hi) },
		Bytes: func(lo, hi int64) (in, out int64) {
			if hi == lo {
				return 0, 0
			}
			basis := 8 * (hi - lo) * int64(j.block*j.width)
			return 12*j.entries(lo, hi) + basis, basis
		},
	}
}

// ops is the operations of all steps for some blocks: the matrix once a step, and of the
// vectors that there are two operations each in four passes.
func (j *job) ops(lo, hi int64) float64 {
	steps := float64(j.steps)
	vectors := steps * (float64(j.zeros) + (steps+1)/2)
	return 2*steps*float64(j.entries(lo, hi)) + 8*float64((hi-lo)*int64(j.block))*vectors
}

// Place remembers how many devices there are.
func (j *job) Place(m *machine.Machine) error {
	on, err := workload.Able(m, multiplyOnDevices, projectOnDevices, restOnDevices)
	j.devices = len(on)
	return err
}

// Whole is all steps as one task.
func (j *job) Whole() graph.Task {
	t := j.task(multiplyOnDevices, 0, int64(j.blocks), j.steps-1)
	t.Work.Ops = j.ops(0, int64(j.blocks))
	t.Work.Bytes *= float64(j.steps) * 2
	return t
}

// task is a task of one kernel for some blocks in a step, without its uses.
func (j *job) task(k *graph.Kernel, lo, hi int64, step int) graph.Task {
	count := j.zeros + step + 1
	p := params{block: j.block, blocks: int(hi - lo), all: j.blocks, first: int(lo), width: j.width, count: count, seed: uint32(step), least: j.least()}
	t := graph.Task{
		Name:  fmt.Sprintf("step %d %s %d-%d", step, strings.TrimPrefix(k.Name, "elastic."), lo, hi),
		Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Grid(hi - lo)}.With(p)},
	}
	rows := float64(hi-lo) * float64(j.block)
	ops, bytes := 2*rows*float64(count), 8*rows*float64(count)
	switch k {
	case multiplyOnDevices:
		ops += 2 * float64(j.entries(lo, hi))
		bytes += 12 * float64(j.entries(lo, hi))
	case projectOnDevices:
		ops, bytes = 2*ops, 2*bytes
	}
	t.Work = graph.Work{Ops: ops, Bytes: bytes, Unit: graph.FP64}
	return t
}

// data are the handles of a graph.
type data struct {
	starts, columns, values, vector, basis, squares, diagonal graph.DataID
	product, sums, again                                      graph.DataID
}

// Graph has three tasks for each range of blocks in a step, and one in the last.
func (j *job) Graph(ranges []sched.Range) (*graph.Graph, error) {
	b := graph.Builder{Stop: j.Stopped}
	rows, nonzeros := int64(j.blocks*j.block), int64(j.matrix.Nonzeros())
	sums := 8 * int64(j.blocks*j.width)
	d := data{
		starts:   b.Data(graph.Data{Name: "starts", Bytes: 4 * (rows + 1), Input: true}),
		columns:  b.Data(graph.Data{Name: "columns", Bytes: 4 * nonzeros, Input: true}),
		values:   b.Data(graph.Data{Name: "values", Bytes: 8 * nonzeros, Input: true}),
		vector:   b.Data(graph.Data{Name: "vector", Bytes: 8 * rows, Input: true}),
		basis:    b.Data(graph.Data{Name: "basis", Bytes: int64(8 * len(j.basis)), Input: true, Output: true, Durability: graph.Volatile}),
		squares:  b.Data(graph.Data{Name: "squares", Bytes: int64(8 * len(j.squares)), Input: true, Output: true}),
		diagonal: b.Data(graph.Data{Name: "diagonal", Bytes: int64(8 * len(j.diagonal)), Output: true}),
		product:  b.Data(graph.Data{Name: "product", Bytes: 8 * rows}),
		sums:     b.Data(graph.Data{Name: "sums", Bytes: sums}),
		again:    b.Data(graph.Data{Name: "sums again", Bytes: sums}),
	}
	for step := range j.steps {
		last := step == j.steps-1
		for _, r := range ranges {
			b.Add(j.multiplyTask(d, r, step))
		}
		for _, r := range ranges {
			if !last {
				b.Add(j.projectTask(d, r, step))
			}
		}
		for _, r := range ranges {
			if !last {
				b.Add(j.restTask(d, r, step))
			}
		}
	}
	return b.Build()
}

// part returns a use of the data of some blocks, with each bytes per block, from an offset.
func part(id graph.DataID, a graph.Access, r sched.Range, each, offset int) graph.Use {
	return graph.Use{Data: id, Access: a, Offset: int64(offset) + r.Lo*int64(each), Bytes: r.Len() * int64(each)}
}

func (j *job) multiplyTask(d data, r sched.Range, step int) graph.Task {
	t := j.task(multiplyOnDevices, r.Lo, r.Hi, step)
	row := 8 * j.blocks // bytes of the sums of a step
	first, n := int64(j.starts[r.Lo*int64(j.block)]), j.entries(r.Lo, r.Hi)
	starts := part(d.starts, graph.Read, r, 4*j.block, 0)
	starts.Bytes += 4
	t.Uses = []graph.Use{
		starts,
		{Data: d.columns, Access: graph.Read, Offset: 4 * first, Bytes: 4 * n},
		{Data: d.values, Access: graph.Read, Offset: 8 * first, Bytes: 8 * n},
		{Data: d.vector, Access: graph.Read},
		{Data: d.squares, Access: graph.Read, Offset: int64(step * row), Bytes: int64(row)},
		part(d.basis, graph.ReadWrite, r, 8*j.block*j.width, 0),
		part(d.product, graph.Write, r, 8*j.block, 0),
		part(d.diagonal, graph.Write, r, 8, step*row),
		part(d.sums, graph.Write, r, 8*j.width, 0),
	}
	return t
}

func (j *job) projectTask(d data, r sched.Range, step int) graph.Task {
	t := j.task(projectOnDevices, r.Lo, r.Hi, step)
	t.Uses = []graph.Use{
		{Data: d.sums, Access: graph.Read},
		part(d.basis, graph.Read, r, 8*j.block*j.width, 0),
		part(d.product, graph.ReadWrite, r, 8*j.block, 0),
		part(d.again, graph.Write, r, 8*j.width, 0),
	}
	return t
}

func (j *job) restTask(d data, r sched.Range, step int) graph.Task {
	t := j.task(restOnDevices, r.Lo, r.Hi, step)
	t.Uses = []graph.Use{
		{Data: d.again, Access: graph.Read},
		part(d.basis, graph.Read, r, 8*j.block*j.width, 0),
		part(d.product, graph.Read, r, 8*j.block, 0),
		part(d.vector, graph.Write, r, 8*j.block, 0),
		part(d.squares, graph.Write, r, 8, (step+1)*8*j.blocks),
	}
	return t
}

// Bind ties the matrix, the first vector and what comes out to the job's memory.
func (j *job) Bind() []weft.Binding {
	return []weft.Binding{
		weft.Bind("starts", j.starts), weft.Bind("columns", j.matrix.Columns), weft.Bind("values", j.matrix.Values),
		weft.Bind("vector", j.vector), weft.Bind("basis", j.basis), weft.Bind("squares", j.squares), weft.Bind("diagonal", j.diagonal),
	}
}

// Result returns the result of a run: the vectors of the basis by blocks, and the sums of the
// tridiagonal matrix.
func (j *job) Result() (basis, squares, diagonal []float64) { return j.basis, j.squares, j.diagonal }

// Structure returns the structure that the network was made from.
func (j *job) Structure() *protein.Structure { return j.structure }

// Rate is operations a second.
func (j *job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.2f GFLOP/s, %.0f steps/s", j.ops(0, int64(j.blocks))/d.Seconds()/1e9, float64(j.steps)/d.Seconds())
}

// Summary is the slowest modes and how the fluctuations agree with the structure's B-factors.
func (j *job) Summary() string {
	modes, err := j.Modes()
	if modes == nil {
		return err.Error()
	}
	values := modes.Values
	var first []string
	for _, v := range values[:min(3, len(values))] {
		first = append(first, fmt.Sprintf("%.6g", v))
	}
	if len(values) == 0 {
		return err.Error()
	}
	out := fmt.Sprintf("%d modes, eigenvalues %s", len(values), strings.Join(first, ", "))
	if len(values) > 3 {
		out += fmt.Sprintf(" … %.6g", values[len(values)-1])
	}
	var b []float64
	for _, r := range j.structure.Residues {
		b = append(b, r.B)
	}
	if r := network.Correlation(modes.Fluctuations(j.structure.Len()), b); !math.IsNaN(r) {
		out += fmt.Sprintf(", B-factors r = %.3f", r)
	}
	if err != nil {
		out += fmt.Sprintf(" (%v)", err)
	}
	return out
}
