package plan

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
)

// A decision stays as it is while others are made, also side by side: they share no memory.
func TestDecideStays(t *testing.T) {
	decide := func(deadline time.Duration) string {
		r := job()
		r.Deadline = deadline
		d, err := Decide(r, Shipped(), sheet{})
		if err != nil {
			t.Error(err)
			return ""
		}
		before, err := json.Marshal(d)
		if err != nil {
			t.Error(err)
			return ""
		}
		for i := range 4 {
			r.Deadline, r.Assume.Spot = deadline+time.Duration(i)*time.Hour, 0.01*float64(i)
			if _, err := Decide(r, Shipped(), sheet{}); err != nil {
				t.Error(err)
			}
		}
		after, err := json.Marshal(d)
		if err != nil || string(before) != string(after) {
			t.Errorf("deadline %s: the decision was\n%s\nand is now\n%s (%v)", deadline, before, after, err)
		}
		return string(before)
	}
	want := [2]string{decide(2 * time.Hour), decide(5 * time.Hour)}
	if !strings.Contains(want[0]+want[1], `"spot":{`) {
		t.Error("no option is on spot")
	}
	var wg sync.WaitGroup
	for range 4 {
		for i, deadline := range []time.Duration{2 * time.Hour, 5 * time.Hour} {
			wg.Go(func() {
				if got := decide(deadline); got != want[i] {
					t.Errorf("deadline %s: alone it was\n%s\nand beside others\n%s", deadline, want[i], got)
				}
			})
		}
	}
	wg.Wait()
}
