package machine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What a list selects of three devices, divided as it says.
func TestSelection(t *testing.T) {
	whole := []Device{{Name: "cpu:0", Backend: "cpu"}, {Name: "cuda:0", Backend: "cuda"}, {Name: "cuda:1", Backend: "cuda"}}
	for _, c := range []struct{ list, parts, want, missing string }{
		{"", "1 1 1", "cpu:0 cuda:0 cuda:1", ""},
		{" ", "1 1 1", "cpu:0 cuda:0 cuda:1", ""},
		{"cuda", "0 1 1", "cuda:0 cuda:1", ""},
		{"cuda:1", "0 0 1", "cuda:1", ""},
		{"cuda:1, cpu", "1 0 1", "cpu:0 cuda:1", ""},
		{"cpu/3", "3 0 0", "cpu:0 cpu:1 cpu:2", ""},
		{"cpu:0/2", "2 0 0", "cpu:0 cpu:1", ""},
		{"cpu/2,cpu:1", "2 0 0", "cpu:0 cpu:1", ""},
		{"cpu/1", "1 0 0", "cpu:0", ""},
		{"cuda:0/2", "0 2 0", "cuda:0.0 cuda:0.1", ""},
		{"cuda/2", "0 2 2", "cuda:0.0 cuda:0.1 cuda:1.0 cuda:1.1", ""},
		{"cuda:0/2,cuda:1", "0 2 1", "cuda:0.0 cuda:0.1 cuda:1", ""},
		{"cuda:0/2,cuda", "0 2 1", "cuda:0.0 cuda:0.1 cuda:1", ""},
		{"cuda:7", "0 0 0", "", "cuda:7"},
		{"cpu,cuda:7", "1 0 0", "cpu:0", "cuda:7"},
		{"cpu:1/2", "0 0 0", "", "cpu:1/2"},
		{"vulkan", "0 0 0", "", "vulkan"},
	} {
		s, err := ParseSelection(c.list)
		if err != nil {
			t.Errorf("%q: %v", c.list, err)
			continue
		}
		var found []Device
		var parts, names []string
		for i := range whole {
			n := s.Parts(&whole[i])
			parts = append(parts, fmt.Sprint(n))
			for k := range n {
				d := whole[i]
				switch {
				case n > 1 && d.Backend == "cpu": // whose parts are numbered like devices
					d.Name, d.PartOf = fmt.Sprintf("cpu:%d", k), d.Name
				case n > 1:
					d.Name, d.PartOf = fmt.Sprintf("%s.%d", d.Name, k), d.Name
				}
				found = append(found, d)
			}
		}
		for i := range found {
			if s.Takes(&found[i]) {
				names = append(names, found[i].Name)
			}
		}
		if got := strings.Join(names, " "); strings.Join(parts, " ") != c.parts || got != c.want || s.Missing(found) != c.missing {
			t.Errorf("%q: parts %v, takes %s, missing %q; want %s, %s, %q", c.list, parts, got, s.Missing(found), c.parts, c.want, c.missing)
		}
	}
}

// A driver that divides nothing does not have what is asked for in parts.
func TestSelectionUndivided(t *testing.T) {
	s, err := ParseSelection("fake/2")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Missing([]Device{{Name: "fake:0", Backend: "fake"}}); got != "fake/2" || !s.Names("fake") || s.Names("cpu") {
		t.Errorf("missing %q, backends %v", got, s.Backends())
	}
}

// Mistakes are named with the item they are in.
func TestSelectionMistakes(t *testing.T) {
	for list, want := range map[string]string{
		":1": "begin with a backend", "cpu:": "number a device from 0", "cpu:-1": "number a device", "cpu:x": "number a device",
		"cpu/": "divide it into 1 to", "cpu/0": "divide it into 1 to", "cpu/100000": "divide it into 1 to", "cpu,": `device "": begin with`,
		"cpu/2,cpu/3": "two ways", "cpu/2,cpu:0/3": "two ways", "cuda:1/3,cuda/2": "two ways",
	} {
		if _, err := ParseSelection(list); !errors.Is(err, ErrSelection) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
}

// Whatever is written, it is read or refused, and what is read selects consistently.
func FuzzSelection(f *testing.F) {
	for _, s := range []string{"", "cpu", "cpu/4,cuda:0/2", "cuda:1", ":", "/", "a:1/2,a", "cpu:0,,", "é/9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		s, err := ParseSelection(list)
		if err != nil {
			return
		}
		for _, b := range s.Backends() {
			d := Device{Name: b + ":0", Backend: b}
			if s.Parts(&d) == 1 && !s.Takes(&d) {
				t.Errorf("%q keeps %s whole and does not take it", list, d.Name)
			}
		}
	})
}
