package graph

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/weft-run/weft/internal/text"
)

// Mistakes a Builder reports. Build joins all it finds; test with errors.Is.
var (
	ErrCycle     = errors.New("tasks wait for each other in a cycle")
	ErrUnknown   = errors.New("unknown reference")
	ErrOverlap   = errors.New("overlapping uses")
	ErrSize      = errors.New("bad size")
	ErrKernel    = errors.New("missing implementation")
	ErrUnwritten = errors.New("read before anything was written")
	ErrValue     = errors.New("bad value")
	ErrName      = errors.New("name given twice")
)

// ErrStopped is the error of a Build that Builder.Stop ended.
var ErrStopped = errors.New("building the graph was stopped")

// maxErrors is the most mistakes Build reports one by one; it counts the rest. One
// mistake in a loop repeats for every task, and the first reports show it.
const maxErrors = 20

// MaxTasks is the most tasks of a graph, those that combine reductions included. A task takes about
// 1 KiB in a graph, and as much again when it is predicted or run: a million of them fit in a small
// machine and are built in seconds, while a number of steps with some zeros too many would fill any.
const MaxTasks = 1 << 20

// combineFan is the fan-in of the trees that combine reductions. It is part of
// the result (floating-point sums depend on it), so it must never change.
const combineFan = 8

// Builder collects data and tasks. It is not safe for concurrent use. Mistakes
// are kept and reported by Build, so calls can be chained without checks.
type Builder struct {
	// Stop, if not nil, is called about every thousand tasks and between the parts of Build. Once it returns
	// true nothing is kept any more, and Build returns ErrStopped.
	Stop func() bool

	data  []Data
	tasks []Task
	uses  []Use // arena behind the tasks' Uses
	errs  []error
	more  int
	// reduced holds the data that tasks reduce into.
	reduced map[DataID]*reductions
	parts   []DataID // temporaries of reductions
	// forward is set when an After edge points at a task not added yet; only
	// then can there be a cycle.
	forward bool
	named   bool // data has names that the caller gave
	// mostPieces is the most pieces that uses may have together; 0 is what a Flow can number.
	mostPieces int64
	mostTasks  int   // the most tasks; 0 is MaxTasks
	over       error // why nothing is kept any more, which Build says; nil if all is
}

// reductions are those into one data handle.
type reductions struct {
	made int          // contributions so far, which numbers their temporaries
	open []*reduction // not combined yet: disjoint slices, ascending
}

// reduction is one slice with its contributions, a temporary each. first is the
// number of the first of them: slices are combined in that order.
type reduction struct {
	into  Use
	first int
	parts []DataID
}

// shared returns the range of open reductions that share bytes with a use.
func (r *reductions) shared(u Use) (lo, hi int) {
	lo, _ = slices.BinarySearchFunc(r.open, u.Offset, func(o *reduction, at int64) int {
		step()
		return cmp.Compare(o.into.Offset+o.into.Bytes, at+1) // the first that ends past it
	})
	for hi = lo; hi < len(r.open) && r.open[hi].into.Offset < u.Offset+u.Bytes; hi++ {
		step()
	}
	return lo, hi
}

// Data adds a handle.
func (b *Builder) Data(d Data) DataID {
	if b.over != nil {
		return 0
	}
	id := DataID(len(b.data))
	if d.Name == "" {
		d.Name = fmt.Sprintf("data %d", id)
	} else {
		b.named = true
	}
	b.checkElems(&d)
	if d.Bytes <= 0 {
		b.fail(fmt.Errorf("data %q: %w: %d bytes; a handle needs at least 1", d.Name, ErrSize, d.Bytes))
		d.Bytes = 1
	}
	if d.Durability > Volatile {
		b.fail(fmt.Errorf("data %q: %w: durability %d", d.Name, ErrValue, d.Durability))
	}
	if d.Combine != nil && len(d.Combine.Impls) == 0 {
		b.fail(fmt.Errorf("data %q: %w: combine kernel %q", d.Name, ErrKernel, d.Combine.Name))
	}
	b.data = append(b.data, d)
	return id
}

