package graph

import (
	"math"
	"slices"
)

// Flow is a graph in single-assignment form. Every slice boundary any task uses
// cuts its data into pieces; every write of a piece makes a value with one
// producer, so what a task waits for, what it overwrites, when a value is dead
// and how it could be computed again are all plain lookups. All fields are
// read-only after Build.
type Flow struct {
	// Rows has a row for each task and one more: the predecessors of t are
	// Pred[Rows[t].Pred:Rows[t+1].Pred], and likewise its successors and uses.
	// A row has all numbers that the engine reads of every task, so that they are
	// fetched from memory together.
	Rows []Row
	Pred []int32
	Succ []int32

	// PieceOff holds the index of each data's first piece: data d has the pieces
	// Pieces[PieceOff[d]:PieceOff[d+1]], ascending.
	PieceOff []int32
	Pieces   []Piece

	// Uses of all tasks, in the order of tasks and of each task's uses.
	Uses []FlowUse
	// Plain has the same uses, reduced to the fields that plain tasks need.
	Plain []PlainUse

	// Values has all values; the first NumInitial exist before the first task, one
	// for each piece of input data.
	Values     []Value
	NumInitial int32
	// ReadVals and WriteVals hold the values of each use, a piece each.
	ReadVals, WriteVals []int32
	// Last holds, for every piece, the value it has at the end (-1 if never written).
	Last []int32
	// Finals lists the pieces of output data that some task writes.
	Finals []int32

	// ShapeTask has one task of each shape. Tasks with equal kernels, work and
	// constraints have the same shape, so that costs are looked up once per shape
	// and device class.
	ShapeTask []TaskID
	// Prioritised is set when tasks differ in priority, Timed when any names a
	// timeout or NoTimeout, Retried when any asks for retries. The engine skips
	// these checks where they are false.
	Prioritised, Timed, Retried bool

	// HostNeed bounds the host memory of all data except Outputs. Outputs lists, ascending by data, the outputs
	// whose pieces are each written once; they count only where the caller binds no memory.
	HostNeed Need
	Outputs  []OutputNeed
	// Workspace is the most bytes of workspace of a task, on all its devices together.
	Workspace int64
}

// Row holds the indices at which a task's lists begin, and its shape. A Plain task is of the
// commonest kind: a few uses of one piece each, which either read or write for the first time
// (FlowUse.First), one device, no workspace.
type Row struct {
	Pred, Succ, Use int32
	Shape           int32
	Plain           bool
}

// maxPlain is the most uses of a plain task.
const maxPlain = 8

// Piece is an interval of data that every task uses whole or not at all.
type Piece struct {
	Data   DataID
	Lo, Hi int64
}

// FlowUse is a Use in terms of pieces: global piece indices [P0, P1), the first
// piece of its data being Base. R and W are offsets into ReadVals and WriteVals,
// or -1. First says that it writes data that is neither input nor output, one
// piece of it, for the first time: there is no older value to keep.
// V is the value it makes, or else reads, where it has one piece.
type FlowUse struct {
	Data   DataID
	P0, P1 int32
	Base   int32
	R, W   int32
	V      int32
	Rank   int16
	Access Access
	First  bool
}

// PlainUse is a use of a plain task: the value it reads, or the one it makes and
// the data it makes it of; -1 for a read.
type PlainUse struct {
	V    int32
	Data DataID
}

// Value is one version of one piece.
type Value struct {
	Piece    int32
	Producer TaskID // NoTask for an initial value
	Readers  int32  // uses that read it; a task may hold several
	Prev     int32  // the version it replaces, -1 for the first
}

// Preds returns the tasks t waits for.
func (f *Flow) Preds(t TaskID) []int32 { return f.Pred[f.Rows[t].Pred:f.Rows[t+1].Pred] }

// Succs returns the tasks that wait for t.
func (f *Flow) Succs(t TaskID) []int32 { return f.Succ[f.Rows[t].Succ:f.Rows[t+1].Succ] }

// TaskUses returns the uses of t in terms of pieces.
func (f *Flow) TaskUses(t TaskID) []FlowUse { return f.Uses[f.Rows[t].Use:f.Rows[t+1].Use] }

// Reads returns the values a use reads, one for each of its pieces.
func (f *Flow) Reads(u *FlowUse) []int32 {
	if u.R < 0 {
		return nil
	}
	return f.ReadVals[u.R : u.R+u.P1-u.P0]
}

