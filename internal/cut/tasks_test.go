package cut

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/sched"
)

// Whatever is cut, tasks cover the range without gaps, lie on boundaries, and
// none but one that could not be is smaller than asked for.
func TestShrinking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 5000).Draw(t, "n")
		p := sched.Items{Extent: n, Align: rapid.Int64Range(0, 70).Draw(t, "align")}
		if rapid.Bool().Draw(t, "uneven") {
			p.Cost = func(lo, hi int64) float64 { return float64(hi*hi - lo*lo) }
		}
		align := max(p.Align, 1)
		r := sched.Range{Lo: rapid.Int64Range(0, n).Draw(t, "lo") / align * align, Hi: n}
		grain := rapid.Int64Range(1, 100).Draw(t, "grain")
		least := rapid.SampledFrom([]float64{leastOneCore, leastTeamwork, 1}).Draw(t, "least")
		at := r.Lo
		tasks := shrinking(p, r, least, grain)
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
func TestShrinkingSizes(t *testing.T) {
	tasks := shrinking(sched.Items{Extent: 6400}, sched.Range{Hi: 6400}, leastOneCore, 1)
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

// What is more than a kernel can be given is halved until it is not; what every
// range has whole cannot be, and stays.
func TestFit(t *testing.T) {
	p := sched.Items{Extent: 1000, Align: 8, Bytes: func(lo, hi int64) (in, out int64) { return 100 + 10*(hi-lo), hi - lo }}
	whole := []sched.Range{{Lo: 0, Hi: 1000}}
	for most, want := range map[int64]int{1 << 40: 1, 10_100: 1, 10_099: 2, 2_700: 4, 180: 1000 / 8, 179: 1} {
		got := fit(p, whole, most)
		at := int64(0)
		for _, r := range got {
			if r.Lo != at || r.Len() <= 0 || r.Lo%8 != 0 {
				t.Errorf("at most %d: %v", most, got)
			}
			at = r.Hi
		}
		if len(got) != want || at != 1000 {
			t.Errorf("at most %d: %d ranges up to %d, want %d", most, len(got), at, want)
		}
	}
}
