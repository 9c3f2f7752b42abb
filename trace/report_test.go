package trace

import (
	"errors"
	"testing"
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