// Writes returns the values a use makes, one for each of its pieces.
func (f *Flow) Writes(u *FlowUse) []int32 {
	if u.W < 0 {
		return nil
	}
	return f.WriteVals[u.W : u.W+u.P1-u.P0]
}

// UseBytes returns the size of a use.
func (f *Flow) UseBytes(u *FlowUse) int64 { return f.Pieces[u.P1-1].Hi - f.Pieces[u.P0].Lo }

// Need bounds in bytes the host memory that a run holds for data at a time, not counting the caller's. A sum that
// overflows is math.MaxInt64.
type Need struct {
	// Shared is for devices that all use host memory. There is a buffer for each version of a
	// piece, and no more than two versions of a piece at a time. A buffer of several pieces lasts as
	// long as one of them, so that each use may have its own.
	Shared int64
	// Apart is for devices of which some have memory of their own. Every version may be spilled or
	// committed, and be kept as long as the run goes on; and a first version may be copied out of
	// the caller's memory.
	Apart int64
}

// OutputNeed is the need of an output whose pieces are each written once.
type OutputNeed struct {
	Data DataID
	Need
}

// Plus returns the sum of two needs.
func (n Need) Plus(m Need) Need {
	return Need{plusBytes(n.Shared, m.Shared), plusBytes(n.Apart, m.Apart)}
}

// plusBytes returns the sum of two numbers of bytes, or the largest number.
func plusBytes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// weigh computes what data needs of host memory.
func (f *Flow) weigh(data []Data) {
	several := f.severalPieces(data)
	for d := range data {
		n, once := f.dataNeed(DataID(d), several)
		if once && data[d].Output && !data[d].Input {
			f.Outputs = append(f.Outputs, OutputNeed{DataID(d), n})
		} else {
			f.HostNeed = f.HostNeed.Plus(n)
		}
	}
}

// severalPieces returns by data the bytes of the uses of several pieces that only read, and -1 for
// data without uses of several pieces; nil if no data has one.
func (f *Flow) severalPieces(data []Data) (read []int64) {
	if len(f.Pieces) == len(data) {
		return nil
	}
	read = slices.Repeat([]int64{-1}, len(data))
	for i := range f.Uses {
		if u := &f.Uses[i]; u.P1-u.P0 > 1 {
			if n := max(read[u.Data], 0); u.W >= 0 {
				read[u.Data] = n
			} else {
				read[u.Data] = plusBytes(n, f.UseBytes(u))
			}
		}
	}
	return read
}

// dataNeed returns what one data needs, and whether tasks write none of its pieces twice.
func (f *Flow) dataNeed(d DataID, several []int64) (n Need, once bool) {
	var all, two, whole int64 // bytes of all versions of pieces that tasks make, of two at most of each; of all pieces
	once = true
	for p := f.PieceOff[d]; p < f.PieceOff[d+1]; p++ {
		bytes, made := f.Pieces[p].Hi-f.Pieces[p].Lo, 0
		whole += bytes
		for v := f.Last[p]; v >= f.NumInitial; v = f.Values[v].Prev {
			all = plusBytes(all, bytes)
			if made++; made <= 2 {
				two = plusBytes(two, bytes)
			}
		}
		once = once && made <= 1
	}
	switch {
	case all == 0:
		return Need{}, once
	case several == nil || several[d] < 0:
		return Need{two, plusBytes(all, whole)}, once
	}
	all = plusBytes(all, several[d]) // each version is made in a buffer of its use
	return Need{all, plusBytes(all, whole)}, once
}

