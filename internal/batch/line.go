package batch

import (
	"math/bits"
	"time"
)

const (
	// Levels is how many priorities are told apart: MinPriority to MinPriority+Levels-1.
	// Those beyond count as the nearest.
	Levels = 16
	// MinPriority is the lowest priority.
	MinPriority = -8
	// turns is how often the one that has gone longest without comes first, whatever its
	// priority: every eighth time. Of the requests taken from a group, a level that has
	// waiting ones therefore gets at least one in turns times the number of such levels,
	// and of the batches a model that could have run one in turns times that of such models.
	turns = 8
)

// load is an amount of work.
type load struct {
	items, examples, length int
}

func (l *load) add(it *Item)    { l.items++; l.examples += it.Examples; l.length += it.Length }
func (l *load) remove(it *Item) { l.items--; l.examples -= it.Examples; l.length -= it.Length }

// group is the waiting items of a model that may be computed together.
type group struct {
	model *Model
	key   string
	load  load
	// again are items whose batch failed or was lost. They go before all others.
	again list
	// levels are by priority; mask has a bit for each that has items.
	levels [Levels]level
	mask   uint32
	// picks counts items taken while more than one level had some.
	picks uint64
	// largest is the most examples an item has had: what a client may take in its turn.
	largest int
	// since is when the group last became other than empty, and urgent the earliest
	// deadline that was there since.
	since, urgent time.Duration
	// due is until when it waits for more items; ready says that it does not wait any more.
	due   time.Duration
	ready bool
	// gap is the mean time between arrivals, last that of the latest; gap is 0 before
	// the second.
	gap, last time.Duration
	taken     uint64 // number of the latest batch taken from it
	// places in the heaps of the machine and the model
	inDue, inTop, inOld int
}

// level is the items of a group that have one priority, by client.
type level struct {
	lines  map[string]*line
	turn   *line // whose turn it is, in a ring of lines that have items
	load   load
	picked uint64 // group.picks when it was last picked from, or became other than empty
}

// line is the items of a client, the oldest first. Clients take turns by deficit round
// robin: in its turn a client gets group.largest examples of credit, and has as many items
// taken as its credit pays for.
type line struct {
	client     string
	items      list
	load       load
	credit     int
	inTurn     bool // it has got its credit for this turn
	prev, next *line
}

// list is a doubly linked list of items.
type list struct{ head, tail *Item }

func (l *list) push(it *Item) {
	it.prev, it.next = l.tail, nil
	if l.tail == nil {
		l.head = it
	} else {
		l.tail.next = it
	}
	l.tail = it
}

func (l *list) remove(it *Item) {
	if it.prev == nil {
		l.head = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		l.tail = it.prev
	} else {
		it.next.prev = it.prev
	}
	it.prev, it.next = nil, nil
}

// levelOf is the level of a priority.
func levelOf(priority int) int {
	return min(max(priority, MinPriority), MinPriority+Levels-1) - MinPriority
}

// add puts an item at the end of its line, or of those to be computed again.
func (g *group) add(it *Item) {
	g.load.add(it)
	g.largest = max(g.largest, it.Examples)
	if it.tries > 0 {
		g.again.push(it)
		return
	}
	n := levelOf(it.Priority)
	l := &g.levels[n]
	if g.mask&(1<<n) == 0 {
		g.mask |= 1 << n
		l.picked = g.picks
	}
	if l.lines == nil {
		l.lines = make(map[string]*line)
	}
	ln := l.lines[it.Client]
	if ln == nil {
		ln = &line{client: it.Client}
		l.lines[it.Client] = ln
		if l.turn == nil {
			ln.prev, ln.next, l.turn = ln, ln, ln
		} else { // the last to have its turn
			ln.prev, ln.next = l.turn.prev, l.turn
			ln.prev.next, ln.next.prev = ln, ln
		}
	}
	ln.items.push(it)
	ln.load.add(it)
	l.load.add(it)
}

// remove takes an item out.
func (g *group) remove(it *Item) {
	g.load.remove(it)
	if it.tries > 0 {
		g.again.remove(it)
		return
	}
	n := levelOf(it.Priority)
	l := &g.levels[n]
	ln := l.lines[it.Client]
	ln.items.remove(it)
	ln.load.remove(it)
	l.load.remove(it)
	if ln.items.head != nil {
		return
	}
	delete(l.lines, it.Client)
	switch {
	case ln.next == ln:
		l.turn = nil
		g.mask &^= 1 << n
	default:
		ln.prev.next, ln.next.prev = ln.next, ln.prev
		if l.turn == ln {
			l.turn = ln.next
		}
	}
}

// top is the highest level that has items.
func (g *group) top() int {
	if g.again.head != nil {
		return Levels
	}
	return bits.Len32(g.mask) - 1
}

// next returns the item to be taken next, nil if there is none. Asked again it returns the
// same, until something is added or removed.
func (g *group) next(steps *uint64) *Item {
	if g.again.head != nil {
		return g.again.head
	}
	if g.mask == 0 {
		return nil
	}
	n := g.top()
	if g.mask&(g.mask-1) != 0 && (g.picks+1)%turns == 0 {
		for i := range g.levels {
			if g.mask&(1<<i) != 0 && g.levels[i].picked < g.levels[n].picked {
				n = i
			}
		}
	}
	l := &g.levels[n]
	for {
		*steps++
		ln := l.turn
		if !ln.inTurn {
			ln.inTurn = true
			ln.credit += g.largest
		}
		if ln.credit >= ln.items.head.Examples {
			return ln.items.head
		}
		ln.inTurn = false
		l.turn = ln.next
	}
}

// take removes what next returned and has its client pay for it.
func (g *group) take(it *Item) {
	if it.tries == 0 {
		l := &g.levels[levelOf(it.Priority)]
		if g.mask&(g.mask-1) != 0 {
			g.picks++
		}
		l.picked = g.picks
		l.lines[it.Client].credit -= it.Examples
	}
	g.remove(it)
}

// empty says whether the group has no items.
func (g *group) empty() bool { return g.load.items == 0 }
