package sched

import (
	"testing"
	"time"
)

// TestChoiceBest: the share that is done first stands for one device, of equal ones the
// first, and none that cannot do the work.
func TestChoiceBest(t *testing.T) {
	for _, c := range []struct {
		alone []time.Duration
		want  int
	}{
		{nil, -1}, {[]time.Duration{0, 0}, -1}, {[]time.Duration{0, 5}, 1}, {[]time.Duration{5, 0, 4}, 2},
		{[]time.Duration{4, 5, 4}, 0}, {[]time.Duration{0, 4, 4}, 1},
	} {
		if got := (&Choice{Alone: c.alone}).Best(); got != c.want {
			t.Errorf("of %v share %d is best, want %d", c.alone, got, c.want)
		}
	}
}
