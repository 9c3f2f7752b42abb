//go:build !amd64

package reservoir

// gathers is false where there is no kernel that has neurons for elements.
var gathers = false

func (s *sliced) gather(st *fewStates, place, first, batch int) (highest uint32) { return 0 }
