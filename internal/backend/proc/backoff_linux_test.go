package proc

import (
	"testing"
	"time"
)

// The first child is replaced at once, those after it ever later, and at once again
// after one that lived.
func TestBackoff(t *testing.T) {
	var b backoff
	for round := range 3 {
		want := time.Duration(0)
		for i := range 12 {
			lived := time.Duration(i) * time.Millisecond
			if i == 0 {
				lived = healthy
			}
			if got := b.next(lived); got != want {
				t.Fatalf("round %d: pause %d is %v, want %v", round, i, got, want)
			}
			want = min(max(2*want, firstWait), lastWait)
		}
	}
}
