package driver

import (
	"cmp"
	"slices"
)

// Decisions is the memory of a Tuner, for devices to use. It is not safe for concurrent
// use.
type Decisions map[tunedFor]Tuned

type tunedFor struct {
	kernel string
	class  int
}

// Take adds decisions; each replaces an older one for its kernel and size class.
func (d Decisions) Take(ts ...Tuned) {
	for _, t := range ts {
		d[tunedFor{t.Kernel, t.Class}] = t
	}
}

// Of returns what was decided for a kernel at a size class.
func (d Decisions) Of(kernel string, class int) (Tuned, bool) {
	t, ok := d[tunedFor{kernel, class}]
	return t, ok
}

// List returns all of them, by kernel and size class.
func (d Decisions) List() []Tuned {
	out := make([]Tuned, 0, len(d))
	for _, t := range d {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Tuned) int {
		return cmp.Or(cmp.Compare(a.Kernel, b.Kernel), cmp.Compare(a.Class, b.Class))
	})
	return out
}
