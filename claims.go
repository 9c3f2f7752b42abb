package weft

import (
	"fmt"
	"math/rand/v2"
	"unsafe"
)

// claims is the memory that runs in progress have bound. A run may write memory that
// nothing else of it and no other run uses; any number may read the same. Claims are made
// and given back on the executor's loop, so no lock guards them.
type claims struct {
	read, written *claim // roots of two trees
	made          uint64
}

// claim is the memory of one binding of a run: a node of a treap that is ordered by
// address and knows the highest end below each node, so that an overlap is found in
// O(log n) steps among n claims.
type claim struct {
	from, to    uintptr // addresses; to is the first one after the memory
	highest     uintptr // end of any claim at or below this one
	left, right *claim
	call        *call
	port        int32
	chance      uint32 // no less than that of any claim below
	number      uint64 // orders claims of the same start
}

// claim notes what a call has bound, or errs and notes nothing.
func (cs *claims) claim(c *call) error {
	for i := range c.slots {
		mem := c.slots[i].mem
		if len(mem) == 0 {
			continue
		}
		start := uintptr(unsafe.Pointer(&mem[0]))
		output := c.p.ports[i].output
		other := cs.written.overlap(start, start+uintptr(len(mem)))
		if other == nil && output {
			other = cs.read.overlap(start, start+uintptr(len(mem)))
		}
		if other != nil {
			err := c.clash(i, other)
			cs.release(c)
			return err
		}
		cs.made++
		n := &c.claims[i]
		*n = claim{
			from: start, to: start + uintptr(len(mem)), call: c, port: int32(i), chance: rand.Uint32(), number: cs.made,
		}
		root := cs.root(output)
		*root = (*root).with(n)
	}
	return nil
}

// release gives back what a call has claimed.
func (cs *claims) release(c *call) {
	for i := range c.claims {
		if n := &c.claims[i]; n.call != nil {
			root := cs.root(c.p.ports[i].output)
			*root = (*root).without(n)
			*n = claim{}
		}
	}
}

func (cs *claims) root(output bool) **claim {
	if output {
		return &cs.written
	}
	return &cs.read
}

// clash says why a port of a call cannot have its memory.
func (c *call) clash(port int, other *claim) error {
	name, used := c.p.ports[port].name, other.call.p.ports[other.port].name
	if other.call == c {
		return fmt.Errorf("%w: data %q and data %q are bound to memory that overlaps, and one of them is an output; for memory that is read and written use one data (InOut)", ErrBinding, used, name)
	}
	return fmt.Errorf("%w: data %q is bound to memory that overlaps data %q of a run in progress, and one of them is an output; wait for that run, or bind other memory",
		ErrBinding, name, used)
}

// overlap returns a claim of a tree that has some of the memory, or nil. Where a claim to
// the left ends after from and none there overlaps, one begins after to, and so do all
// further to the right.
func (t *claim) overlap(from, to uintptr) *claim {
	for t != nil && t.highest > from {
		switch {
		case t.left != nil && t.left.highest > from:
			t = t.left
		case t.from < to && t.to > from:
			return t
		default:
			t = t.right
		}
	}
	return nil
}

// before reports the order of claims in a tree.
func (t *claim) before(o *claim) bool {
	return t.from < o.from || t.from == o.from && t.number < o.number
}

// sum recomputes the fields of a node that summarise the nodes below it.
func (t *claim) sum() *claim {
	t.highest = t.to
	if t.left != nil {
		t.highest = max(t.highest, t.left.highest)
	}
	if t.right != nil {
		t.highest = max(t.highest, t.right.highest)
	}
	return t
}

// with returns a tree with a claim more.
func (t *claim) with(n *claim) *claim {
	switch {
	case t == nil:
		return n.sum()
	case n.chance > t.chance:
		n.left, n.right = t.divide(n)
		return n.sum()
	case n.before(t):
		t.left = t.left.with(n)
	default:
		t.right = t.right.with(n)
	}
	return t.sum()
}

// divide makes two trees of one: what comes before a claim, and what comes after it.
func (t *claim) divide(n *claim) (before, after *claim) {
	switch {
	case t == nil:
		return nil, nil
	case n.before(t):
		before, t.left = t.left.divide(n)
		return before, t.sum()
	}
	t.right, after = t.right.divide(n)
	return t.sum(), after
}

// without returns a tree without a claim that is in it.
func (t *claim) without(n *claim) *claim {
	switch {
	case t == n:
		return t.left.join(t.right)
	case n.before(t):
		t.left = t.left.without(n)
	default:
		t.right = t.right.without(n)
	}
	return t.sum()
}

// join makes one tree of two, the first of which comes before the second.
func (t *claim) join(after *claim) *claim {
	switch {
	case t == nil:
		return after
	case after == nil:
		return t
	case t.chance > after.chance:
		t.right = t.right.join(after)
		return t.sum()
	}
	after.left = t.join(after.left)
	return after.sum()
}