// checkElems checks the type, shape and mark of data, and sets Bytes where type and shape determine
// it.
func (b *Builder) checkElems(d *Data) {
	d.Shape = slices.Clone(d.Shape)
	bytes, ok := d.Elem.Bytes(d.Shape)
	switch size := d.Elem.Size(); {
	case d.Elem != "" && size == 0:
		b.fail(fmt.Errorf("data %q: %w: unknown type %q; there are %s", d.Name, ErrValue, d.Elem, strings.Join(elemNames(), ", ")))
	case d.Elem == "" && d.Shape != nil:
		b.fail(fmt.Errorf("data %q: %w: a shape needs a type of its elements", d.Name, ErrValue))
	case d.Shape != nil && !ok:
		b.fail(fmt.Errorf("data %q: %w: elements of %s in the shape %v", d.Name, ErrSize, d.Elem, d.Shape))
	case d.Shape != nil && d.Bytes == 0:
		d.Bytes = bytes
	case d.Shape != nil && d.Bytes != bytes:
		b.fail(fmt.Errorf("data %q: %w: it has %s, and %s elements in the shape %v take %d", d.Name, ErrSize, text.Count(d.Bytes, "byte"), d.Elem, d.Shape, bytes))
	case d.Elem != "" && d.Bytes%size != 0:
		b.fail(fmt.Errorf("data %q: %w: %s are no whole number of %s elements", d.Name, ErrSize, text.Count(d.Bytes, "byte"), d.Elem))
	}
	switch t := d.Tolerance; {
	case t != SameBytes && !(t >= 0 && t <= 1):
		b.fail(fmt.Errorf("data %q: %w: a tolerance of %v; use a number from 0 to 1, or SameBytes", d.Name, ErrValue, t))
	case t > 0 && d.Elem != F2 && d.Elem != F4 && d.Elem != F8:
		b.fail(fmt.Errorf("data %q: %w: a tolerance needs elements that are floating-point numbers; say which, or that results are SameBytes", d.Name, ErrValue))
	}
	if d.Weights != "" && (!d.Input || d.Output) {
		b.fail(fmt.Errorf("data %q: %w: weights are an input and no output", d.Name, ErrValue))
	}
}

// Add adds a task and returns its ID. The slices in t are copied or kept
// unchanged; the caller must not modify what Steps and After point to. Past
// MaxTasks nothing is kept, and Build returns ErrSize.
func (b *Builder) Add(t Task) TaskID {
	if b.ended() {
		return 0
	}
	b.checkTask(&t)
	for _, u := range t.Uses {
		b.settle(u)
	}
	at := len(b.uses)
	for _, u := range t.Uses {
		if u.Access == Reduce {
			u = b.contribute(u)
		}
		b.uses = append(b.uses, u)
	}
	t.Uses = b.uses[at:len(b.uses):len(b.uses)]
	id := TaskID(len(b.tasks))
	b.tasks = append(b.tasks, t)
	return id
}

// stopTasks is the number of tasks between two calls of Stop: about 1 ms of building.
const stopTasks = 1024

// ended reports whether nothing is kept any more.
func (b *Builder) ended() bool {
	most := cmp.Or(b.mostTasks, MaxTasks)
	switch n := len(b.tasks); {
	case b.over != nil:
	case n >= most:
		b.over = fmt.Errorf("%w: more than %d tasks; make fewer and larger ones, or several graphs that run one after another", ErrSize, most)
	case n%stopTasks == 0:
		b.over = b.stopped()
	}
	return b.over != nil
}

// stopped is ErrStopped if the graph is not wanted any more.
func (b *Builder) stopped() error {
	if b.Stop != nil && b.Stop() {
		return ErrStopped
	}
	return nil
}

// settle combines what a use needs the result of: reductions that share bytes
// with it, unless it is a further contribution to the same slice.
func (b *Builder) settle(u Use) {
	r := b.reduced[u.Data]
	if r == nil {
		return
	}
	lo, hi := r.shared(u)
	if lo == hi || u.Access == Reduce && r.open[lo].into.Offset == u.Offset && r.open[lo].into.Bytes == u.Bytes {
		return
	}
	ended := slices.Clone(r.open[lo:hi])
	r.open = slices.Delete(r.open, lo, hi)
	slices.SortFunc(ended, func(a, b *reduction) int { return cmp.Compare(a.first, b.first) })
	for _, o := range ended {
		b.combine(o)
	}
}

