package weft_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
)

func TestMap(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu/1", "cpu/3"} {
		rt := open(t, weft.Options{Devices: devices})
		for _, n := range []int{0, 1, 2, 7, 1000, 100_000} {
			xs := indices(n)
			got, err := weft.Map(context.Background(), rt, xs, strconv.Itoa)
			if err != nil || len(got) != n || got == nil {
				t.Fatalf("%d on %s: %d results, %v", n, devices, len(got), err)
			}
			for i := range got {
				if got[i] != strconv.Itoa(i) {
					t.Fatalf("%d on %s: result %d is %q", n, devices, i, got[i])
				}
			}
		}
	}
}

// Many maps at once do not see one another.
func TestMapsAtOnce(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2"})
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			got, err := weft.Map(context.Background(), rt, indices(5000), func(x int) int { return x*8 + k })
			for i := range got {
				if got[i] != i*8+k {
					t.Errorf("map %d: element %d is %d", k, i, got[i])
					return
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// The error is that of the first element that fails, however they are spread.
func TestMapErrors(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2"})
	odd := errors.New("odd")
	for _, first := range []int{0, 1, 2, 600, 4999} {
		got, err := weft.MapErr(context.Background(), rt, indices(5000), func(x int) (string, error) {
			if x >= first && (x-first)%3 == 0 {
				return "", fmt.Errorf("%d: %w", x, odd)
			}
			return "fine", nil
		})
		var me *weft.MapError
		if got != nil || !errors.Is(err, odd) || !errors.As(err, &me) || me.Index != first {
			t.Errorf("first at %d: %v", first, err)
		}
		_, err = weft.Map(context.Background(), rt, indices(5000), func(x int) int {
			if x >= first {
				var none []int
				return none[x]
			}
			return x
		})
		if !errors.Is(err, weft.ErrPanic) || !errors.As(err, &me) || me.Index != first || !strings.Contains(string(me.Stack), "TestMapErrors") {
			t.Errorf("first panic at %d: %v", first, err)
		}
	}
	if m := rt.Metrics(); m.Runs.Failed != 0 || m.Losses != 0 {
		t.Errorf("errors of elements failed runs: %+v", m)
	}
}

func TestMapCancelled(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2"})
	ctx, cancel := context.WithCancel(context.Background())
	got, err := weft.Map(ctx, rt, indices(100_000), func(x int) int {
		if x == 50 {
			cancel()
		}
		time.Sleep(10 * time.Microsecond) // or all may be done before anybody hears of it
		return x
	})
	if got != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, weft.ErrCancelled) {
		t.Errorf("cancelled under way: %d results, %v", len(got), err)
	}
	if _, err := weft.Map(ctx, rt, indices(10), strconv.Itoa); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := weft.Map(context.Background(), rt, indices(10), strconv.Itoa); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Elements that take long are tasks of their own; those that take nothing are
// many to a task.
func TestMapBlocks(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2"})
	tasks := func() (n int64) {
		for _, d := range rt.Metrics().Devices {
			n += d.Tasks
		}
		return n
	}
	slow := func(x int) int {
		for began := time.Now(); time.Since(began) < 2*time.Millisecond; {
		}
		return x
	}
	if _, err := weft.Map(context.Background(), rt, indices(20), slow); err != nil {
		t.Fatal(err)
	}
	if n := tasks(); n != 20 {
		t.Errorf("%d tasks for 20 slow elements", n)
	}
	before := tasks()
	if _, err := weft.Map(context.Background(), rt, indices(1_000_000), func(x int) int { return x + 1 }); err != nil {
		t.Fatal(err)
	}
	if n := tasks() - before; n > 10_000 {
		t.Errorf("%d tasks for a million elements that take nothing", n)
	}
}

// All cores of a device compute elements that take long, from the first to the last.
func TestMapUsesCores(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu"})
	cores := int32(rt.Machine().Devices[0].ComputeUnits)
	var now atomic.Int32
	const n = 40
	peaks := make([]int32, n)    // by element
	var together [2]atomic.Int32 // by half: the most elements at once
	end := time.Now().Add(30 * time.Second)
	_, err := weft.Map(context.Background(), rt, indices(n), func(i int) int {
		peaks[i] = now.Add(1)
		most := &together[2*i/n]
		for old := most.Load(); peaks[i] > old && !most.CompareAndSwap(old, peaks[i]); old = most.Load() {
		}
		for most.Load() < min(cores, 2) && time.Now().Before(end) { // it takes until another begins
			time.Sleep(100 * time.Microsecond)
		}
		now.Add(-1)
		return i
	})
	if err != nil {
		t.Fatal(err)
	}
	for lo := 0; lo < n; lo += n / 2 {
		if p := slices.Max(peaks[lo : lo+n/2]); p < min(cores, 2) || p > cores {
			t.Errorf("%d of the elements from %d on were computed at once, with %d cores", p, lo, cores)
		}
	}
}