// cut computes pieces from every use's boundaries.
func (f *Flow) cut(data []Data, tasks []Task) {
	// Most data is used whole: only data with a partial use needs sorting.
	bounds, uses := make(map[DataID][]int64), 0
	for i := range tasks {
		uses += len(tasks[i].Uses)
		for _, u := range tasks[i].Uses {
			if u.Offset != 0 || u.Bytes != data[u.Data].Bytes {
				bounds[u.Data] = append(bounds[u.Data], u.Offset, u.Offset+u.Bytes)
			}
		}
	}
	f.PieceOff = make([]int32, len(data)+1)
	f.Pieces = make([]Piece, 0, len(data))
	for d := range data {
		b := append(bounds[DataID(d)], 0, data[d].Bytes)
		slices.Sort(b)
		b = slices.Compact(b)
		for i := 1; i < len(b); i++ {
			f.Pieces = append(f.Pieces, Piece{DataID(d), b[i-1], b[i]})
		}
		f.PieceOff[d+1] = int32(len(f.Pieces))
	}
	f.Rows = make([]Row, len(tasks)+1)
	f.Uses = make([]FlowUse, 0, uses)
	for i := range tasks {
		for _, u := range tasks[i].Uses {
			p0, p1 := f.PieceOff[u.Data], f.PieceOff[u.Data+1]
			base := p0
			if p1-p0 > 1 {
				ps := f.Pieces[p0:p1]
				end := u.Offset + u.Bytes
				at := func(lo int64) int32 {
					k, _ := slices.BinarySearchFunc(ps, lo, func(p Piece, lo int64) int { return int(min(max(p.Lo-lo, -1), 1)) })
					return p0 + int32(k)
				}
				p0, p1 = at(u.Offset), at(end)
			}
			f.Uses = append(f.Uses, FlowUse{Data: u.Data, P0: p0, P1: p1, Base: base, R: -1, W: -1, Access: u.Access, Rank: u.Rank})
		}
		f.Rows[i+1].Use = int32(len(f.Uses))
	}
}

// assign numbers values and derives the order between tasks: a reader waits for
// the producer, a writer for the readers of what it replaces, or for its producer
// when no other task read it. unwritten reports a use that reads data without a
// value.
func (f *Flow) assign(data []Data, tasks []Task, unwritten func(t TaskID, d DataID)) {
	o := f.order(data, len(tasks))
	for i := range tasks {
		t := TaskID(i)
		for _, p := range tasks[i].After {
			o.edge(p, t)
		}
		uses := f.TaskUses(t)
		for k := range uses {
			if u := &uses[k]; u.Access.Reads() {
				if slices.Contains(o.cur[u.P0:u.P1], -1) {
					unwritten(t, u.Data)
				}
				o.read(t, u)
			}
		}
		for k := range uses {
			if u := &uses[k]; u.Access.Writes() {
				d := &data[u.Data]
				u.First = o.cur[u.P0] < 0 && f.PieceOff[u.Data+1]-u.Base == 1 && !d.Input && !d.Output
				o.write(t, u)
			}
		}
		f.Rows[i].Plain = plain(&tasks[i], uses)
		f.Rows[i+1].Pred = int32(len(f.Pred))
	}
	f.Plain = make([]PlainUse, len(f.Uses))
	for i := range f.Uses {
		u, p := &f.Uses[i], &f.Plain[i]
		if p.V, p.Data = u.V, -1; u.W >= 0 {
			p.Data = u.Data
		}
	}
	f.Last = o.cur
	for p, v := range f.Last {
		if v >= f.NumInitial && data[f.Pieces[p].Data].Output {
			f.Finals = append(f.Finals, int32(p))
		}
	}
	f.invert(len(tasks))
}

// ordering adds to a flow the values and predecessors of one task after another.
type ordering struct {
	*Flow
	cur []int32 // current value of each piece, -1 for none
	// newest[v] is the last reader of value v so far. readers[0] stands for none.
	newest  []int32
	readers []reader
	seen    []int32 // seen[p] == t+1: p is already a predecessor of t
}

// reader is a task that reads a value; next is the one that did so before it.
type reader struct {
	task TaskID
	next int32
}

// order returns an ordering with the initial values and no task.
func (f *Flow) order(data []Data, tasks int) *ordering {
	o := &ordering{Flow: f, cur: make([]int32, len(f.Pieces)), readers: make([]reader, 1), seen: make([]int32, tasks)}
	for p := range f.Pieces {
		o.cur[p] = -1
		if data[f.Pieces[p].Data].Input {
			o.cur[p] = int32(len(f.Values))
			f.Values = append(f.Values, Value{Piece: int32(p), Producer: NoTask, Prev: -1})
		}
	}
	f.NumInitial = int32(len(f.Values))
	o.newest = make([]int32, len(f.Values), len(f.Values)+len(f.Uses))
	return o
}

// edge makes p a predecessor of t.
func (o *ordering) edge(p, t TaskID) {
	if p != NoTask && p != t && o.seen[p] != int32(t)+1 {
		o.seen[p] = int32(t) + 1
		o.Pred = append(o.Pred, int32(p))
	}
}

