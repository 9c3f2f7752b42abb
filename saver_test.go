package weft

import "testing"

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
