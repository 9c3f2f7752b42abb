package weft

import (
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/stage"
)

// A step that one run changed the state by leaves it whole when it is ended, whatever parts the run changed; one
// with memory or several runs may not.
func TestChangesOf(t *testing.T) {
	type change struct{ runs, last int64 } // of a part
	memory := change{-1, 0}
	for _, c := range []struct {
		parts []change
		want  changes
	}{
		{nil, unchanged},
		{[]change{{0, 0}, {0, 7}}, unchanged},
		{[]change{{1, 9}}, atOnce},
		{[]change{{1, 9}, {0, 7}, {1, 9}}, atOnce},
		{[]change{{2, 9}}, inParts},
		{[]change{{1, 9}, {1, 8}}, inParts},
		{[]change{{0, 7}, memory}, inParts},
		{[]change{{1, 9}, memory}, inParts},
	} {
		state := make([]part, len(c.parts))
		for i, p := range c.parts {
			if p != memory {
				state[i].res = new(resident)
				state[i].res.writes.Store(3)
			}
		}
		before := writesOf(state)
		for i, p := range c.parts {
			if p != memory {
				state[i].res.writes.Add(p.runs)
				state[i].res.by.Store(p.last)
			}
		}
		if got := changesOf(state, before); got != c.want {
			t.Errorf("%v: changes %d, want %d", c.parts, got, c.want)
		}
	}
}

// The blocks that have something in them that matters are those with one byte of it, and no others.
func TestLiveBlocks(t *testing.T) {
	const block = checkpoint.BlockBytes
	for _, c := range []struct {
		name string
		live []stage.Range
		want []bool // of two blocks and a part of one
	}{
		{"all", nil, []bool{true, true, true}},
		{"nothing", []stage.Range{}, []bool{false, false, false}},
		{"one block", []stage.Range{{Lo: block, Hi: 2 * block}}, []bool{false, true, false}},
		{"one byte into the next", []stage.Range{{Lo: 0, Hi: block + 1}}, []bool{true, true, false}},
		{"the last byte of the one before", []stage.Range{{Lo: block - 1, Hi: 2 * block}}, []bool{true, true, false}},
		{"a byte at both ends", []stage.Range{{Lo: 0, Hi: 1}, {Lo: 2*block + 99, Hi: 2*block + 100}}, []bool{true, false, true}},
	} {
		s := newShadow("x", 2*block+100)
		s.Live[1] = true // of the last time
		s.mark(c.live)
		if !slices.Equal(s.Live, c.want) {
			t.Errorf("%s: blocks %v, want %v", c.name, s.Live, c.want)
		}
		if !s.has(c.live) {
			t.Errorf("%s: it lacks what was marked", c.name)
		}
		for b, live := range c.want {
			if s.Live[b] = false; live == s.has(c.live) {
				t.Errorf("%s: without block %d it has all: %v", c.name, b, !live)
			}
			s.Live[b] = live
		}
	}
}
