package trace

import (
	"errors"
	"testing"
)

// One of something is told in the singular.
func TestOneTask(t *testing.T) {
	r := &RunError{Err: errors.New("x"), Names: []string{"a"}}
	if got := r.Error(); got != "x; 1 task unfinished: a" {
		t.Errorf("%q", got)
	}
}
