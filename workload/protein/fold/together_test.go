package fold

import (
	"bytes"
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// mixed returns runs of four lengths, three of which exchange temperatures.
func mixed(t testing.TB) []*Run {
	t.Helper()
	c := small
	runs := []*Run{newSmall(t, c)}
	c.Structure, c.Replicas, c.High = "BPTI", 5, c.Low
	runs = append(runs, newSmall(t, c))
	c.Replicas, c.Every, c.High, c.Seed = 20, 35, 1.1, 9
	helix, err := NewOf(c, protein.Helix(20))
	if err != nil {
		t.Fatal(err)
	}
	c.Steps, c.Every, c.Replicas = 450, 450, 2
	long, err := NewOf(c, protein.Helix(560))
	if err != nil {
		t.Fatal(err)
	}
	if most := long.shortSteps(2); most < 100 || most >= 400 { // so that its round is of several launches
		t.Fatalf("launches have %d steps", most)
	}
	return append(runs, helix, long)
}

func results(runs []*Run) (out [][]byte) {
	for _, r := range runs {
		out = append(out, r.result())
	}
	return out
}

// Runs that are folded at once have the bytes that each has alone, whatever the devices.
func TestTogether(t *testing.T) {
	alone := mixed(t)
	for _, r := range alone {
		do(t, workloadtest.Open(t, 1, Funcs()), r)
	}
	want := results(alone)
	for parts := 1; parts <= 3; parts++ {
		runs := mixed(t)
		told := make([][]int, len(runs))
		if err := DoAll(t.Context(), workloadtest.Open(t, parts, Funcs()), runs, func(run, round int) { told[run] = append(told[run], round) }); err != nil {
			t.Fatal(err)
		}
		for k, r := range runs {
			if !bytes.Equal(r.result(), want[k]) {
				t.Errorf("%d devices, run %d: other bytes than alone", parts, k)
			}
			if len(told[k]) != r.Rounds() || !slices.IsSorted(told[k]) || r.Done() != r.Rounds() {
				t.Errorf("%d devices, run %d: told of rounds %v of %d, %d done", parts, k, told[k], r.Rounds(), r.Done())
			}
			if k == len(runs)-1 {
				continue // the check of the long chain takes seconds
			}
			if err := r.Check(); err != nil {
				t.Errorf("%d devices, run %d: %v", parts, k, err)
			}
		}
	}
	// Devices with memory of their own, for which each round is planned.
	drv, err := fake.New(fake.Options{Devices: 2, MemBytes: 1 << 22, Funcs: Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := weft.Open(t.Context(), weft.Options{Drivers: []driver.Driver{drv}, NoCalibrate: true, CacheDir: "off", Funcs: Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	runs := mixed(t)
	if err := DoAll(t.Context(), rt, runs, nil); err != nil {
		t.Fatal(err)
	}
	for k, got := range results(runs) {
		if !bytes.Equal(got, want[k]) {
			t.Errorf("devices with memory, run %d: other bytes than alone", k)
		}
	}
}

// Runs that were ended are resumed together, each from where it was, and end with the same bytes. Other
// runs do not resume them.
func TestTogetherResume(t *testing.T) {
	whole := mixed(t)
	if err := DoAll(t.Context(), workloadtest.Open(t, 2, Funcs()), whole, nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "kept")
	open := func(parts string) *weft.Runtime {
		rt, err := weft.Open(t.Context(), weft.Options{
			NoCalibrate: true, CacheDir: "off", Devices: parts, Funcs: Funcs(),
			Checkpoint: weft.Checkpoint{Dir: dir, Every: time.Nanosecond, ResumeIfAny: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	rt := open("cpu/1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls, ended := 0, mixed(t)
	err := DoAll(ctx, rt, ended, func(int, int) {
		if calls++; calls == 7 {
			cancel()
		}
	})
	rt.Close()
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	rt = open("cpu/2")
	again, first := mixed(t), make(map[int]int)
	if err := DoAll(t.Context(), rt, again, func(run, round int) {
		if _, ok := first[run]; !ok {
			first[run] = round
		}
	}); err != nil {
		t.Fatal(err)
	}
	rt.Close()
	resumed := 0
	for k, r := range again {
		if !bytes.Equal(r.result(), whole[k].result()) {
			t.Errorf("run %d: other bytes than undisturbed", k)
		}
		if at, ok := first[k]; !ok || at > 0 {
			resumed++
		}
	}
	if resumed == 0 {
		t.Errorf("all began anew: %v", first)
	}
	other := mixed(t)
	slices.Reverse(other)
	rt = open("cpu/1")
	if err := DoAll(t.Context(), rt, other, nil); !errors.Is(err, weft.ErrOtherCheckpoint) {
		t.Errorf("in another order: %v", err)
	}
	rt.Close()
	rt = open("cpu/1")
	if err := mixed(t)[0].Do(t.Context(), rt, nil); !errors.Is(err, weft.ErrOtherCheckpoint) {
		t.Errorf("the first alone: %v", err)
	}
	rt.Close()
}

// An error of one run ends all, and what cannot be folded together is refused.
func TestTogetherFails(t *testing.T) {
	rt := workloadtest.Open(t, 2, Funcs())
	runs := mixed(t)
	runs[1].state[3*20][3] = math.NaN()
	if err := DoAll(t.Context(), rt, runs, nil); err == nil || !strings.Contains(err.Error(), "fold BPTI") || !strings.Contains(err.Error(), "bead 20 of replica 3 is nowhere") {
		t.Error(err)
	}
	c := Config{Steps: 10, Every: 10, Replicas: 1, Split: SplitAlways}
	one := newSmall(t, c)
	for name, runs := range map[string][]*Run{"none": nil, "nil": {nil}, "twice": {one, one}, "split": {mixed(t)[0], one}} {
		if err := DoAll(t.Context(), rt, runs, nil); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := DoAll(t.Context(), rt, []*Run{one}, nil); err != nil { // alone it may be split
		t.Error(err)
	}
}

// The run with the most left to do goes first.
func TestTogetherPriority(t *testing.T) {
	all := &together{left: []float64{10, 20, 30}}
	for _, c := range []struct {
		run  int
		left float64
		want int
	}{{2, 30, 2 * aheadEach}, {0, 10, 0}, {1, 20, aheadEach}, {2, 15, aheadEach}, {1, 20, 2 * aheadEach}, {2, 5, 0}} {
		if got := all.priority(c.run, c.left); got != c.want {
			t.Errorf("run %d with %v left: priority %d, want %d", c.run, c.left, got, c.want)
		}
	}
	r := newSmall(t, small)
	if half := r.left(0) / 2; math.Abs(r.left(3)/half-100.0/110) > 1e-12 { // of 110 steps 50 are left
		t.Errorf("%v left of %v after 60 of 110 steps", r.left(3), r.left(0))
	}
}
