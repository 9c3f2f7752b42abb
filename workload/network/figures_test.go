package network

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
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
	m := rowsOf{starts: []uint32{5, 8, 7, 12}, columns: make([]uint32, 6)}
	for i, want := range []bool{true, false, false} { // the second ends before it begins, and the third beyond the columns
		if columns, first, ok := m.row(i); ok != want || ok && (len(columns) != 3 || first != 0) {
			t.Errorf("row %d has %d columns from %d on: %v", i, len(columns), first, ok)
		}
	}
	// A column beyond the nodes is refused, with weights too.
	m = rowsOf{starts: []uint32{0, 2}, columns: []uint32{1, 2}}
	for nodes, want := range map[int]bool{2: false, 3: true} {
		if got := m.weigh(make([]float64, 1), []float64{1}, 0, []float64{1, 1}, make([]float64, nodes), 0.85); got != want {
			t.Errorf("columns up to 2 of %d nodes: %v", nodes, got)
		}
	}
	m = rowsOf{starts: []uint32{0, 2, 3, 7}, columns: make([]uint32, 3)}
	if !m.ordered(0, 2) || m.ordered(0, 3) || !m.ordered(1, 2) || m.ordered(2, 3) {
		t.Error("some rows are taken for others")
	}
}

// A device gets one task per layer: no fewer blocks than make that, and no more than it needs.
func TestLayersGrain(t *testing.T) {
	for blocks := 1; blocks <= 24; blocks++ {
		for devices := 1; devices <= 9; devices++ {
			j := layerJob{bounds: make([]uint32, blocks+1), devices: devices}
			if g := int(j.Items().Grain); g*devices < blocks || (g-1)*devices >= blocks {
				t.Errorf("%d blocks on %d devices: tasks of %d", blocks, devices, g)
			}
		}
	}
}

// Work of paths grows with rows, and with edges, by which it is predicted.
func TestPathsWork(t *testing.T) {
	work := func(nodes, edges int, rows int64) (ops, bytes float64) {
		j := &distancesJob{graph: &Graph{}, n: nodes, columns: make([]uint32, edges)}
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

// rank returns the job of some steps on a graph in text, which ran.
func rank(t *testing.T, text string, steps int) *rankingJob {
	t.Helper()
	g := workloadtest.New[*Graph](t)(Read(strings.NewReader(text), "", ""))
	c := Config{Problem: PageRank, Graph: "text", Steps: steps}
	j := workloadtest.New[*rankingJob](t)(rankJob(c.withDefaults(), g))
	workloadtest.Run(t, workloadtest.Open(t, 1, Funcs()), j)
	return j
}

// path is a graph on which ranks settle slowly: nodes in a row, with edges both ways.
const path = "0 1\n1 0\n1 2\n2 1\n2 3\n3 2\n3 4\n4 3\n4 5\n5 4\n5 6\n6 5\n"

// After some steps ranks are off by no more than Misses says: twice the residual ÷ (1 − 0.85). The rate is edges
// times steps.
func TestRankFigures(t *testing.T) {
	want := rank(t, path, 200).Ranks()
	for _, steps := range []int{1, 3, 20} {
		j := rank(t, path, steps)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		off, above := 0., workloadtest.Above(t, j)
		for i, r := range j.Ranks() {
			off += math.Abs(r - want[i])
		}
		if off > above || math.Abs(above/(2*j.Residual()/0.15)-1) > 0.05 {
			t.Errorf("%d steps: ranks are off by %v, and by at most %v, with a residual of %v", steps, off, above, j.Residual())
		}
	}
	if got := rank(t, path, 200).Rate(time.Millisecond); got != "2.4 M edges/s" {
		t.Errorf("200 steps over 12 edges in 1 ms are %s", got)
	}
}

// Ranks of fewer steps than were asked for are found, although the last step is right.
func TestCheckCountsSteps(t *testing.T) {
	j, one := rank(t, path, 40), rank(t, path, 1)
	copy(j.before, one.start)
	copy(j.given, one.given)
	copy(j.changes, one.changes)
	if err := j.Check(); !errors.Is(err, errWrong) || !strings.Contains(err.Error(), "and may change by") {
		t.Errorf("one step in place of 40: %v", err)
	}
}

// The cost of blocks, by which they are divided, is the sum of what each costs.
func TestRankCost(t *testing.T) {
	j := workloadtest.New[workload.Job](t)(New(Config{Problem: PageRank, Nodes: 1 << 12, Seed: 1}))
	items := j.Items()
	sum := 0.
	for b := range items.Extent {
		sum += items.Cost(b, b+1)
	}
	if got := items.Cost(0, items.Extent); items.Extent < 10 || math.Abs(got/sum-1) > 1e-12 {
		t.Errorf("%d blocks cost %v, and one by one %v", items.Extent, got, sum)
	}
}

// What a job is said to compute as one task is what the tasks of its graph compute together.
func TestWholeWork(t *testing.T) {
	for _, c := range []Config{
		{Problem: PageRank, Nodes: 500, Steps: 3}, {Problem: Layers, Nodes: 500, Features: 7}, {Problem: Closeness, Nodes: 50},
	} {
		j := workloadtest.New[workload.Job](t)(New(c))
		n := j.Items().Extent
		g, err := j.Graph([]sched.Range{{Hi: n / 2}, {Lo: n / 2, Hi: n}})
		if err != nil {
			t.Fatal(err)
		}
		ops := 0.
		for i := range graph.TaskID(g.NumTasks()) {
			ops += g.Task(i).Work.Ops
		}
		if got := j.Whole().Work.Ops; math.Abs(got/ops-1) > 1e-9 {
			t.Errorf("%s: %v operations, and its tasks have %v", j.Name(), got, ops)
		}
	}
}

// A medoid at the place of an earlier one has no nodes, and stays what it is.
func TestMedoidWithoutNodes(t *testing.T) {
	c := Config{Problem: Medoids, Nodes: 6, K: 2}.withDefaults()
	points := []float32{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2} // the first medoids are 0 and 3
	j := distanceJob(c, nil, points)
	if _, err := workload.Call(t.Context(), workloadtest.Open(t, 2, Funcs()), j, "network"); err != nil {
		t.Fatal(err)
	}
	if medoids, labels := j.Medoids(); medoids[1] != 3 || slices.Max(labels) != 0 {
		t.Errorf("medoids %v, labels %v", medoids, labels)
	}
	if err := j.Check(); err != nil {
		t.Error(err)
	}
}
