package proc

import "testing"

// Parts of a copy follow the last operation that their own stager did not stage.
func TestPartsFollow(t *testing.T) {
	in, out := new(stager), new(stager)
	l := new(lane)
	stage := func(s *stager, seq, want uint32) {
		t.Helper()
		before := l.behind(s, seq)
		if before != want {
			t.Errorf("parts of operation %d follow operation %d, want %d", seq, before, want)
		}
		l.push(seq)
		l.stager, l.before = s, before
	}
	l.push(1)
	stage(in, 2, 1)
	stage(in, 3, 1)
	stage(in, 4, 1)
	stage(out, 5, 4) // on another lane than what it may have to follow
	stage(in, 6, 5)
	l.push(7)
	stage(in, 8, 7)
}
