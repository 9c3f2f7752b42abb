package trace

import (
	"errors"
	"testing"
	"time"
)

// One of something is told in the singular, and none of it not at all.
func TestOneTask(t *testing.T) {
	r := &RunError{Err: errors.New("x"), Names: []string{"a"}}
	if got := r.Error(); got != "x; 1 task unfinished: a" {
		t.Errorf("%q", got)
	}
	r.Names = nil
	if got := r.Error(); got != "x" {
		t.Errorf("%q", got)
	}
}

// A task that failed names each attempt once: by itself, or where it is quarantined by that.
func TestAttempts(t *testing.T) {
	boom := errors.New("boom")
	first := Attempt{Device: "cpu:0", At: 12 * time.Millisecond, Err: boom}
	last := Attempt{Device: "cpu:1", At: 2 * time.Second, Err: errors.New("gone"), Lost: true}
	for _, c := range []struct {
		err  TaskError
		want string
	}{
		{TaskError{Task: "a", Err: boom}, `task "a": boom`},
		{TaskError{Task: "a", Device: "cpu:0", Err: boom, Attempts: []Attempt{first}}, `task "a" on cpu:0: boom`},
		{TaskError{Task: "a", Device: "cpu:1", Err: boom, Attempts: []Attempt{first, last}},
			`task "a" on cpu:1: boom (2 attempts: cpu:0 at 12ms (boom), cpu:1 at 2s (gone))`},
		{TaskError{Task: "a", Device: "cpu:0", Err: boom, Attempts: []Attempt{first, {Device: "cpu:1", Err: errors.New("boom")}}},
			`task "a" on cpu:0: boom (2 attempts, all the same)`},
		{TaskError{Task: "a", Device: "cpu:1", Err: &Quarantine{Losses: []Attempt{last, last}}, Attempts: []Attempt{last, last}},
			`task "a" on cpu:1: quarantined, since 2 devices were lost while it ran: cpu:1 at 2s (gone), cpu:1 at 2s (gone)`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
