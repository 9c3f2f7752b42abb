package sim

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// The oracle's half of the hardware: what every buffer holds, who uses it, and
// whether that is what the sequential run has there. See content.go for what
// "holds" means.

// run is the oracle's record of a submitted graph.
type run struct {
	graph *graph.Graph
	bind  []engine.Binding
	want  *expected // nil until its first launch or its end
	homes map[graph.DataID]engine.Inst
	done  bool
	loose bool // it began from undefined bytes, so its results are undefined too
}

// resident is the oracle's record of data that outlives runs.
type resident struct {
	home    engine.Inst
	kind    graph.Durability
	content content // as the runs that ended well left it
	loose   bool    // it is volatile, and a run failed that writes it
}

// Begin tells the oracle what a run is, before the engine's first action for it.
func (h *hardware) Begin(id engine.RunID, g *graph.Graph, bind []engine.Binding) {
	if h.check {
		h.runs[id] = &run{graph: g, bind: bind, homes: make(map[graph.DataID]engine.Inst)}
	}
}

// BeginData tells the oracle of resident data.
func (h *hardware) BeginData(ref engine.DataRef, d graph.Data) {
	if h.check {
		h.resident[ref] = &resident{home: engine.NoInst, kind: d.Durability, content: initial(0, graph.DataID(ref), d.Bytes)}
	}
}

// expected returns what a run should compute. What resident data holds at first
// is known once the run has started: runs that write it take turns.
func (h *hardware) expected(id engine.RunID, r *run) *expected {
	if r.want == nil {
		for _, b := range r.bind {
			r.loose = r.loose || h.resident[b.Ref].loose
		}
		r.want = sequential(r.graph, func(d graph.DataID) content {
			for _, b := range r.bind {
				if b.Data == d {
					return h.resident[b.Ref].content
				}
			}
			return initial(int64(id), d, r.graph.Data(d).Bytes)
		})
	}
	return r.want
}

// home gives a run's input data, or resident data, its first content.
func (h *hardware) home(a *engine.Action, in *instance) {
	if !h.check {
		return
	}
	if in.device != machine.Host {
		h.violation("home of instance %d in the memory of %s", a.Inst, h.name(a.Device))
		return
	}
	if a.Run == 0 {
		d := h.resident[a.Ref]
		if d == nil || d.home != engine.NoInst {
			h.violation("home of resident data %d, which is unknown or has one", a.Ref)
			return
		}
		d.home = a.Inst
		in.content = append(in.content, d.content...)
		return
	}
	r := h.runs[a.Run]
	switch {
	case r == nil || int(a.Data) >= r.graph.NumData():
		h.violation("home of data %d of run %d, which is unknown", a.Data, a.Run)
	case a.Bytes != r.graph.Data(a.Data).Bytes:
		h.violation("home of data %q with %d bytes; it has %d", r.graph.Data(a.Data).Name, a.Bytes, r.graph.Data(a.Data).Bytes)
	default:
		r.homes[a.Data] = a.Inst
		if r.graph.Data(a.Data).Input {
			in.content = append(in.content, initial(int64(a.Run), a.Data, a.Bytes)...)
		}
	}
}

// finish checks what a run, or a fetch of resident data, came to.
func (h *hardware) finish(a *engine.Action) {
	if !h.check {
		return
	}
	if a.Run == 0 {
		if d := h.resident[a.Ref]; d == nil {
			h.violation("fetch of resident data %d, which is unknown", a.Ref)
		} else if a.Err == nil && !d.loose {
			h.compare(fmt.Sprintf("fetch of resident data %d", a.Ref), d.home, d.content)
		}
		return
	}
	r := h.runs[a.Run]
	if r == nil || r.done {
		h.violation("run %d is done, and was unknown or done before", a.Run)
		return
	}
	r.done = true
	if len(r.bind) == 0 {
		delete(h.runs, a.Run) // what resident data came from may be computed again
	}
	want := h.expected(a.Run, r)
	if a.Err != nil || r.loose {
		h.loosen(r)
		return
	}
	for d := range r.graph.NumData() {
		id := graph.DataID(d)
		if i := slices.IndexFunc(r.bind, func(b engine.Binding) bool { return b.Data == id }); i >= 0 {
			h.resident[r.bind[i].Ref].content = want.Final(id)
			continue
		}
		if data := r.graph.Data(id); data.Output {
			home, ok := r.homes[id]
			if !ok {
				home = engine.NoInst
			}
			h.compare(fmt.Sprintf("output %q of run %d", data.Name, a.Run), home, want.Final(id))
		}
	}
}

