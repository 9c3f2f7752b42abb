package sim

import (
	"slices"

	"github.com/weft-run/weft/graph"
)

// The oracle does not run kernels. It follows which bytes are where: every
// write gives its bytes an identity computed from what the task is and what it
// read, copies carry identities along, and a schedule is right when every task
// read, and every output ended up with, the identities that running the tasks
// one after the other gives.

// span says that bytes [Lo, Hi) of a buffer hold bytes Off and following of
// the value ID.
type span struct {
	Lo, Hi int64
	ID     uint64
	Off    int64
}

// content is the content of a buffer: spans in ascending order, with gaps where
// nothing was ever written. Spans that continue one another are always merged,
// so equal bytes have equal contents.
type content []span

// tornBit marks the identity of bytes an operation is writing, or began to
// write and never finished. The other bits are the operation's serial number.
const tornBit = 1 << 63

// put makes bytes [lo, hi) hold bytes off and following of the value id.
func (c content) put(lo, hi int64, id uint64, off int64) content {
	// Spans [i, j) overlap or touch [lo, hi).
	i, _ := slices.BinarySearchFunc(c, lo, func(s span, lo int64) int { return cmpLess(s.Hi < lo) })
	j := i
	for j < len(c) && c[j].Lo <= hi {
		j++
	}
	var cut [3]span // what is left of the first and last around the new span
	n := 0
	add := func(s span) {
		if s.Lo >= s.Hi {
			return
		}
		if n > 0 {
			if p := &cut[n-1]; p.Hi == s.Lo && p.ID == s.ID && p.Off+(p.Hi-p.Lo) == s.Off {
				p.Hi = s.Hi
				return
			}
		}
		cut[n] = s
		n++
	}
	if i < j {
		f := c[i]
		f.Hi = min(f.Hi, lo)
		add(f)
	}
	add(span{lo, hi, id, off})
	if i < j {
		l := c[j-1]
		if l.Lo < hi {
			l.Off += hi - l.Lo
			l.Lo = hi
		}
		add(l)
	}
	return slices.Replace(c, i, j, cut[:n]...)
}

// cmpLess turns "before the target" into a comparison for a binary search that
// stops at the first element that is not.
func cmpLess(before bool) int {
	if before {
		return -1
	}
	return 1
}

// from returns the index of the first span that reaches past lo.
func (c content) from(lo int64) int {
	i, _ := slices.BinarySearchFunc(c, lo, func(s span, lo int64) int { return cmpLess(s.Hi <= lo) })
	return i
}

// state tells whether an interval of a buffer can be read.
type state uint8

const (
	whole state = iota
	unset       // some byte was never written
	torn        // some byte is being written or its write failed
)

// sum returns a hash of what bytes [lo, hi) hold and whether all of them hold
// something. Equal contents at different places have equal sums.
func (c content) sum(lo, hi int64) (uint64, state) {
	h := mix(0, uint64(hi-lo))
	at := lo
	for i := c.from(lo); i < len(c) && c[i].Lo < hi; i++ {
		s := c[i]
		if s.ID&tornBit != 0 {
			return 0, torn
		}
		if s.Lo > at {
			return 0, unset
		}
		a, b := max(s.Lo, lo), min(s.Hi, hi)
		h = mix(mix(mix(h, uint64(a-lo)), s.ID), uint64(s.Off+a-s.Lo))
		at = b
	}
	if at < hi {
		return 0, unset
	}
	return h, whole
}

// copyFrom makes bytes [to, to+n) hold what bytes [at, at+n) of src hold.
func (c content) copyFrom(to int64, src content, at, n int64) content {
	for i := src.from(at); i < len(src) && src[i].Lo < at+n; i++ {
		s := src[i]
		a, b := max(s.Lo, at), min(s.Hi, at+n)
		c = c.put(to+a-at, to+b-at, s.ID, s.Off+a-s.Lo)
	}
	return c
}

// expected is the content of all data after the tasks of a graph ran in order.
type expected struct {
	sums  []uint64 // for each use of each task (as in Flow.Uses), what it reads
	ids   []uint64 // the identity it writes
	final []content
}

// Final returns what data holds after the last task.
func (x *expected) Final(d graph.DataID) content { return x.final[d] }

// sequential runs a graph's tasks in order on plain data, one buffer for each
// handle. inputs gives what input data holds at first.
func sequential(g *graph.Graph, inputs func(graph.DataID) content) *expected {
	f := g.Flow()
	x := &expected{
		sums:  make([]uint64, len(f.Uses)),
		ids:   make([]uint64, len(f.Uses)),
		final: make([]content, g.NumData()),
	}
	for d := range x.final {
		if g.Data(graph.DataID(d)).Input {
			x.final[d] = slices.Clone(inputs(graph.DataID(d)))
		}
	}
	for i := range g.NumTasks() {
		t := g.Task(graph.TaskID(i))
		sums := x.sums[f.Rows[i].Use:f.Rows[i+1].Use]
		for k, u := range t.Uses {
			if u.Access.Reads() {
				sums[k], _ = x.final[u.Data].sum(u.Offset, u.Offset+u.Bytes)
			}
		}
		h := taskHash(i, t, sums)
		for k, u := range t.Uses {
			if u.Access.Writes() {
				id := mix(h, uint64(k)) &^ tornBit
				x.ids[int(f.Rows[i].Use)+k] = id
				x.final[u.Data] = x.final[u.Data].put(u.Offset, u.Offset+u.Bytes, id, 0)
			}
		}
	}
	return x
}

// taskHash identifies a task's results: what it runs and what it read. Its
// number counts too, so that equal tasks' results cannot be mixed up unseen.
func taskHash(i int, t *graph.Task, sums []uint64) uint64 {
	h := mix(uint64(i), uint64(len(t.Steps)))
	for k := range t.Steps {
		h = mixBytes(h, t.Steps[k].Kernel.Name)
		h = mixBytes(h, t.Steps[k].Params)
	}
	for k, u := range t.Uses {
		if u.Access.Reads() {
			h = mix(h, sums[k])
		}
	}
	return h
}

// initial returns the content of an input of a run: bytes of a value of its own.
func initial(run int64, d graph.DataID, bytes int64) content {
	return content{{0, bytes, mix(mix(1, uint64(run)), uint64(d)) &^ tornBit, 0}}
}

// mix combines two words (the finalizer of splitmix64 over their sum with an
// odd constant).
func mix(h, x uint64) uint64 {
	z := h*0x9e3779b97f4a7c15 + x + 0x632be59bd9b4e019
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func mixBytes[T string | []byte](h uint64, s T) uint64 {
	h = mix(h, uint64(len(s)))
	for i := range len(s) {
		h = mix(h, uint64(s[i]))
	}
	return h
}
