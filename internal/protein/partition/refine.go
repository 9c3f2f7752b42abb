package partition

import (
	"slices"

	"github.com/weft-run/weft/internal/protein/network"
)

// refine moves residues between parts as long as that lowers the number of contacts that are
// cut, within bounds of the parts' sizes. A pass moves every residue once, the best first,
// also where that is worse, and then goes back to the best there was. A part keeps least
// residues, where it had them.
func refine(m *network.Matrix, of, sizes, least []int) {
	f := &refiner{m: m, of: of, low: make([]int, len(sizes)), high: make([]int, len(sizes)), have: make([]int, len(sizes))}
	for k, s := range sizes {
		room := max(int(slack*float64(s)), 1)
		f.low[k], f.high[k] = max(s-room, least[k]), s+room
	}
	for _, part := range of {
		f.have[part]++
	}
	for range 50 {
		if !f.pass() {
			return
		}
	}
}

// refiner is the state of a refinement.
type refiner struct {
	m               *network.Matrix
	of              []int
	low, high, have []int // bounds and sizes of parts
	locked          []bool
	version         []int32         // of a residue's moves; those of others are void
	ways            []*way          // in the order they were first offered
	wayOf           map[[2]int]*way // by part and part
	offered         int             // moves so far
	offset          int             // the most contacts of a residue
}

// way is the moves from a part to another.
type way struct {
	from, to int
	moves    [][]aMove // by gain + offset, the last first
	top      int       // moves of a higher gain there are none
}

// aMove is a residue that could go to another part.
type aMove struct {
	residue int32
	version int32
	number  int // of those offered
}

// pass returns whether it lowered the cut, or made sizes keep their bounds.
func (f *refiner) pass() bool {
	n := f.m.Rows()
	f.locked, f.version = make([]bool, n), make([]int32, n)
	for i := range n {
		columns, _ := f.m.Row(i)
		f.offset = max(f.offset, len(columns))
	}
	f.ways, f.wayOf = nil, make(map[[2]int]*way)
	for i := n - 1; i >= 0; i-- { // so that the first residue of equal gain is the first to go
		f.offer(i)
	}
	type undo struct{ residue, from int }
	var done []undo
	excess := f.excess()
	best, bestAt, gain := 0, 0, 0
	for {
		i, to, won, ok := f.next()
		if !ok {
			break
		}
		done = append(done, undo{i, f.of[i]})
		f.put(i, to)
		f.locked[i] = true
		gain += won
		columns, _ := f.m.Row(i)
		for _, c := range columns {
			if !f.locked[c] {
				f.offer(int(c))
			}
		}
		if e := f.excess(); e < excess || e == excess && gain > best {
			excess, best, bestAt = e, gain, len(done)
		}
	}
	for _, u := range slices.Backward(done[bestAt:]) {
		f.put(u.residue, u.from)
	}
	return bestAt > 0
}

func (f *refiner) put(residue, part int) {
	f.have[f.of[residue]]--
	f.have[part]++
	f.of[residue] = part
}

// excess is by how many residues parts are out of bounds.
func (f *refiner) excess() int {
	sum := 0
	for k, have := range f.have {
		sum += max(have-f.high[k], 0) + max(f.low[k]-have, 0)
	}
	return sum
}

// offer adds the best moves of a residue: to each part that it has contacts with.
func (f *refiner) offer(i int) {
	f.version[i]++
	links := make([]int, len(f.have))
	columns, _ := f.m.Row(i)
	for _, c := range columns {
		if int(c) != i {
			links[f.of[c]]++
		}
	}
	for to, with := range links {
		if to == f.of[i] || with == 0 {
			continue
		}
		w := f.wayOf[[2]int{f.of[i], to}]
		if w == nil {
			w = &way{from: f.of[i], to: to, moves: make([][]aMove, 2*f.offset+1)}
			f.ways, f.wayOf[[2]int{f.of[i], to}] = append(f.ways, w), w
		}
		g := with - links[f.of[i]] + f.offset
		f.offered++
		w.moves[g] = append(w.moves[g], aMove{int32(i), f.version[i], f.offered})
		w.top = max(w.top, g)
	}
}

// best returns the last move of the highest gain of a way, or nil, and drops those that are void.
func (f *refiner) best(w *way) *aMove {
	for ; w.top >= 0; w.top-- {
		list := w.moves[w.top]
		for k := len(list) - 1; k >= 0; k-- {
			m := &list[k]
			if !f.locked[m.residue] && f.version[m.residue] == m.version {
				w.moves[w.top] = list[:k+1]
				return m
			}
		}
		w.moves[w.top] = list[:0]
	}
	return nil
}

// next takes the move of the highest gain that keeps sizes within bounds, or brings them
// nearer to these. Moves that sizes do not allow wait until they do.
func (f *refiner) next() (residue, to, gain int, ok bool) {
	var at *way
	var move *aMove
	for _, w := range f.ways {
		if f.have[w.from] <= f.low[w.from] || f.have[w.to] >= f.high[w.to] {
			continue
		}
		m := f.best(w)
		if m != nil && (at == nil || w.top > at.top || w.top == at.top && m.number > move.number) {
			at, move = w, m
		}
	}
	if at == nil {
		return 0, 0, 0, false
	}
	list := &at.moves[at.top]
	*list = (*list)[:len(*list)-1]
	return int(move.residue), at.to, at.top - f.offset, true
}
