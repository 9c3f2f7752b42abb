package partition

import (
	"slices"

	"github.com/weft-run/weft/workload/protein/network"
)

// refine moves residues between parts as long as that lowers the number of contacts that are
// cut, within bounds of the parts' sizes. A pass moves every residue once, the best first,
// also where that is worse, and then goes back to the best there was. No part is emptied.
func refine(m *network.Matrix, of, sizes []int) {
	f := &refiner{m: m, of: of, low: make([]int, len(sizes)), high: make([]int, len(sizes)), have: make([]int, len(sizes))}
	for k, s := range sizes {
		room := max(int(slack*float64(s)), 1)
		f.low[k], f.high[k] = max(s-room, 1), s+room
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
	version         []int32   // of a residue's moves; those of others are void
	moves           [][]aMove // by gain + offset, the last first
	offset          int       // the most contacts of a residue
}

// aMove is a residue that could go to a part.
type aMove struct {
	residue, to int32
	version     int32
}

// pass returns whether it lowered the cut, or made sizes keep their bounds.
func (f *refiner) pass() bool {
	n := f.m.Rows()
	f.locked, f.version = make([]bool, n), make([]int32, n)
	for i := range n {
		columns, _ := f.m.Row(i)
		f.offset = max(f.offset, len(columns))
	}
	f.moves = make([][]aMove, 2*f.offset+1)
	for i := n - 1; i >= 0; i-- { // so that the first residue of equal gain is the first to go
		f.offer(i)
	}
	type undo struct{ residue, from int }
	var done []undo
	excess := f.excess()
	best, bestAt, gain := 0, 0, 0
	for {
		move, won, ok := f.next()
		if !ok {
			break
		}
		i, from := int(move.residue), f.of[move.residue]
		done = append(done, undo{i, from})
		f.put(i, int(move.to))
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
		g := with - links[f.of[i]] + f.offset
		f.moves[g] = append(f.moves[g], aMove{int32(i), int32(to), f.version[i]})
	}
}

// next takes the move of the highest gain that keeps sizes within bounds, or brings them
// nearer to these. Moves that sizes do not allow wait until they do.
func (f *refiner) next() (move aMove, gain int, ok bool) {
	for g := 2 * f.offset; g >= 0; g-- {
		list := f.moves[g]
		for k := len(list) - 1; k >= 0; k-- {
			m := list[k]
			if f.locked[m.residue] || f.version[m.residue] != m.version {
				list = slices.Delete(list, k, k+1)
				continue
			}
			from := f.of[m.residue]
			if f.have[from] > f.low[from] && f.have[m.to] < f.high[m.to] {
				f.moves[g] = slices.Delete(list, k, k+1)
				return m, g - f.offset, true
			}
		}
		f.moves[g] = list
	}
	return aMove{}, 0, false
}