// contribute turns a Reduce use into a Write of a temporary of its own.
func (b *Builder) contribute(u Use) Use {
	r := b.reduced[u.Data]
	if r == nil {
		if b.reduced == nil {
			b.reduced = make(map[DataID]*reductions)
		}
		r = &reductions{}
		b.reduced[u.Data] = r
	}
	name := fmt.Sprintf("%s part %d", b.data[u.Data].Name, r.made)
	part := Data{Name: name, Bytes: u.Bytes, Durability: Versioned, Secret: b.data[u.Data].Secret}
	if d := &b.data[u.Data]; d.Tolerance != 0 && (d.Elem == "" || u.Bytes%max(d.Elem.Size(), 1) == 0) {
		part.Elem, part.Tolerance = d.Elem, d.Tolerance
	}
	temp := b.Data(part)
	b.parts = append(b.parts, temp)
	at, end := r.shared(u)
	if at == end {
		r.open = slices.Insert(r.open, at, &reduction{into: u, first: r.made})
	}
	r.made++
	r.open[at].parts = append(r.open[at].parts, temp)
	return Use{Data: temp, Bytes: u.Bytes, Access: Write, Rank: u.Rank}
}

// combine ends a reduction: parts are merged combineFan at a time in task order
// until at most that many are left, which are merged into the data.
func (b *Builder) combine(r *reduction) {
	d, parts := &b.data[r.into.Data], r.parts
	add := func(into Use, parts []DataID) {
		uses := []Use{into}
		for _, p := range parts {
			uses = append(uses, Use{Data: p, Bytes: into.Bytes, Access: Read})
		}
		n, bytes := float64(len(uses)), float64(into.Bytes)
		b.Add(Task{
			Name:  "combine " + d.Name,
			Steps: []Step{{Kernel: d.Combine, Launch: Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}}},
			Uses:  uses,
			Work:  Work{Ops: n * bytes / 4, Bytes: (n + 1) * bytes},
		})
	}
	for len(parts) > combineFan {
		var next []DataID
		for len(parts) > 0 {
			n := min(combineFan, len(parts))
			if n > 1 {
				add(Use{Data: parts[0], Bytes: r.into.Bytes, Access: ReadWrite}, parts[1:n])
			}
			next = append(next, parts[0])
			parts = parts[n:]
		}
		parts = next
	}
	add(Use{Data: r.into.Data, Offset: r.into.Offset, Bytes: r.into.Bytes, Access: ReadWrite}, parts)
}

// checkTask checks a task by itself and fills in defaults.
func (b *Builder) checkTask(t *Task) {
	if len(t.Steps) == 0 {
		b.fail(fmt.Errorf("%s: %w: no steps", b.where(t), ErrKernel))
	}
	for i := range t.Steps {
		if k := t.Steps[i].Kernel; k == nil {
			b.fail(fmt.Errorf("%s: %w: step %d has no kernel", b.where(t), ErrKernel, i))
		} else if len(k.Impls) == 0 {
			b.fail(fmt.Errorf("%s: %w: kernel %q has no implementation for any device", b.where(t), ErrKernel, k.Name))
		}
		if err := t.Steps[i].wrong; err != nil {
			b.fail(fmt.Errorf("%s: step %d: %w", b.where(t), i, err))
		}
		b.checkLaunch(t, i)
		b.checkArgs(t, i)
	}
	if t.Workspace < 0 {
		b.fail(fmt.Errorf("%s: %w: workspace of %d bytes", b.where(t), ErrSize, t.Workspace))
	}
	if t.Gang < 0 || t.Gang > math.MaxInt16 {
		b.fail(fmt.Errorf("%s: %w: gang of %d devices", b.where(t), ErrSize, t.Gang))
	}
	if t.Timeout < 0 && t.Timeout != NoTimeout {
		b.fail(fmt.Errorf("%s: %w: timeout %v", b.where(t), ErrValue, t.Timeout))
	}
	if bad(t.Work.Ops) || bad(t.Work.Bytes) || t.Work.Unit >= NumUnits {
		b.fail(fmt.Errorf("%s: %w: work estimate %v", b.where(t), ErrValue, t.Work))
	}
	for _, p := range t.After {
		if p < 0 {
			b.fail(fmt.Errorf("%s: %w: after task %d", b.where(t), ErrUnknown, p))
		} else if int(p) >= len(b.tasks) {
			b.forward = true
		}
	}
	copied := false
	for i := range t.Uses {
		u := t.Uses[i]
		if u.Data < 0 || int(u.Data) >= len(b.data) {
			b.fail(fmt.Errorf("%s: %w: data %d", b.where(t), ErrUnknown, u.Data))
			t.Uses, copied = nil, true // nothing below can look at them
			break
		}
		d := &b.data[u.Data]
		if u.Bytes == 0 {
			if !copied { // do not write through to the caller's slice
				t.Uses, copied = append([]Use(nil), t.Uses...), true
			}
			u.Bytes = d.Bytes - u.Offset
			t.Uses[i] = u
		}
		if u.Offset < 0 || u.Bytes <= 0 || u.Bytes > d.Bytes-u.Offset {
			b.fail(fmt.Errorf("%s: %w: bytes %d to %d of data %q, which has %d", b.where(t), ErrSize, u.Offset, u.Offset+u.Bytes, d.Name, d.Bytes))
			t.Uses = nil
			break
		}
		if u.Access.Writes() && d.Weights != "" {
			b.fail(fmt.Errorf("%s: %w: %s of data %q, which has weights: they stay as they are", b.where(t), ErrValue, u.Access, d.Name))
		}
		if u.Access > Reduce {
			b.fail(fmt.Errorf("%s: %w: access %d of data %q", b.where(t), ErrValue, u.Access, d.Name))
		}
		if u.Access == Reduce && d.Combine == nil {
			b.fail(fmt.Errorf("%s: %w: data %q is reduced into but has no combine kernel", b.where(t), ErrKernel, d.Name))
			t.Uses = nil
			break
		}
		if u.Rank < 0 || int(u.Rank) >= max(t.Gang, 1) {
			b.fail(fmt.Errorf("%s: %w: rank %d of a gang of %d", b.where(t), ErrValue, u.Rank, max(t.Gang, 1)))
		}
	}
	clash := false
	eachClash(t.Uses, func(a, c Use) {
		b.fail(fmt.Errorf("%s: %w: %s and %s of data %q share bytes; use one read-write", b.where(t), ErrOverlap, a.Access, c.Access, b.data[a.Data].Name))
		clash = true
	})
	if clash {
		t.Uses = nil // reductions rely on disjoint slices
	}
}

