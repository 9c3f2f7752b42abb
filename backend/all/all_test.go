package all_test

import (
	"context"
	"slices"
	"testing"

	"github.com/weft-run/weft/backend/all"
)

func TestDrivers(t *testing.T) {
	for _, d := range all.Drivers(all.Options{Parts: map[string]int{"cpu": 3}}) {
		if d.Name() != "cpu" {
			continue
		}
		devs, err := d.Open(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(devs) != 3 {
			t.Errorf("asked for 3 parts, got %d", len(devs))
		}
		for _, dev := range devs {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestNames(t *testing.T) {
	names := all.Names()
	if !slices.Contains(names, "cpu") {
		t.Errorf("no cpu among %q", names)
	}
	seen := map[string]bool{}
	for _, n := range names {
		if n == "" || seen[n] {
			t.Errorf("name %q is empty or there twice", n)
		}
		seen[n] = true
	}
}
