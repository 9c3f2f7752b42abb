package ntt

import (
	"fmt"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
)

// Operations on words of 32 bits for a product, which are 136 multiplications, their additions
// and carries, and for a butterfly: a product, a sum and a difference.
const (
	mulOps       = 600
	butterflyOps = mulOps + 60
)

// lengths are the logs of the transforms of the passes of a row of 2^size elements.
func (j *job) lengths(size int) (out []int) {
	passes := max((size+j.most-1)/j.most, 1)
	for i := range passes {
		out = append(out, (size+i)/passes)
	}
	return out
}

// step is a pass from one buffer of a task to another.
func (j *job) step(p passParams, from, to, tables int) graph.Step {
	if j.c.Inverse {
		p.backward = 1
	}
	return graph.Step{Kernel: Pass, Launch: graph.Grid(p.groups(), p.rows), Args: []int{from, to, tables}}.With(p)
}

// moves is a step that moves elements from one buffer of a task to another.
func moves(p moveParams, from, to int) graph.Step {
	return graph.Step{Kernel: Move, Launch: graph.Grid(p.rows * p.cols), Args: []int{from, to}}.With(p)
}

// work returns the work of stages of butterflies and of further products per element, for elements
// that are read and written a number of times.
func (j *job) work(elements, stages, products, times int) graph.Work {
	ops := float64(elements) * (float64(stages)/2*butterflyOps + float64(products)*mulOps)
	return graph.Work{Ops: ops, Bytes: 2 * Size * float64(elements*times), Unit: graph.Int32}
}

// scales returns the scaling before the first pass and the one after the last.
func (j *job) scales() (first, last int) {
	switch {
	case j.c.Inverse && j.c.Coset:
		return scaleNone, scaleLast
	case j.c.Inverse:
		return scaleNone, scaleBy
	case j.c.Coset:
		return scaleFirst, scaleNone
	}
	return scaleNone, scaleNone
}

// passes returns the passes over rows as steps. source has the elements, target gets the result, and
// workspace holds the elements in between. order is the order in which the last pass writes.
func (j *job) passes(p passParams, first, last, order int, source, target, tables, workspace int) (steps []graph.Step) {
	all := j.lengths(p.size)
	p.scale = first
	for i, l := range all {
		p.span, p.count, p.stride = l, 1<<(p.size-l), 1<<(p.size-l)
		to := target
		if (len(all)-i)%2 == 0 {
			to = workspace
		}
		if i == len(all)-1 {
			p.order = order
			if last != scaleNone { // which no job has beside first
				p.scale = last
			}
		}
		steps = append(steps, j.step(p, source, to, tables))
		source, p.before, p.scale = to, p.before+l, scaleNone
	}
	return steps
}

// Where a task has the buffers of the whole transform.
const (
	useElements = iota
	useTables
	useTransform
	uses // the workspace
)

// whole is the transform as one task.
func (j *job) whole() graph.Task {
	first, last := j.scales()
	t := graph.Task{
		Name:  "transform",
		Steps: j.passes(passParams{size: j.log, rows: 1}, first, last, orderRows, useElements, useTransform, useTables, uses),
		Work:  j.work(1<<j.log, j.log, 2*(len(j.lengths(j.log))-1)+1, len(j.lengths(j.log))),
	}
	if len(t.Steps) > 1 {
		t.Workspace = Size << j.log
	}
	return t
}

// Graph is the whole transform as one task, or for several ranges of rows its four steps, with
// three tasks for each.
func (j *job) Graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	cut := cutting{job: j, b: &b}
	for _, r := range ranges {
		if r.Len() > 0 {
			cut.ranges = append(cut.ranges, r)
		}
	}
	same := func(name string, bytes int64, in, out bool) graph.DataID {
		return b.Data(graph.Data{Name: name, Bytes: bytes, Input: in, Output: out, Tolerance: graph.SameBytes})
	}
	cut.elements = same("elements", Size<<j.log, true, false)
	cut.tables = same("tables", Size*int64(len(j.tables)), true, false)
	cut.transform = same("transform", Size<<j.log, false, true)
	if len(cut.ranges) == 1 {
		t := j.whole()
		t.Uses = []graph.Use{
			{Data: cut.elements, Access: graph.Read}, {Data: cut.tables, Access: graph.Read}, {Data: cut.transform, Access: graph.Write},
		}
		b.Add(t)
		return b.Build()
	}
	for _, r := range cut.ranges {
		cut.between = append(cut.between, same(fmt.Sprintf("columns of %d-%d", r.Lo, r.Hi), cut.bytes(r), false, false))
		cut.done = append(cut.done, same(fmt.Sprintf("rows %d-%d", r.Lo, r.Hi), cut.bytes(r), false, false))
	}
	for i := range cut.ranges {
		b.Add(cut.columns(i))
	}
	for i := range cut.ranges {
		b.Add(cut.rows(i))
	}
	for i := range cut.ranges {
		b.Add(cut.join(i))
	}
	return b.Build()
}