// fewUses is the number of uses up to which eachClash compares all pairs, which is
// faster than sorting them.
const fewUses = 16

// eachClash visits pairs of uses that share bytes one of them writes: all of
// them where there are few uses, and else one for each use that clashes with one
// that begins no later.
func eachClash(uses []Use, visit func(a, b Use)) {
	if len(uses) <= fewUses {
		for i, b := range uses {
			for _, a := range uses[:i] {
				step()
				if (a.Access.Writes() || b.Access.Writes()) && a.overlaps(b) {
					visit(a, b)
				}
			}
		}
		return
	}
	order := slices.Clone(uses)
	slices.SortStableFunc(order, func(a, b Use) int {
		step()
		return cmp.Or(cmp.Compare(a.Data, b.Data), cmp.Compare(a.Offset, b.Offset))
	})
	// Of those before in the same data, the one that ends last, and of the writers.
	last, writer := order[0], Use{Data: -1}
	for i, u := range order {
		step()
		switch {
		case i > 0 && u.Access.Writes() && last.overlaps(u):
			visit(last, u)
		case writer.overlaps(u):
			visit(writer, u)
		}
		if u.Data != last.Data || u.Offset+u.Bytes > last.Offset+last.Bytes {
			last = u
		}
		if u.Access.Writes() && (u.Data != writer.Data || u.Offset+u.Bytes > writer.Offset+writer.Bytes) {
			writer = u
		}
	}
}

// maxItems is the largest number of items in a grid, which devices count as an int64: a
// count that wraps would leave items out unseen. Half of what an int64 holds leaves room
// to add parts of it.
const maxItems = 1 << 62

// checkLaunch checks how a step is launched.
func (b *Builder) checkLaunch(t *Task, step int) {
	l := &t.Steps[step].Launch
	if l.SharedBytes < 0 {
		b.fail(fmt.Errorf("%s: %w: step %d wants %d shared bytes", b.where(t), ErrSize, step, l.SharedBytes))
	}
	switch n := l.wrong; {
	case n > 0:
		b.fail(fmt.Errorf("%s: %w: the grid of step %d has %d items in a dimension, more than %d: make several tasks of it", b.where(t), ErrSize, step, n, uint32(math.MaxUint32)))
	case n < 0:
		b.fail(fmt.Errorf("%s: %w: the grid of step %d has %d items in a dimension: there must be one at least", b.where(t), ErrSize, step, n+1))
	case *l == Launch{}:
		b.checkUnlaunched(t, step)
	}
	g := &l.Grid
	if over, items := bits.Mul64(uint64(max(g[0], 1))*uint64(max(g[1], 1)), uint64(max(g[2], 1))); over > 0 || items > maxItems {
		b.fail(fmt.Errorf("%s: %w: the grid of step %d has %d × %d × %d items", b.where(t), ErrSize, step, g[0], g[1], g[2]))
	}
}

