package all_test

import (
	"context"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/machine"
)

func TestDrivers(t *testing.T) {
	sel, err := machine.ParseSelection("cpu/3")
	if err != nil {
		t.Fatal(err)
	}
	drivers := all.Drivers(all.Options{Select: sel})
	if len(drivers) != 1 || drivers[0].Name() != "cpu" {
		t.Errorf("%d drivers for cpu/3", len(drivers))
	}
	for _, d := range all.Drivers(all.Options{NoWorkers: true}) {
		if all.Makers()[d.Name()] != nil {
			t.Errorf("%s is there without workers, and runs in them", d.Name())
		}
	}
	for _, d := range drivers {
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