// cutting builds the four steps. The transform is R rows of S elements; row n has those from n·S on.
type cutting struct {
	job                         *job
	b                           *graph.Builder
	ranges                      []sched.Range // of rows
	elements, tables, transform graph.DataID
	// For each range: the transforms of its columns, with the elements of a row together, and the
	// transforms of its rows, with the elements at one place of all rows together.
	between, done []graph.DataID
}

// logs are the logs of R and S.
func (c *cutting) logs() (rows, cols int) {
	rows = c.job.rows()
	return rows, c.job.log - rows
}

// each returns the number of columns, and of places in a row's transform, per row of a range.
func (c *cutting) each() int64 {
	rows, cols := c.logs()
	return 1 << (cols - rows)
}

// bytes returns the size of a range's part of all elements.
func (c *cutting) bytes(r sched.Range) int64 {
	_, cols := c.logs()
	return Size * r.Len() << cols
}

// columns transforms the columns of a range and multiplies them by roots.
func (c *cutting) columns(i int) graph.Task {
	logRows, logCols := c.logs()
	r := c.ranges[i]
	first, count := r.Lo*c.each(), r.Len()*c.each()
	scale, _ := c.job.scales()
	p := passParams{size: c.job.log, span: logRows, first: int(first), count: int(count), stride: 1 << logCols, rows: 1, scale: scale, order: orderColumns}
	t := graph.Task{
		Name: fmt.Sprintf("columns of %d-%d", r.Lo, r.Hi),
		Uses: []graph.Use{{Data: c.tables, Access: graph.Read}, {Data: c.between[i], Access: graph.Write}},
		Work: c.job.work(int(count)<<logRows, logRows, 3, 1),
	}
	if c.job.hosted {
		t.Uses = append(t.Uses, graph.Use{Data: c.elements, Access: graph.Read})
		t.Steps = []graph.Step{c.job.step(p, 2, 1, 0)}
		return t
	}
	workspace := 2 + 1<<logRows
	for n := range int64(1) << logRows {
		t.Uses = append(t.Uses, graph.Use{Data: c.elements, Offset: Size * (n<<logCols + first), Bytes: Size * count, Access: graph.Read})
		t.Steps = append(t.Steps, moves(moveParams{rows: 1, cols: int(count), to: int(n * count)}, 2+int(n), workspace))
	}
	p.from, p.stride = p.first, p.count
	t.Steps = append(t.Steps, c.job.step(p, workspace, 1, 0))
	t.Workspace = c.bytes(r)
	return t
}

// rows transforms the rows of a range, after every range has brought its columns of them.
func (c *cutting) rows(i int) graph.Task {
	logRows, logCols := c.logs()
	r := c.ranges[i]
	n, workspace := int(r.Len()), 2+len(c.ranges)
	_, last := c.job.scales()
	t := graph.Task{
		Name:      fmt.Sprintf("rows %d-%d", r.Lo, r.Hi),
		Uses:      []graph.Use{{Data: c.tables, Access: graph.Read}, {Data: c.done[i], Access: graph.Write}},
		Work:      c.job.work(n<<logCols, logCols, 2*len(c.job.lengths(logCols))-1, 1+len(c.job.lengths(logCols))),
		Workspace: c.bytes(r),
	}
	// The last pass reads the workspace.
	whole := workspace
	if len(c.job.lengths(logCols))%2 == 0 {
		whole = 1
	}
	for s, from := range c.ranges {
		cols := from.Len() * c.each()
		t.Uses = append(t.Uses, graph.Use{Data: c.between[s], Offset: Size * r.Lo * cols, Bytes: Size * r.Len() * cols, Access: graph.Read})
		t.Steps = append(t.Steps, moves(moveParams{
			rows: n, cols: int(cols), fromStride: int(cols), to: int(from.Lo * c.each()), toStride: 1 << logCols,
		}, 2+s, whole))
	}
	p := passParams{size: logCols, shift: logRows, rows: n, row: int(r.Lo)}
	t.Steps = append(t.Steps, c.job.passes(p, scaleNone, last, orderMixed, whole, 1, 0, workspace)...)
	return t
}

// join puts together a range's part of the result from the rows of all ranges.
func (c *cutting) join(i int) graph.Task {
	logRows, _ := c.logs()
	r := c.ranges[i]
	places := r.Len() * c.each()
	t := graph.Task{
		Name: fmt.Sprintf("transform %d-%d", r.Lo, r.Hi),
		Uses: []graph.Use{{Data: c.transform, Offset: Size * r.Lo * c.each() << logRows, Bytes: c.bytes(r), Access: graph.Write}},
		Work: c.job.work(int(places)<<logRows, 0, 0, 1),
	}
	for s, from := range c.ranges {
		n := from.Len()
		t.Uses = append(t.Uses, graph.Use{Data: c.done[s], Offset: Size * r.Lo * c.each() * n, Bytes: Size * places * n, Access: graph.Read})
		t.Steps = append(t.Steps, moves(moveParams{rows: int(places), cols: int(n), fromStride: int(n), to: int(from.Lo), toStride: 1 << logRows}, 1+s, 0))
	}
	return t
}
