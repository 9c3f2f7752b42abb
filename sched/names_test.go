package sched

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// A name of another system is answered with weft's; names of weft in another spelling too.
func TestNamesElsewhere(t *testing.T) {
	policy := func(name string) error { _, err := New(name); return err }
	partitioner := func(name string) error { _, err := NewPartitioner(name); return err }
	for _, x := range []struct {
		of         func(string) error
		name, want string
	}{
		{policy, "WeightedLoad", `policy "WeightedLoad": unknown name (weft calls it leastloaded); use one of adaptive, `},
		{policy, "round_robin", `(weft calls it roundrobin)`},
		{policy, "random", `(weft calls it capacity-weighted)`},
		{policy, "nonsense", `policy "nonsense": unknown name; use one of adaptive, `},
		{policy, " ", `policy " ": unknown name; use one of adaptive, `},
		{partitioner, "EqualSplit", `partitioner "EqualSplit": unknown name (weft calls it equal); use one of `},
		{partitioner, "Load-Balanced", `(weft calls it dynamic)`},
	} {
		if err := x.of(x.name); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v", x.name, err)
		}
	}
}

// docs/NAMES.md has every policy and partitioner with the names that are answered, and no name stands for two.
func TestNamesDoc(t *testing.T) {
	text, err := os.ReadFile("../docs/NAMES.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, own := range map[string][]string{"policy": Names(), "partitioner": PartitionerNames()} {
		if named := slices.Sorted(maps.Keys(elsewhere[kind])); !slices.Equal(named, own) {
			t.Errorf("%s: names elsewhere for %v, and there are %v", kind, named, own)
		}
		of := make(map[string]string)
		for _, name := range own {
			row := fmt.Sprintf("| %s `%s` | %s |\n", kind, name, strings.Join(elsewhere[kind][name], ", "))
			if !strings.Contains(string(text), row) {
				t.Errorf("docs/NAMES.md does not have the row\n%s", row)
			}
			for _, theirs := range elsewhere[kind][name] {
				if other := of[plain(theirs)]; other != "" {
					t.Errorf("%s stands for %s and %s", theirs, other, name)
				}
				of[plain(theirs)] = name
			}
		}
	}
}
