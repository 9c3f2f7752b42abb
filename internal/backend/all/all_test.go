package all_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	if found := all.Drivers(all.Options{NoWorkers: true}); len(found) != 1 || found[0].Name() != "cpu" {
		t.Errorf("%d drivers without workers", len(found))
	}
	if found := all.Drivers(all.Options{NoWorkers: true, Isolate: true}); len(found) != 0 {
		t.Errorf("%d drivers without workers though all are to be in workers", len(found))
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

// The number of streams reaches the backends that have a limit to it: beyond that they refuse.
func TestStreams(t *testing.T) {
	for name, most := range map[string]int{"cuda": 6, "vulkan": 16} {
		sel, err := machine.ParseSelection(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, streams := range []int{most, most + 1} {
			devs, err := all.Drivers(all.Options{Select: sel, Streams: streams})[0].Open(context.Background(), nil)
			for _, d := range devs {
				_ = d.Close()
			}
			refused := err != nil && strings.Contains(err.Error(), fmt.Sprintf("lanes is %d", streams))
			if refused != (streams > most) {
				t.Errorf("%s with %d streams: %v", name, streams, err)
			}
		}
	}
}
