package graph

import (
	"slices"
	"time"
)

// Fusion says which tasks Fuse makes one, and how large that may become.
type Fusion struct {
	// From is the least number of steps of a fused task, Upto the largest.
	From, Upto int
	// Bytes is the most memory that a fused task may use. All its buffers are on the
	// device at the same time, whereas separate tasks need theirs one after another.
	Bytes int64
	// Takes predicts a task. Tasks longer than Short are not fused, and a fused task
	// takes no longer than Long: it is retried as a whole, and on one device.
	Takes       func(TaskID) time.Duration
	Short, Long time.Duration
	// Where numbers the sets of devices that can run a task. Only tasks that the
	// same devices can run are fused.
	Where func(TaskID) int
	// Timeout bounds tasks that name no timeout of their own; 0 means nothing
	// does. A fused task may take what its tasks may take together.
	Timeout time.Duration
}

// fusedParams is the most bytes of parameters of a fused task. A launch in another
// process is one record with all of them, whose size is bounded.
const fusedParams = 32 << 10

// Fuse returns a graph that does the same in fewer tasks. A chain, in which each task
// waits for the one before and no other task waits for any but the last, becomes one
// task with all their steps, each with its own arguments. Besides one another, the
// tasks of a chain may wait only for what the first one waits for.
//
// Data keeps its number and every value that other tasks or the caller can see. Tasks
// get new numbers, and a fused task is named after its first and last. Fuse does not
// fuse tasks that differ in priority, retries, unit, the devices that can run them or
// whether they have a timeout, that name NoTimeout, are gangs, write mirrored data, or
// use slices that overlap without being equal. Where it fuses none, Fuse returns g.
func Fuse(g *Graph, how Fusion) *Graph {
	if g == nil {
		return nil
	}
	f := fuser{g: g, how: how, in: make([]TaskID, len(g.tasks)), before: make([]TaskID, len(g.tasks))}
	for t := range f.in {
		f.in[t], f.before[t] = NoTask, NoTask
	}
	runs := make(map[TaskID][]TaskID) // by the first
	for t := range g.tasks {
		if f.in[t] == NoTask {
			if run := f.from(TaskID(t)); run != nil {
				runs[TaskID(t)] = run
			}
		}
	}
	if len(runs) == 0 {
		return g
	}
	var b Builder
	for _, d := range g.data {
		b.Data(d)
	}
	number := make([]TaskID, len(g.tasks)) // in the new graph
	for i := range g.tasks {
		t := TaskID(i)
		switch run := runs[t]; {
		case run != nil:
			whole := f.join(run)
			whole.After = renumber(whole.After, number)
			id := b.Add(whole)
			for _, m := range run {
				number[m] = id
			}
		case f.in[t] == NoTask:
			task := g.tasks[t]
			task.After = renumber(task.After, number)
			number[t] = b.Add(task)
		}
	}
	fused, err := b.Build()
	if err != nil {
		panic("graph: fused tasks make no graph: " + err.Error())
	}
	return fused
}

func renumber(tasks []TaskID, number []TaskID) []TaskID {
	out := slices.Clone(tasks)
	for i := range out {
		out[i] = number[out[i]]
	}
	return out
}

// fuser looks for tasks to fuse. Both lists hold the first task of a run: the one
// a task was taken into, and the last one looked at that waits for it.
type fuser struct {
	g          *Graph
	how        Fusion
	in, before []TaskID
}

// from returns the longest run of tasks from one on that is worth fusing, nil for
// none, and marks them as taken.
func (f *fuser) from(first TaskID) []TaskID {
	flow := &f.g.flow
	var u fusedTask
	if !f.add(&u, first) {
		return nil
	}
	for _, p := range flow.Preds(first) {
		f.before[p] = first
	}
	run := []TaskID{first}
	f.in[first] = first
	// A run may end where only its last task has successors outside.
	out := len(flow.Succs(first)) // edges out of the run
	ends, steps := 1, u.steps
	for last := first; len(flow.Succs(last)) > 0; {
		next := TaskID(flow.Succs(last)[0])
		inside := 0
		ok := true
		for _, p := range flow.Preds(next) {
			switch {
			case f.in[p] == first:
				inside++
			case f.before[p] != first:
				ok = false
			}
		}
		if !ok || !f.alike(first, next) || !f.add(&u, next) {
			break
		}
		run, last = append(run, next), next
		f.in[next] = first
		if out += len(flow.Succs(next)) - inside; out == len(flow.Succs(next)) {
			ends, steps = len(run), u.steps
		}
	}
	if ends == 1 || steps < f.how.From {
		ends = 0
	}
	for _, t := range run[ends:] {
		f.in[t] = NoTask
	}
	if ends == 0 {
		return nil
	}
	return run[:ends]
}

