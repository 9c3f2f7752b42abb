package workload

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/sched"
)

// Whatever is cut, tasks cover the range without gaps, lie on boundaries, and
// none but one that could not be is smaller than asked for.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 5000).Draw(t, "n")
		p := sched.Pieces{Extent: n, Align: rapid.Int64Range(0, 70).Draw(t, "align")}
		if rapid.Bool().Draw(t, "uneven") {
			p.Cost = func(lo, hi int64) float64 { return float64(hi*hi - lo*lo) }
		}
		align := max(p.Align, 1)
		r := sched.Range{Lo: rapid.Int64Range(0, n).Draw(t, "lo") / align * align, Hi: n}
		grain := rapid.Int64Range(1, 100).Draw(t, "grain")
		least := rapid.SampledFrom([]float64{leastOneCore, leastTeamwork, 1}).Draw(t, "least")
		at := r.Lo
		tasks := cut(p, r, least, grain)
		for i, task := range tasks {
			if task.Lo != at || task.Hi <= task.Lo || task.Hi%align != 0 && task.Hi != n {
				t.Fatalf("task %d of %v is %v", i, tasks, task)
			}
			if task.Len() < min(grain, r.Len()) {
				t.Fatalf("task %d of %v has %d items, want %d", i, tasks, task.Len(), grain)
			}
			at = task.Hi
		}
		if at != r.Hi {
			t.Fatalf("%v end before %d", tasks, r.Hi)
		}
		if least == 1 && len(tasks) > 1 {
			t.Fatalf("%v is not one task", tasks)
		}
	})
}

// Even work becomes tasks that shrink from a quarter to the least.
func TestCutShrinks(t *testing.T) {
	tasks := cut(sched.Pieces{Extent: 6400}, sched.Range{Hi: 6400}, leastOneCore, 1)
	if first := tasks[0].Len(); first != 1600 {
		t.Errorf("the first task has %d of 6400 items", first)
	}
	for i := 1; i < len(tasks)-1; i++ {
		if tasks[i].Len() > tasks[i-1].Len() || tasks[i].Len() < 100 {
			t.Errorf("tasks do not shrink to the least: %v", tasks)
		}
	}
	if len(tasks) < 10 || len(tasks) > 20 {
		t.Errorf("%d tasks", len(tasks))
	}
}
