package collective

import (
	"fmt"

	"github.com/weft-run/weft/graph"
)

// Halo is a grid of rows that is computed over and over in blocks of rows, where
// a block needs some rows of its neighbours, its halo. Tasks name those rows as
// what they read; where neighbours are on other devices, exactly these rows are
// copied, and a block can be computed as soon as its own neighbours are done.
// With deeper halos there are fewer exchanges, and rows near edges are computed
// by both sides.
type Halo struct {
	Rows     int64
	RowBytes int64
	// Torus says that the rows past one edge are those at the other. Else there
	// are none, and blocks at an edge have less of a halo.
	Torus bool
}

// Block is the rows Lo to Hi-1 of a grid.
type Block struct{ Lo, Hi int64 }

// Window returns the rows a block needs with a halo of depth rows: one block of rows,
// or three where the edge of a torus is in between: those above, its own, those below.
func (h Halo) Window(b Block, depth int64) []Block {
	if !h.Torus {
		return []Block{{max(b.Lo-depth, 0), min(b.Hi+depth, h.Rows)}}
	}
	above, below := (b.Lo+h.Rows-depth)%h.Rows, b.Hi%h.Rows
	return []Block{{above, above + depth}, b, {below, below + depth}}
}

// Use is the use of some rows of a grid.
func (h Halo) Use(d graph.DataID, b Block, a graph.Access) graph.Use {
	return graph.Use{Data: d, Offset: h.RowBytes * b.Lo, Bytes: h.RowBytes * (b.Hi - b.Lo), Access: a}
}

// Rounds adds a task for every block in every round, whose halos are depths rows
// deep. A task reads its window of the grid as it was after the round before
// (in, for the first) and writes its block of the next: its uses are the blocks
// of Window, then the block it writes. The last round writes out; before that
// rounds take turns between out and between, so that a block may be a round ahead
// of those that still read its rows.
//
// On a torus a halo must not reach past an edge from within: blocks begin at 0
// or at least depth rows from either edge. With one round between is not used.
// More tasks than a graph may have are graph.ErrSize, before any is added.
func (h Halo) Rounds(b *graph.Builder, in, out, between graph.DataID, blocks []Block, depths []int64, task func(b Block, depth int64) graph.Task) error {
	if rounds, most := len(depths), graph.MaxTasks/max(len(blocks), 1); rounds > most {
		return fmt.Errorf("halo: %w: %d rounds of %d blocks are more than the %d tasks of a graph; make halos deeper, or %d rounds at a time", graph.ErrSize, rounds, len(blocks), graph.MaxTasks, most)
	}
	grids := [2]graph.DataID{out, between}
	src := in
	for i, depth := range depths {
		dst := grids[(len(depths)-1-i)%2]
		for _, block := range blocks {
			if err := h.check(block, depth); err != nil {
				return err
			}
			t := task(block, depth)
			for _, w := range h.Window(block, depth) {
				if w.Hi > w.Lo {
					t.Uses = append(t.Uses, h.Use(src, w, graph.Read))
				}
			}
			t.Uses = append(t.Uses, h.Use(dst, block, graph.Write))
			b.Add(t)
		}
		src = dst
	}
	return nil
}

func (h Halo) check(b Block, depth int64) error {
	switch {
	case b.Lo < 0 || b.Hi > h.Rows || b.Lo >= b.Hi:
		return fmt.Errorf("halo: %w: rows %d to %d of %d", ErrSpec, b.Lo, b.Hi, h.Rows)
	case depth < 0 || depth > h.Rows:
		return fmt.Errorf("halo: %w: %d rows deep on a grid of %d", ErrSpec, depth, h.Rows)
	case h.Torus && (b.Lo > 0 && b.Lo < depth || b.Hi < h.Rows && b.Hi > h.Rows-depth):
		return fmt.Errorf("halo: %w: rows %d to %d are nearer to an edge than the halo's %d rows; make blocks at the edges larger", ErrSpec, b.Lo, b.Hi, depth)
	}
	return nil
}
