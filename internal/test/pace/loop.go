//go:build unix

package pace

// loop is a fixed amount of work of the kind an engine does; figures are divided by its time. It calls nothing
// of this module and allocates nothing. Whoever changes it records all figures anew.
type loop struct {
	cells []cell
	heap  []entry
	names map[uint32]int32
	at    int32
	seed  uint32
}

// cell is a record that refers to another one.
type cell struct {
	next  int32
	count int32
	sum   uint64
	users [4]int32
}

// entry is something due.
type entry struct {
	due  uint64
	cell int32
}

// Sizes of the loop: 1.3 MB of cells, more than a core keeps closest.
const (
	loopCells = 1 << 15
	loopDue   = 256
	loopNames = 4096
)

func newLoop() *loop {
	l := &loop{cells: make([]cell, loopCells), names: make(map[uint32]int32), seed: 1}
	order := make([]int32, loopCells)
	for i := range order {
		j := int(l.random()) % (i + 1)
		order[i], order[j] = order[j], int32(i)
	}
	for i, c := range order { // one ring of all
		l.cells[c].next = order[(i+1)%loopCells]
		for k := range l.cells[c].users {
			l.cells[c].users[k] = int32(l.random() % loopCells)
		}
	}
	for i := range loopDue {
		l.push(entry{uint64(l.random()), int32(i)})
	}
	for i := range uint32(loopNames) {
		l.names[i*2654435761] = int32(i)
	}
	return l
}

// random is the next number of a generator.
func (l *loop) random() uint32 {
	l.seed ^= l.seed << 13
	l.seed ^= l.seed >> 17
	l.seed ^= l.seed << 5
	return l.seed
}

// Turns takes what is due first, visits cells from there, looks a name up, and has it due again, n times.
func (l *loop) Turns(n int) {
	for range n {
		e := l.pop()
		c := &l.cells[e.cell]
		for _, u := range c.users {
			user := &l.cells[u]
			if user.count++; user.count&1 == 0 {
				user.sum += e.due
			}
		}
		name := (l.random() % loopNames) * 2654435761
		l.names[name]++
		l.at = l.cells[l.at].next
		c.sum += uint64(l.names[name])
		l.push(entry{e.due + uint64(l.random()), l.at})
	}
}

func (l *loop) push(e entry) {
	l.heap = append(l.heap, e)
	i := len(l.heap) - 1
	for i > 0 && l.heap[(i-1)/2].due > e.due {
		l.heap[i] = l.heap[(i-1)/2]
		i = (i - 1) / 2
	}
	l.heap[i] = e
}

func (l *loop) pop() entry {
	first, last := l.heap[0], l.heap[len(l.heap)-1]
	l.heap = l.heap[:len(l.heap)-1]
	i := 0
	for {
		k := 2*i + 1
		if k >= len(l.heap) {
			break
		}
		if k+1 < len(l.heap) && l.heap[k+1].due < l.heap[k].due {
			k++
		}
		if l.heap[k].due >= last.due {
			break
		}
		l.heap[i], i = l.heap[k], k
	}
	l.heap[i] = last
	return first
}
