package weft

import "testing"

// The report of a graph in stages has as few errors of second executions as that of one run.
func TestStagesVerifyErrors(t *testing.T) {
	s := &staged{}
	for range 1000 {
		s.add(&Report{Tasks: 1, VerifyErrors: []string{"a", "b", "c"}})
	}
	if n := len(s.rep.VerifyErrors); n != maxVerifyErrors || s.rep.Tasks != 1000 {
		t.Errorf("%d errors of %d tasks, want %d", n, s.rep.Tasks, maxVerifyErrors)
	}
}
