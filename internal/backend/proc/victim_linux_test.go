package proc

import (
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

func TestVictim(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for name, c := range map[string]struct {
		left   int64
		all    []holder
		want   int
		reason string // the beginning of it
	}{
		"enough is left":                {100, []holder{{50, at(1)}}, -1, ""},
		"nobody runs":                   {60, nil, -1, "no running worker has it"},
		"the only one":                  {60, []holder{{50, at(1)}}, 0, ""},
		"the newest":                    {60, []holder{{50, at(1)}, {50, at(3)}, {50, at(2)}}, 1, ""},
		"newest of the large":           {60, []holder{{100, at(1)}, {60, at(2)}, {30, at(3)}}, 1, ""},
		"a small one frees little":      {60, []holder{{100, at(1)}, {49, at(2)}}, 0, ""},
		"the largest of equally new":    {60, []holder{{80, at(2)}, {100, at(2)}, {90, at(2)}}, 1, ""},
		"nothing is known of it":        {60, []holder{{0, at(2)}}, -1, "no running worker has it"},
		"one of unknown size is spared": {60, []holder{{0, at(9)}, {45, at(2)}}, 1, ""},
		"they have little":              {99, []holder{{12, at(9)}, {12, at(2)}}, -1, "no running worker has it"},
		"a fourth of the reserve":       {99, []holder{{12, at(9)}, {13, at(2)}}, 0, ""},
		"it has not what is missing":    {60, []holder{{39, at(1)}}, -1, "no running worker has it"},
		"it has just what is missing":   {60, []holder{{40, at(1)}}, 0, ""},
		"together they have it":         {0, []holder{{50, at(1)}, {50, at(2)}}, 1, ""},
		"together they have it not":     {0, []holder{{49, at(1)}, {50, at(2)}}, -1, "no running worker has it"},
		"with small ones they have it":  {0, []holder{{90, at(1)}, {20, at(2)}}, 0, ""},
		"many small ones have it":       {0, slices.Repeat([]holder{{2, at(1)}}, 50), 0, ""},
		"many small ones have it not":   {0, slices.Repeat([]holder{{2, at(1)}}, 49), -1, "no running worker has it"},
	} {
		got, reason := victim(c.left, 100, c.all)
		if got != c.want || !strings.HasPrefix(reason, c.reason) || c.reason == "" && reason != "" {
			t.Errorf("%s: worker %d, want %d: %s", name, got, c.want, reason)
		}
	}
}

// A worker is ended just if the workers have all that is missing, and it is a large one.
func TestVictimSuffices(t *testing.T) {
	const reserve = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	ended := 0
	for range 20000 {
		left := rng.Int64N(reserve)
		all := make([]holder, rng.IntN(70))
		each := 1 + rng.Int64N(2*reserve/int64(1+len(all)))
		sum, most := int64(0), int64(0)
		for i := range all {
			all[i] = holder{rng.Int64N(each), time.Unix(rng.Int64N(4), 0)}
			sum, most = sum+all[i].bytes, max(most, all[i].bytes)
		}
		i, reason := victim(left, reserve, all)
		if (i < 0) != (reason != "") || (i < 0) != (sum < reserve-left || sum < reserve/4) {
			t.Fatalf("%d left of %v: worker %d, reason %q", left, all, i, reason)
		}
		if i < 0 {
			continue
		}
		ended++
		if all[i].bytes < most/2 {
			t.Fatalf("%d left of %v: worker %d", left, all, i)
		}
	}
	if ended < 1000 || ended > 19000 {
		t.Errorf("%d of 20000 cases end a worker", ended)
	}
}

// idler returns a device that runs a launch, whose worker is a process that only waits. That it
// ended is never told.
func idler(t *testing.T) *device {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // so it fails
	})
	w := &child{cmd: cmd, doom: make(chan struct{}), exited: make(chan struct{}), reap: time.Millisecond}
	d := &device{origin: &origin{}, w: w, lanes: []*lane{{kind: computes, fly: []flight{{seq: 5, kind: driver.Launch}}}}}
	d.origin.found.Info.HostMemory = true
	d.serving.Store(w)
	return d
}

// What is known of a device's launches stays known when the device is busy at a look.
func TestGuardBusyDevice(t *testing.T) {
	d := idler(t)
	g := &guard{devs: []*device{d}, began: make(map[*device]map[driver.Wait]time.Time)}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	if all, _ := g.look(at(1)); len(all) != 1 || !all[0].began.Equal(at(1)) || all[0].bytes <= 0 {
		t.Fatalf("at first: %v", all)
	}
	d.mu.Lock()
	if all, _ := g.look(at(2)); len(all) != 0 {
		t.Errorf("while it is busy: %v", all)
	}
	d.mu.Unlock()
	if all, _ := g.look(at(3)); len(all) != 1 || !all[0].began.Equal(at(1)) {
		t.Errorf("after that: %v", all)
	}
	d.lanes[0].fly[0].seq++
	if all, _ := g.look(at(4)); len(all) != 1 || !all[0].began.Equal(at(4)) {
		t.Errorf("the next launch: %v", all)
	}
}

// The guard goes on when a worker that it ended does not vanish.
func TestGuardOfAStuckWorker(t *testing.T) {
	d := idler(t)
	again := make(chan struct{}, 1)
	o := &Options{Workers: Workers{MemoryReserve: 1}, Available: func() int64 {
		select {
		case <-d.w.doom:
			select {
			case again <- struct{}{}:
			default:
			}
		default:
		}
		return 0
	},
	}
	g := watchMemory(o, []*device{d}, slog.New(slog.DiscardHandler))
	defer g.end()
	select {
	case <-again:
	case <-time.After(time.Minute):
		t.Error("it does not look again")
	}
}

func TestShortage(t *testing.T) {
	var s shortage
	at := func(d time.Duration) time.Time { return time.Unix(1000, 0).Add(d) }
	for _, c := range []struct {
		at        time.Duration
		short, is bool
	}{
		{0, false, false},
		{0, true, false},                             // it may be over soon
		{shortFor / 2, false, false},                 // and is
		{shortFor, true, false},                      // it begins anew
		{2*shortFor - 1, true, false},                //
		{2 * shortFor, true, true},                   // and lasts
		{3 * shortFor, true, false},                  // that was said
		{2*shortFor + shortAgain, true, true},        // it lasts very long
		{3*shortFor + shortAgain, false, false},      //
		{4*shortFor + shortAgain, true, false},       // short again
		{5*shortFor + shortAgain, true, false},       // it was said within a minute
		{2*shortFor + 2*shortAgain + 1, true, true},  //
		{2*shortFor + 2*shortAgain + 2, true, false}, //
	} {
		if got := s.due(at(c.at), c.short); got != c.is {
			t.Errorf("at %v: %v", c.at, got)
		}
	}
}
