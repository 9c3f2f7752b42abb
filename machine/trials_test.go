package machine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Trials are the mean of the last runs: the first two are left out once there are others,
// and so is what is wild, and later ones count more.
func TestTrials(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name     string
		took     []time.Duration
		runs     int
		low, top time.Duration // of the mean
	}{
		{"none", nil, 0, 0, 0},
		{"one", []time.Duration{100 * ms}, 1, 100 * ms, 100 * ms},
		{"the second replaces the first", []time.Duration{100 * ms, 30 * ms}, 1, 30 * ms, 30 * ms},
		{"and the third the second", []time.Duration{100 * ms, 30 * ms, 10 * ms}, 1, 10 * ms, 10 * ms},
		{"the mean", []time.Duration{100 * ms, 30 * ms, 10 * ms, 20 * ms}, 2, 15 * ms, 16 * ms},
		{"one that is wild", []time.Duration{9 * ms, 9 * ms, 10 * ms, 10 * ms, 100 * ms, 10 * ms}, 4, 10 * ms, 10 * ms},
		{"one that is long", []time.Duration{9 * ms, 9 * ms, 10 * ms, 10 * ms, 30 * ms, 10 * ms}, 4, 14 * ms, 16 * ms},
	} {
		h := newHistory(t, "mixed")
		for _, d := range c.took {
			h.ObserveTrial("k on gpu", 1e9, d)
		}
		if got := h.Trials("k on gpu", 1e9); got.Runs != c.runs || got.Mean < c.low || got.Mean > c.top {
			t.Errorf("%s: %+v, want %d runs of %v to %v", c.name, got, c.runs, c.low, c.top)
		}
		if got := h.Trials("k on gpu", 2e9); got != (Trials{}) {
			t.Errorf("%s: of another size it says %+v", c.name, got)
		}
	}
}

// The doubt is the standard error of the mean, and Since counts the runs on other devices.
func TestTrialsDoubt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := newHistory(t, "mixed")
	means, doubts := 0.0, 0.0
	const n = 2000
	for range n {
		h.ObserveTrial("a", 1, time.Duration(1e6*(1+0.1*r.NormFloat64())), "b")
		x := h.Trials("a", 1)
		means += (float64(x.Mean)/1e6 - 1) * (float64(x.Mean)/1e6 - 1) / n
		doubts += float64(x.Doubt) / 1e6 * float64(x.Doubt) / 1e6 / n
	}
	if q := means / doubts; q < 0.6 || q > 1.7 {
		t.Errorf("the mean has a variance of %.6f and is said to have %.6f", means, doubts)
	}
	h.ObserveTrial("b", 1, time.Second, "a")
	h.ObserveTrial("b", 1, time.Second, "a", "never run")
	if a, b := h.Trials("a", 1), h.Trials("b", 1); a.Since != 2 || b.Since != 0 || a.Runs != maxRecent {
		t.Errorf("%+v and %+v", a, b)
	}
	h.ObserveTrial("a", 1, 0, "b")
	if b := h.Trials("b", 1); b.Since != 0 {
		t.Errorf("a run of no duration counted: %+v", b)
	}
}

// Of more works than are remembered, those not run for longest are forgotten.
func TestTrialsBounded(t *testing.T) {
	h := newHistory(t, "mixed")
	for i := range 2 * maxTrials {
		h.ObserveTrial(fmt.Sprint(i), 1, time.Second)
		h.ObserveTrial("often", 1, time.Second)
	}
	if len(h.trials) != maxTrials || h.Trials("often", 1).Runs == 0 || h.Trials("0", 1).Runs != 0 || h.Trials(fmt.Sprint(2*maxTrials-1), 1).Runs == 0 {
		t.Errorf("%d works", len(h.trials))
	}
}

// Trials are saved and read back, copied with the history, and refused where no history
// could have written them.
func TestTrialsFile(t *testing.T) {
	h := newHistory(t, "mixed")
	for i := range 20 {
		h.ObserveTrial("a", 1e9, time.Duration(i+1)*time.Millisecond, "b")
		h.ObserveTrial("b", 1e9, time.Duration(i+2)*time.Millisecond, "a")
	}
	same := h.Clone()
	back := newHistory(t, "mixed")
	if err := back.Load(h.Save()); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.trials, h.trials) || back.Observed() != h.Observed() {
		t.Errorf("read back: %+v, want %+v", back.trials, h.trials)
	}
	h.ObserveTrial("a", 1e9, time.Hour)
	if same.Trials("a", 1e9) == h.Trials("a", 1e9) {
		t.Error("the copy learns with the original")
	}
	for _, c := range []struct{ name, old, new string }{
		{"no runs", `"took":[`, `"took":[],"x":[`},
		{"no time", `"last":39`, `"last":0`},
		{"negative", `"size":1000000000`, `"size":-1`},
		{"fewer than are there", `"seen":20`, `"seen":2`},
		{"twice", `"name":"b"`, `"name":"a"`},
		{"not a duration", `"took":[6000000`, `"took":[0`},
	} {
		src := strings.Replace(string(same.Save()), c.old, c.new, 1)
		if src == string(same.Save()) {
			t.Fatalf("%s: nothing to replace in %s", c.name, src)
		}
		if err := back.Load([]byte(src)); !errors.Is(err, ErrHistory) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
