package machine

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/weft-run/weft/internal/text"
)

// ErrSelection is wrapped by errors of ParseSelection.
var ErrSelection = errors.New("bad device list")

// Selection says which devices of a machine to use and into how many each is divided. It
// is written as a list: "cpu,cuda:1" is everything of backend cpu and device 1 of cuda,
// "cuda:0/4" is one GPU as four devices. The zero value selects everything, undivided.
type Selection struct{ items []selector }

// selector is an item of a list.
type selector struct {
	text    string // as it was written
	backend string
	index   int // -1: all devices of the backend
	parts   int // 0: not said
}

// maxParts bounds the devices that one is divided into: beyond this number, parts of a
// CPU only take turns on its cores.
var maxParts = max(64, 4*runtime.NumCPU())

// ParseSelection reads a list. Spaces around items are ignored, and an empty list selects
// everything.
func ParseSelection(list string) (Selection, error) {
	var s Selection
	if strings.TrimSpace(list) == "" {
		return s, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		x, err := parseSelector(strings.TrimSpace(item))
		if err != nil {
			return Selection{}, err
		}
		for _, o := range s.items {
			if o.backend == x.backend && (o.index == x.index || o.index < 0 || x.index < 0) && o.parts > 0 && x.parts > 0 && o.parts != x.parts {
				return Selection{}, fmt.Errorf("%w: devices %q and %q: one device cannot be divided in two ways", ErrSelection, o.text, x.text)
			}
		}
		s.items = append(s.items, x)
	}
	return s, nil
}

func parseSelector(item string) (selector, error) {
	s := selector{text: item, index: -1}
	bad := func(format string, args ...any) (selector, error) {
		return s, fmt.Errorf("%w: device %q: %s", ErrSelection, item, fmt.Sprintf(format, args...))
	}
	head, parts, divided := strings.Cut(item, "/")
	if divided {
		n, err := text.ParseWhole(parts)
		if err != nil || n < 1 || n > int64(maxParts) {
			return bad("divide it into 1 to %d parts, as in cpu/4", maxParts)
		}
		s.parts = int(n)
	}
	name, index, one := strings.Cut(head, ":")
	if one {
		n, err := text.ParseWhole(index)
		if err != nil || n < 0 || n > math.MaxInt32 {
			return bad("number a device from 0, as in cpu:0")
		}
		s.index = int(n)
	}
	if s.backend = name; name == "" {
		return bad("begin with a backend, as in cpu:0")
	}
	return s, nil
}

// name is the name of the device that a selector of one device selects.
func (s *selector) name() string { return fmt.Sprintf("%s:%d", s.backend, s.index) }

// takes reports whether a selector selects a device, or a part of it.
func (s *selector) takes(d *Device) bool {
	switch {
	case s.backend != d.Backend || s.parts > 1 && d.PartOf == "":
		return false
	case s.index < 0:
		return true
	case s.parts > 1:
		return d.PartOf == s.name()
	}
	return d.Name == s.name() || d.PartOf == s.name()
}

// All reports whether the selection names nothing, and so selects everything.
func (s Selection) All() bool { return len(s.items) == 0 }

// Takes reports whether a device is selected.
func (s Selection) Takes(d *Device) bool {
	return s.All() || slices.ContainsFunc(s.items, func(x selector) bool { return x.takes(d) })
}

// Backends returns the backends that are named, each once; none if everything is selected.
func (s Selection) Backends() []string {
	var out []string
	for _, x := range s.items {
		if !slices.Contains(out, x.backend) {
			out = append(out, x.backend)
		}
	}
	return out
}

// Names reports whether devices of a backend are asked for by its name.
func (s Selection) Names(backend string) bool { return slices.Contains(s.Backends(), backend) }

// Parts returns into how many devices one that was found whole is divided: 0 if it is not
// selected, 1 if it stays whole. Drivers obey it, and set PartOf of the parts.
func (s Selection) Parts(d *Device) int {
	n := 0
	if s.All() {
		n = 1
	}
	for _, x := range s.items {
		if x.backend == d.Backend && (x.index < 0 || x.name() == d.Name) {
			n = max(n, x.parts, 1)
		}
	}
	return n
}

// Missing returns the first item that selects none of some devices, "" if there is none.
func (s Selection) Missing(devices []Device) string {
	for _, x := range s.items {
		if !slices.ContainsFunc(devices, func(d Device) bool { return x.takes(&d) }) {
			return x.text
		}
	}
	return ""
}