// loosen marks resident data as undefined that a run wrote which failed or began
// from undefined data. A run that failed changes volatile data only.
func (h *hardware) loosen(r *run) {
	for i := range r.graph.NumTasks() {
		for _, u := range r.graph.Task(graph.TaskID(i)).Uses {
			if k := slices.IndexFunc(r.bind, func(b engine.Binding) bool { return b.Data == u.Data }); k >= 0 && u.Access.Writes() {
				d := h.resident[r.bind[k].Ref]
				d.loose = d.loose || r.loose || d.kind == graph.Volatile
			}
		}
	}
}

// compare checks what a home holds.
func (h *hardware) compare(what string, home engine.Inst, want content) {
	in := h.inst(home)
	if in == nil || in.status != live {
		h.violation("%s has no home", what)
	} else if !slices.Equal(in.content, want) {
		h.violation("%s is wrong: its home %d holds %v and should hold %v", what, home, in.content, want)
	}
}

// use counts an operation among the users of the instances it names.
func (h *hardware) use(o *op, n int32) {
	one := func(i engine.Inst) {
		in := h.inst(i)
		if in == nil || in.status != live {
			if n > 0 {
				h.violation("%s: instance %d is not live", h.describe(o), i)
			}
			return
		}
		in.inUse += n
	}
	if !o.launch {
		one(o.src)
		one(o.dst)
		return
	}
	for _, a := range o.args {
		one(a.Inst)
	}
}

// checkLaunch checks that a launch finds what it reads, and tears what it
// writes until it ends.
func (h *hardware) checkLaunch(o *op) {
	r := h.runs[o.run]
	if r == nil || r.graph != o.graph {
		h.violation("%s: its run is unknown or done", h.describe(o))
		return
	}
	t := o.graph.Task(o.task)
	sums := h.expected(o.run, r).sums[o.graph.Flow().Rows[o.task].Use:]
	k := 0
	for i := range t.Uses {
		u := &t.Uses[i]
		if u.Rank != o.rank {
			continue
		}
		if k >= len(o.args) || o.args[k].Bytes != u.Bytes {
			h.violation("%s: argument %d does not cover %d bytes of %q", h.describe(o), k, u.Bytes, o.graph.Data(u.Data).Name)
			return
		}
		a := &o.args[k]
		k++
		in := h.reach(o, a)
		if in == nil {
			return
		}
		if u.Access.Reads() {
			sum, st := in.content.sum(a.Offset, a.Offset+a.Bytes)
			if st != whole || sum != sums[i] && !r.loose {
				h.violation("%s: argument %d (%q) in instance %d %s", h.describe(o), k-1, o.graph.Data(u.Data).Name, a.Inst, unfit(st))
				return
			}
		}
	}
	if t.Workspace > 0 {
		if k >= len(o.args) || o.args[k].Bytes < t.Workspace {
			h.violation("%s: no workspace of %d bytes", h.describe(o), t.Workspace)
			return
		}
		if h.reach(o, &o.args[k]) == nil {
			return
		}
		h.tear(o, &o.args[k])
		k++
	}
	if k != len(o.args) {
		h.violation("%s: %d arguments instead of %d", h.describe(o), len(o.args), k)
		return
	}
	h.writes(o, func(a *engine.Arg, _ int) { h.tear(o, a) })
}

// writes calls do for every argument a launch writes, with the number of the
// use among its task's.
func (h *hardware) writes(o *op, do func(a *engine.Arg, use int)) {
	t := o.graph.Task(o.task)
	k := 0
	for i := range t.Uses {
		if t.Uses[i].Rank != o.rank {
			continue
		}
		if t.Uses[i].Access.Writes() {
			do(&o.args[k], i)
		}
		k++
	}
}

// reach returns the instance of an argument if the launch can touch it.
func (h *hardware) reach(o *op, a *engine.Arg) *instance {
	in := h.inst(a.Inst)
	switch {
	case in == nil || in.status != live:
		h.violation("%s: instance %d is not live", h.describe(o), a.Inst)
	case a.Offset < 0 || a.Offset+a.Bytes > in.bytes:
		h.violation("%s: bytes %d to %d of instance %d, which has %d", h.describe(o), a.Offset, a.Offset+a.Bytes, a.Inst, in.bytes)
	case in.device != h.machine.MemoryOf(o.device):
		h.violation("%s: instance %d is in the memory of %s", h.describe(o), a.Inst, h.name(in.device))
	default:
		return in
	}
	return nil
}