// checkUnlaunched reports a step without a launch in a task that uses a part of some data: it
// would compute the first item of that part and nothing else.
func (b *Builder) checkUnlaunched(t *Task, step int) {
	if k := t.Steps[step].Kernel; k == nil || !k.counts() {
		return
	}
	for _, u := range t.Uses {
		if u.Data < 0 || int(u.Data) >= len(b.data) || u.Offset < 0 || u.Bytes < 0 { // reported elsewhere
			continue
		}
		if d := &b.data[u.Data]; u.Offset == 0 && (u.Bytes == 0 || u.Bytes >= d.Bytes) {
			continue
		}
		b.fail(fmt.Errorf("%s: %w: step %d has no launch, and the task uses a part of data %q: say how many items it computes, as graph.Grid(n)", b.where(t), ErrSize, step, b.data[u.Data].Name))
		return
	}
}

// checkArgs checks a step's choice of arguments.
func (b *Builder) checkArgs(t *Task, step int) {
	args, most := t.Steps[step].Args, len(t.Uses)
	if args != nil && t.Gang > 1 {
		b.fail(fmt.Errorf("%s: %w: step %d chooses arguments, and steps of a gang have all of their rank", b.where(t), ErrValue, step))
	}
	if t.Workspace > 0 {
		most++
	}
	for _, a := range args {
		if a < 0 || a >= most {
			b.fail(fmt.Errorf("%s: %w: step %d has argument %d, and the task has %s", b.where(t), ErrUnknown, step, a, text.Count(most, "buffer")))
		}
	}
}

// overlaps reports whether two uses share bytes.
func (u Use) overlaps(v Use) bool {
	return u.Data == v.Data && u.Offset < v.Offset+v.Bytes && v.Offset < u.Offset+u.Bytes
}

func bad(x float64) bool { return x < 0 || math.IsNaN(x) || math.IsInf(x, 0) }

// where names a task for an error before it got its number.
func (b *Builder) where(t *Task) string {
	if t.Name != "" {
		return fmt.Sprintf("task %q", t.Name)
	}
	return fmt.Sprintf("task %d", len(b.tasks))
}

func (b *Builder) fail(err error) {
	if len(b.errs) >= maxErrors {
		b.more++
		return
	}
	b.errs = append(b.errs, err)
}

// unwritten is an ErrUnwritten that knows what it is about, so that Decode can
// find its line.
type unwritten struct {
	task TaskID // NoTask when the data is an output that nothing writes
	data DataID
	text string
}

func (e *unwritten) Error() string { return e.text }
func (e *unwritten) Unwrap() error { return ErrUnwritten }

// Build checks the whole and returns the graph, or all mistakes joined. Reads
// and outputs of data that was never written are looked for only when there is
// no other mistake, because a task with a mistake writes nothing. The builder
// must not be used afterwards.
func (b *Builder) Build() (*Graph, error) {
	for d := range b.data { // in order, not by map iteration
		b.settle(Use{Data: DataID(d), Bytes: b.data[d].Bytes, Access: Read})
	}
	if b.over != nil { // what else is wrong may be for want of the rest
		return nil, b.over
	}
	if b.named {
		b.checkNames()
	}
	if b.forward {
		b.forwardEdges()
	}
	if err := b.err(); err != nil {
		return nil, err
	}
	if err := b.stopped(); err != nil {
		return nil, err
	}
	g := &Graph{data: b.data, tasks: b.tasks}
	g.flow.cut(b.data, b.tasks)
	if err := cmp.Or(b.checkPieces(&g.flow), b.stopped()); err != nil {
		return nil, err
	}
	g.flow.assign(b.data, b.tasks, func(t TaskID, d DataID) {
		b.fail(&unwritten{t, d, fmt.Sprintf("%s: %v: data %q is no input and no earlier task writes it", b.name(t), ErrUnwritten, b.data[d].Name)})
	})
	for d := range b.data {
		if b.data[d].Output && slices.Contains(g.flow.Last[g.flow.PieceOff[d]:g.flow.PieceOff[d+1]], -1) {
			b.fail(&unwritten{NoTask, DataID(d), fmt.Sprintf("data %q: %v: it is an output but nothing writes all of it", b.data[d].Name, ErrUnwritten)})
		}
	}
	if err := cmp.Or(b.err(), b.stopped()); err != nil {
		return nil, err
	}
	b.spreadSecrets()
	g.flow.shapes(b.tasks)
	g.flow.weigh(b.data)
	seen := make(map[*Kernel]bool)
	var last *Kernel
	for i := range b.tasks {
		for _, s := range b.tasks[i].Steps {
			if s.Kernel != last && !seen[s.Kernel] {
				seen[s.Kernel] = true
				g.kernels = append(g.kernels, s.Kernel)
			}
			last = s.Kernel
		}
	}
	return g, nil
}

