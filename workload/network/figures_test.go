package network

import (
	"testing"

	"github.com/weft-run/weft/sched"
)

// Starts of rows that come from a caller's memory are looked at before columns are: their order, and their end.
func TestOrdered(t *testing.T) {
	for _, c := range []struct {
		starts  []uint32
		columns int
		want    bool
	}{
		{[]uint32{0, 2, 3, 7}, 7, true},
		{[]uint32{5, 7, 8, 12}, 7, true}, // relative to the first
		{[]uint32{0, 2, 3, 7}, 6, false},
		{[]uint32{5, 7, 8, 12}, 6, false},
		{[]uint32{0, 3, 2, 7}, 7, false},
		{[]uint32{5, 4, 8, 12}, 20, false},
		{[]uint32{0, 2, 7, 6}, 7, false},
		{[]uint32{0, 0, 0, 0}, 0, true},
	} {
		m := rowsOf{starts: c.starts, columns: make([]uint32, c.columns)}
		if got := m.ordered(0, len(c.starts)-1); got != c.want {
			t.Errorf("starts %v of %d columns: %v", c.starts, c.columns, got)
		}
	}
	m := rowsOf{starts: []uint32{0, 2, 3, 7}, columns: make([]uint32, 3)}
	if !m.ordered(0, 2) || m.ordered(0, 3) || !m.ordered(1, 2) || m.ordered(2, 3) {
		t.Error("some rows are taken for others")
	}
}

// A device gets one task per layer: no fewer blocks than make that, and no more than it needs.
func TestLayersGrain(t *testing.T) {
	for blocks := 1; blocks <= 24; blocks++ {
		for devices := 1; devices <= 9; devices++ {
			j := LayersJob{bounds: make([]uint32, blocks+1), devices: devices}
			if g := int(j.Grain()); g*devices < blocks || (g-1)*devices >= blocks {
				t.Errorf("%d blocks on %d devices: tasks of %d", blocks, devices, g)
			}
		}
	}
}

// Work of paths grows with rows, and with edges, by which it is predicted.
func TestPathsWork(t *testing.T) {
	work := func(nodes, edges int, rows int64) (ops, bytes float64) {
		j := &DistanceJob{graph: &Graph{}, n: nodes, columns: make([]uint32, edges)}
		w := j.apart(sched.Range{Hi: rows}).Work
		return w.Ops, w.Bytes
	}
	ops, bytes := work(1000, 4000, 10)
	if more, most := work(1000, 4000, 20); more != 2*ops || most != 2*bytes {
		t.Errorf("twice the rows take %v operations and %v bytes, and the rows %v and %v", more, most, ops, bytes)
	}
	if more, most := work(1000, 8000, 10); more <= ops || more >= 2*ops || most <= bytes {
		t.Errorf("twice the edges take %v operations and %v bytes, and the edges %v and %v", more, most, ops, bytes)
	}
}