// tear marks the bytes of an argument as being written by o. Two writers at
// once are caught when the first ends and finds the other's mark.
func (h *hardware) tear(o *op, a *engine.Arg) {
	in := &h.insts[a.Inst]
	in.content = in.content.put(a.Offset, a.Offset+a.Bytes, tornBit|o.serial, a.Offset)
}

// mine reports whether the bytes an operation was writing still carry its mark.
func (h *hardware) mine(o *op, i engine.Inst, lo, hi int64) bool {
	c := h.insts[i].content
	for k := c.from(lo); lo < hi; k++ {
		if k == len(c) || c[k].Lo > lo || c[k].ID != tornBit|o.serial {
			return false
		}
		lo = c[k].Hi
	}
	return true
}

// checkCopy checks that a copy finds its source, and tears its destination.
func (h *hardware) checkCopy(o *op) {
	src, dst := h.inst(o.src), h.inst(o.dst)
	switch {
	case src.status != live || dst.status != live:
		h.violation("%s: an end is not live", h.describe(o))
	case o.bytes <= 0 || o.srcOff < 0 || o.dstOff < 0 || o.srcOff+o.bytes > src.bytes || o.dstOff+o.bytes > dst.bytes:
		h.violation("%s: %d bytes from %d of %d to %d of %d", h.describe(o), o.bytes, o.srcOff, src.bytes, o.dstOff, dst.bytes)
	case src.device != h.machine.MemoryOf(o.from) || dst.device != h.machine.MemoryOf(o.device):
		h.violation("%s: its instances are in the memories of %s and %s", h.describe(o), h.name(src.device), h.name(dst.device))
	default:
		sum, st := src.content.sum(o.srcOff, o.srcOff+o.bytes)
		if st != whole {
			h.violation("%s: its source %s", h.describe(o), unfit(st))
			return
		}
		o.sum = sum
		dst.content = dst.content.put(o.dstOff, o.dstOff+o.bytes, tornBit|o.serial, o.dstOff)
	}
}

func unfit(s state) string {
	switch s {
	case unset:
		return "holds bytes that were not written"
	case torn:
		return "is being written, or its write failed"
	}
	return "holds another value than the sequential run has there"
}

// commit gives an operation's destination its content, having checked that
// nothing else touched it or what it read meanwhile.
func (h *hardware) commit(o *op) {
	if !o.launch {
		src, dst := &h.insts[o.src], &h.insts[o.dst]
		if sum, st := src.content.sum(o.srcOff, o.srcOff+o.bytes); st != whole || sum != o.sum {
			h.violation("%s: its source changed under it", h.describe(o))
			return
		}
		if !h.mine(o, o.dst, o.dstOff, o.dstOff+o.bytes) {
			h.violation("%s: its destination changed under it", h.describe(o))
			return
		}
		dst.content = dst.content.copyFrom(o.dstOff, src.content, o.srcOff, o.bytes)
		return
	}
	r := h.runs[o.run]
	if r == nil {
		h.violation("%s: ended after its run", h.describe(o))
		return
	}
	t := o.graph.Task(o.task)
	first := int(o.graph.Flow().Rows[o.task].Use)
	k := 0
	for i := range t.Uses {
		if t.Uses[i].Rank != o.rank {
			continue
		}
		a := &o.args[k]
		k++
		if t.Uses[i].Access != graph.Read {
			continue
		}
		sum, st := h.insts[a.Inst].content.sum(a.Offset, a.Offset+a.Bytes)
		if st != whole || sum != r.want.sums[first+i] && !r.loose {
			h.violation("%s: argument %d changed under it", h.describe(o), k-1)
			return
		}
	}
	h.writes(o, func(a *engine.Arg, use int) {
		if h.err == nil && !h.mine(o, a.Inst, a.Offset, a.Offset+a.Bytes) {
			h.violation("%s: what it writes changed under it", h.describe(o))
			return
		}
		in := &h.insts[a.Inst]
		in.content = in.content.put(a.Offset, a.Offset+a.Bytes, r.want.ids[first+use], 0)
	})
}
