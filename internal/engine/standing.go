package engine

// standing is the judgement of a device by its probes: a state machine of its own, without
// time. A device in good standing becomes suspect by one bad probe, or because something else
// is held against it; it is trusted again after some good probes in a row, and given up after
// some bad ones, which are counted whatever is between them. It therefore stays suspect for at
// most good·bad probes, and between two suspicions of a device that was cleared there are
// at least good probes.
type standing struct {
	suspected bool
	needs     int // good probes in a row that clear it, while it is suspected
	good      int // of them so far
	bad       int // bad ones since it was suspected
	bears     int // bad ones that it bears: at the next it is given up
}

// verdict is the conclusion from a probe.
type verdict uint8

const (
	stays   verdict = iota // nothing changes
	doubted                // it is suspect from now on
	cleared                // it is trusted again
	givenUp                // it is to be taken for lost
)

const (
	// goodProbes is the number of good probes in a row after which a suspect device is trusted
	// again: a fault that comes and goes shows in one of three more often than not.
	goodProbes = 3
	// badProbes is the number of bad probes after which a suspect device is given up, that
	// which made it suspect included.
	badProbes = 3
)

// doubt makes a device suspect, for bad bad probes so far; false if it is already.
func (s *standing) doubt(bad int) bool {
	if s.suspected {
		return false
	}
	*s = standing{suspected: true, needs: goodProbes, bad: bad, bears: badProbes - 1}
	return true
}

// verify makes a device suspect that has just come back: one good probe clears it, and one
// bad probe has it given up.
func (s *standing) verify() { *s = standing{suspected: true, needs: 1} }

// probed takes in how a probe ended.
func (s *standing) probed(good bool) verdict {
	switch {
	case !s.suspected && good:
		return stays
	case !s.suspected:
		s.doubt(1)
		return doubted
	case good:
		if s.good++; s.good >= s.needs {
			*s = standing{}
			return cleared
		}
		return stays
	}
	s.good = 0
	if s.bad++; s.bad > s.bears {
		*s = standing{}
		return givenUp
	}
	return stays
}