// spreadSecrets marks what tasks write that read secret data.
func (b *Builder) spreadSecrets() {
	secret := func(u Use) bool { return b.data[u.Data].Secret }
	if !slices.ContainsFunc(b.data, func(d Data) bool { return d.Secret }) {
		return
	}
	for i := range b.tasks {
		uses := b.tasks[i].Uses
		if !slices.ContainsFunc(uses, func(u Use) bool { return u.Access.Reads() && secret(u) }) {
			continue
		}
		for _, u := range uses {
			if u.Access.Writes() {
				b.data[u.Data].Secret = true
			}
		}
	}
}

// checkPieces refuses uses that have more pieces together than there may be.
func (b *Builder) checkPieces(f *Flow) error {
	pieces, most := int64(0), cmp.Or(b.mostPieces, math.MaxInt32)
	for i := range f.Uses {
		pieces += int64(f.Uses[i].P1 - f.Uses[i].P0)
	}
	if pieces > most {
		b.fail(fmt.Errorf("%w: the uses have %d pieces of data, more than the limit of %d; let slices begin and end at the same places", ErrSize, pieces, most))
	}
	return b.err()
}

// sameName is the mistake of data that has the name of other data before it.
type sameName struct {
	first DataID
	text  string
}

func (e *sameName) Error() string { return e.text }
func (e *sameName) Unwrap() error { return ErrName }

// checkNames reports data of equal names: bindings name data.
func (b *Builder) checkNames() {
	first := make(map[string]DataID, len(b.data))
	for d := range b.data {
		name := b.data[d].Name
		if other, twice := first[name]; twice {
			second := fmt.Sprintf("data %d", d)
			if slices.Contains(b.parts, DataID(d)) {
				second = "a part of a reduction"
			}
			b.fail(&sameName{other, fmt.Sprintf("data %q: %v: to data %d and to %s; rename it", name, ErrName, other, second)})
			continue
		}
		first[name] = DataID(d)
	}
}

func (b *Builder) err() error {
	if b.more > 0 {
		b.errs = append(b.errs, fmt.Errorf("and %d more", b.more))
		b.more = 0
	}
	return errors.Join(b.errs...)
}

// forwardEdges reports After edges that point at tasks added later. Data order
// is the order of Add, so such an edge is a cycle when the later task waits for
// the earlier one, and a mistake that is mended by adding it first when not.
func (b *Builder) forwardEdges() {
	const unseen, open, closed = 0, 1, 2
	state := make([]uint8, len(b.tasks))
	var path []TaskID
	var visit func(t TaskID) bool
	visit = func(t TaskID) bool {
		state[t] = open
		path = append(path, t)
		for _, p := range b.tasks[t].After {
			if p < 0 || int(p) >= len(b.tasks) || state[p] == closed {
				continue
			}
			if state[p] == open {
				names := ""
				for _, q := range path[slices.Index(path, p):] {
					names += b.name(q) + " after "
				}
				b.fail(fmt.Errorf("%w: %s%s", ErrCycle, names, b.name(p)))
				return true
			}
			if visit(p) {
				return true
			}
		}
		state[t] = closed
		path = path[:len(path)-1]
		return false
	}
	for i := range b.tasks {
		if state[i] == unseen && visit(TaskID(i)) {
			return
		}
	}
	for i := range b.tasks {
		for _, p := range b.tasks[i].After {
			switch {
			case int(p) >= len(b.tasks):
				b.fail(fmt.Errorf("%s: %w: after task %d, and the graph has %s", b.name(TaskID(i)), ErrUnknown, p, text.Count(len(b.tasks), "task")))
			case int(p) > i:
				b.fail(fmt.Errorf("%s: %w: after %s, which is added later; add it first", b.name(TaskID(i)), ErrUnknown, b.name(p)))
			}
		}
	}
}

func (b *Builder) name(id TaskID) string {
	if n := b.tasks[id].Name; n != "" {
		return fmt.Sprintf("task %q", n)
	}
	return fmt.Sprintf("task %d", id)
}