// alike reports whether two tasks are treated alike.
func (f *fuser) alike(a, b TaskID) bool {
	x, y := &f.g.tasks[a], &f.g.tasks[b]
	return f.how.Where(a) == f.how.Where(b) && x.Priority == y.Priority && x.Retries == y.Retries && x.Work.Unit == y.Work.Unit &&
		(x.Timeout > 0) == (y.Timeout > 0) && x.Timeout >= 0 && y.Timeout >= 0 && x.On.Hint == y.On.Hint && slices.Equal(x.On.Only, y.On.Only)
}

// fusedTask is the union of the needs of consecutive tasks.
type fusedTask struct {
	uses          []Use
	steps, params int
	bytes         int64
	workspace     int64
	takes         time.Duration
}

// add takes a task into u and reports whether it may be in it. The fused task is of
// no use when it may not.
func (f *fuser) add(u *fusedTask, id TaskID) bool {
	t := &f.g.tasks[id]
	takes := f.how.Takes(id)
	u.steps += len(t.Steps)
	u.takes += takes
	if t.Gang > 1 || takes > f.how.Short || u.takes > f.how.Long || u.steps > f.how.Upto {
		return false
	}
	for i := range t.Steps {
		u.params += len(t.Steps[i].Params)
	}
	for _, use := range t.Uses {
		if use.Access.Writes() && f.g.data[use.Data].Durability == Mirrored {
			return false
		}
		n := len(u.uses)
		if u.uses, _ = merge(u.uses, use); u.uses == nil {
			return false
		}
		if len(u.uses) > n {
			u.bytes += use.Bytes
		}
	}
	u.workspace = max(u.workspace, t.Workspace)
	return u.bytes+u.workspace <= f.how.Bytes && u.params <= fusedParams
}

// merge adds a use to the uses of the tasks before and returns its index. It returns
// nil if the use shares bytes with a different slice and one of the two writes: both
// would have to lie in one buffer.
func merge(uses []Use, u Use) ([]Use, int) {
	at := -1
	for i := range uses {
		switch w := &uses[i]; {
		case !w.overlaps(u):
		case w.Offset == u.Offset && w.Bytes == u.Bytes:
			at = i
		case w.Access.Writes() || u.Access.Writes():
			return nil, -1
		}
	}
	if at < 0 {
		return append(uses, u), len(uses)
	}
	if uses[at].Access == Read && u.Access.Writes() {
		uses[at].Access = ReadWrite
	}
	return uses, at
}

// join makes one task of a run.
func (f *fuser) join(run []TaskID) Task {
	const scratch = -1 // stands for the workspace until it has a number
	first, last := &f.g.tasks[run[0]], run[len(run)-1]
	whole := Task{
		Name: f.g.TaskName(run[0]) + " … " + f.g.TaskName(last), Work: Work{Unit: first.Work.Unit},
		Priority: first.Priority, On: first.On, Retries: first.Retries,
	}
	for _, id := range run {
		t := &f.g.tasks[id]
		at := make([]int, 0, len(t.Uses)+1) // where its arguments are
		for _, u := range t.Uses {
			var i int
			whole.Uses, i = merge(whole.Uses, u)
			at = append(at, i)
		}
		if t.Workspace > 0 {
			at = append(at, scratch)
		}
		for _, s := range t.Steps {
			args := at
			if s.Args != nil {
				args = make([]int, len(s.Args))
				for i, a := range s.Args {
					args[i] = at[a]
				}
			}
			s.Args = slices.Clone(args)
			whole.Steps = append(whole.Steps, s)
		}
		for _, p := range t.After {
			if f.in[p] != run[0] {
				whole.After = append(whole.After, p)
			}
		}
		whole.Work.Ops += t.Work.Ops
		whole.Work.Bytes += t.Work.Bytes
		whole.Workspace = max(whole.Workspace, t.Workspace)
		limit := t.Timeout
		if limit == 0 {
			limit = f.how.Timeout
		}
		whole.Timeout += limit
	}
	for i := range whole.Steps {
		for k, a := range whole.Steps[i].Args {
			if a == scratch {
				whole.Steps[i].Args[k] = len(whole.Uses)
			}
		}
	}
	return whole
}
