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
	// priority: every eighth time. Of the requests taken from a queue, a level that has
	// waiting ones therefore gets at least one in turns times the number of such levels,
	// and of the batches a model that could have run one in turns times that of such models.
	turns = 8
)

// load is an amount of work.
type load struct {
	items, examples int
}

func (l *load) add(it *Item)    { l.items++; l.examples += it.Examples }
func (l *load) remove(it *Item) { l.items--; l.examples -= it.Examples }

// arrivals is how often something arrives.
type arrivals struct {
	gap, last time.Duration // the mean time between two, 0 before the second; when the latest did
}

// at counts an arrival.
func (a *arrivals) at(now time.Duration) {
	if a.last > 0 {
		gap := max(now-a.last, 1)
		if a.gap == 0 {
			a.gap = gap
		}
		a.gap = max(a.gap+(gap-a.gap)/8, 1)
	}
	a.last = max(now, 1)
}

// queue is the waiting items of a model.
type queue struct {
	load load
	// levels are by priority; mask has a bit for each that has items.
	levels [Levels]level
	mask   uint32
	agains int // items of level.again
	// picks counts items taken while more than one level had some.
	picks uint64
	// largest is the most examples an item has had: what a client may take in its turn.
	largest int
	// since is when the queue last became other than empty, and urgent the earliest
	// deadline that was there since.
	since, urgent time.Duration
	// due is until when it waits for more items; ready says that it does not wait any more.
	due      time.Duration
	ready    bool
	arrivals arrivals
	inDue    int // place in the heap of the machine
}

// level is the items of a queue that have one priority, by client.
type level struct {
	// again are items whose batch failed or was lost. They go before the others.
	again    list
	lines    map[string]*line
	turn     *line // whose turn it is, in a ring of lines that have items
	spare    *line // one that has none any more, for the next client that has
	load     load
	picked   uint64 // queue.picks when it was last picked from, or became other than empty
	arrivals arrivals
}

// line is the items of a client, the oldest first. Clients take turns by deficit round
// robin: in its turn a client gets queue.largest examples of credit, and has as many items
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
func (q *queue) add(it *Item) {
	q.load.add(it)
	q.largest = max(q.largest, it.Examples)
	n := levelOf(it.Priority)
	l := &q.levels[n]
	if q.mask&(1<<n) == 0 {
		q.mask |= 1 << n
		l.picked = q.picks
	}
	l.load.add(it)
	if it.tries > 0 {
		l.again.push(it)
		q.agains++
		return
	}
	if l.lines == nil {
		l.lines = make(map[string]*line)
	}
	ln := l.lines[it.Client]
	if ln == nil {
		if ln = l.spare; ln == nil {
			ln = &line{}
		}
		l.spare, *ln = nil, line{client: it.Client}
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
}

// remove takes an item out.
func (q *queue) remove(it *Item) {
	q.load.remove(it)
	n := levelOf(it.Priority)
	l := &q.levels[n]
	if l.load.remove(it); l.load.items == 0 {
		q.mask &^= 1 << n
	}
	if it.tries > 0 {
		l.again.remove(it)
		q.agains--
		return
	}
	ln := l.lines[it.Client]
	ln.items.remove(it)
	ln.load.remove(it)
	if ln.items.head != nil {
		return
	}
	delete(l.lines, it.Client)
	l.spare = ln
	if ln.next == ln {
		l.turn = nil
		return
	}
	ln.prev.next, ln.next.prev = ln.next, ln.prev
	if l.turn == ln {
		l.turn = ln.next
	}
}

// top is the highest level that has items.
func (q *queue) top() int { return bits.Len32(q.mask) - 1 }

// next returns the item to be taken next, nil if there is none. Asked again it returns the
// same, until something is added or removed.
func (q *queue) next(steps *uint64) *Item {
	if q.mask == 0 {
		return nil
	}
	n := q.top()
	if q.mask&(q.mask-1) != 0 && (q.picks+1)%turns == 0 {
		for i := range q.levels {
			if q.mask&(1<<i) != 0 && q.levels[i].picked < q.levels[n].picked {
				n = i
			}
		}
	}
	l := &q.levels[n]
	if l.again.head != nil {
		return l.again.head
	}
	for {
		*steps++
		ln := l.turn
		if !ln.inTurn {
			ln.inTurn = true
			ln.credit += q.largest
		}
		if ln.credit >= ln.items.head.Examples {
			return ln.items.head
		}
		ln.inTurn = false
		l.turn = ln.next
	}
}

// take removes what next returned and has its client pay for it.
func (q *queue) take(it *Item) {
	l := &q.levels[levelOf(it.Priority)]
	if q.mask&(q.mask-1) != 0 {
		q.picks++
	}
	l.picked = q.picks
	if it.tries == 0 {
		l.lines[it.Client].credit -= it.Examples
	}
	q.remove(it)
}

// empty says whether the queue has no items.
func (q *queue) empty() bool { return q.load.items == 0 }

// newest returns the item of a client that came last, of its lowest priority; nil if it has
// none that waits for the first time.
func (q *queue) newest(client string) *Item {
	for i := range q.levels {
		if ln := q.levels[i].lines[client]; ln != nil {
			return ln.items.tail
		}
	}
	return nil
}

// tally is how many items of each client wait.
type tally struct {
	of    map[string]*count
	most  heap[*count]
	spare *count // of a client that has none any more, for the next that has
}

type count struct {
	client string
	items  int
	inMost int
}

func newTally(steps *uint64) tally {
	return tally{of: make(map[string]*count), most: heap[*count]{steps: steps, at: func(c *count) *int { return &c.inMost },
		less: func(a, b *count) bool { return a.items > b.items }}}
}

// add counts n items more of a client.
func (t *tally) add(client string, n int) {
	c := t.of[client]
	if c == nil {
		if c = t.spare; c == nil {
			c = &count{}
		}
		t.spare, c.client = nil, client
		t.of[client] = c
	}
	if c.items += n; c.items == 0 {
		t.most.remove(c)
		delete(t.of, client)
		t.spare = c
		return
	}
	t.most.put(c)
}

// held returns how many items a client has.
func (t *tally) held(client string) int {
	if c := t.of[client]; c != nil {
		return c.items
	}
	return 0
}