// read gives a use the current values of its pieces, whose producers t waits for.
func (o *ordering) read(t TaskID, u *FlowUse) {
	u.R, u.V = int32(len(o.ReadVals)), o.cur[u.P0]
	for _, v := range o.cur[u.P0:u.P1] {
		o.ReadVals = append(o.ReadVals, v)
		if v < 0 {
			continue
		}
		o.edge(o.Values[v].Producer, t)
		o.Values[v].Readers++
		o.readers = append(o.readers, reader{t, o.newest[v]})
		o.newest[v] = int32(len(o.readers) - 1)
	}
}

// write gives each piece of a use a new value. t waits for the readers of the old
// one, or for its producer when no other task read it.
func (o *ordering) write(t TaskID, u *FlowUse) {
	u.W, u.V = int32(len(o.WriteVals)), int32(len(o.Values))
	for p := u.P0; p < u.P1; p++ {
		old := o.cur[p]
		if old >= 0 {
			read := false
			for r := o.newest[old]; r > 0; r = o.readers[r].next {
				o.edge(o.readers[r].task, t)
				read = read || o.readers[r].task != t
			}
			if !read {
				o.edge(o.Values[old].Producer, t)
			}
		}
		o.cur[p] = int32(len(o.Values))
		o.WriteVals = append(o.WriteVals, o.cur[p])
		o.Values = append(o.Values, Value{Piece: p, Producer: t, Prev: old})
		o.newest = append(o.newest, 0)
	}
}

// plain reports whether a task is of the commonest kind.
func plain(t *Task, uses []FlowUse) bool {
	if len(uses) > maxPlain || t.Workspace > 0 || t.Gang > 1 {
		return false
	}
	for i := range uses {
		if u := &uses[i]; u.P1-u.P0 != 1 || u.W >= 0 && !u.First {
			return false
		}
	}
	return true
}

// invert builds successor rows from predecessor rows.
func (f *Flow) invert(n int) {
	for _, p := range f.Pred {
		f.Rows[p+1].Succ++
	}
	for i := range n {
		f.Rows[i+1].Succ += f.Rows[i].Succ
	}
	f.Succ = make([]int32, len(f.Pred))
	next := make([]int32, n)
	for i := range next {
		next[i] = f.Rows[i].Succ
	}
	for t := range n {
		for _, p := range f.Preds(TaskID(t)) {
			f.Succ[next[p]] = int32(t)
			next[p]++
		}
	}
}

// shapeKey is the part of a task that determines its cost on a device.
type shapeKey struct {
	kernel    *Kernel
	launch    Launch
	work      Work
	workspace int64
	gang      int
	hint      string
	only      string
	steps     int
}

func (f *Flow) shapes(tasks []Task) {
	ids := make(map[shapeKey]int32)
	last, lastID := shapeKey{}, int32(-1)
	for i := range tasks {
		t := &tasks[i]
		f.Prioritised = f.Prioritised || t.Priority != tasks[0].Priority
		f.Timed = f.Timed || t.Timeout != 0
		f.Retried = f.Retried || t.Retries > 0
		k := shapeKey{work: t.Work, workspace: t.Workspace, gang: t.Gang, hint: t.On.Hint, steps: len(t.Steps)}
		if len(t.Steps) > 0 {
			k.kernel, k.launch = t.Steps[0].Kernel, t.Steps[0].Launch
		}
		for _, s := range t.On.Only {
			k.only += s + ","
		}
		// Tasks of several steps get a shape of their own unless they follow
		// one another, which is how loops add them.
		if lastID >= 0 && k == last && sameSteps(t, &tasks[f.ShapeTask[lastID]]) {
			f.Rows[i].Shape = lastID
			continue
		}
		id, ok := ids[k]
		if !ok || !sameSteps(t, &tasks[f.ShapeTask[id]]) {
			id = int32(len(f.ShapeTask))
			ids[k] = id
			f.ShapeTask = append(f.ShapeTask, TaskID(i))
			if gang := int64(max(t.Gang, 1)); t.Workspace > math.MaxInt64/gang {
				f.Workspace = math.MaxInt64
			} else {
				f.Workspace = max(f.Workspace, t.Workspace*gang)
			}
		}
		f.Rows[i].Shape = id
		last, lastID = k, id
	}
}

func sameSteps(a, b *Task) bool {
	if len(a.Steps) != len(b.Steps) {
		return false
	}
	for i := range a.Steps {
		if a.Steps[i].Kernel != b.Steps[i].Kernel || a.Steps[i].Launch != b.Steps[i].Launch {
			return false
		}
	}
	return true
}
