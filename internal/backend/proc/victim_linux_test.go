package proc

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestVictim(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for name, c := range map[string]struct {
		left   int64
		all    []holder
		want   int
		reason string // the beginning of it
	}{
		"enough is left":                 {100, []holder{{50, at(1)}}, -1, ""},
		"nobody runs":                    {60, nil, -1, "no worker runs a task"},
		"the only one":                   {60, []holder{{50, at(1)}}, 0, ""},
		"the newest":                     {60, []holder{{50, at(1)}, {50, at(3)}, {50, at(2)}}, 1, ""},
		"newest of the large":            {60, []holder{{100, at(1)}, {60, at(2)}, {30, at(3)}}, 1, ""},
		"a small one frees little":       {60, []holder{{100, at(1)}, {49, at(2)}}, 0, ""},
		"the largest of equally new":     {60, []holder{{80, at(2)}, {100, at(2)}, {90, at(2)}}, 1, ""},
		"nothing is known of it":         {60, []holder{{0, at(2)}}, -1, "the largest worker has 0 MiB"},
		"one of unknown size is spared":  {60, []holder{{0, at(9)}, {45, at(2)}}, 1, ""},
		"small ones are spared":          {99, []holder{{24, at(9)}, {24, at(2)}}, -1, "the largest worker has"},
		"a fourth of the reserve":        {99, []holder{{24, at(9)}, {25, at(2)}}, 1, ""},
		"it has not what is missing":     {60, []holder{{39, at(1)}}, -1, "large workers have"},
		"it has just what is missing":    {60, []holder{{40, at(1)}}, 0, ""},
		"together they have it":          {0, []holder{{50, at(1)}, {50, at(2)}}, 1, ""},
		"together they have it not":      {0, []holder{{49, at(1)}, {50, at(2)}}, -1, "large workers have"},
		"what small ones have is no use": {0, []holder{{90, at(1)}, {20, at(2)}}, -1, "large workers have"},
	} {
		got, reason := victim(c.left, 100, c.all)
		if got != c.want || !strings.HasPrefix(reason, c.reason) || c.reason == "" && reason != "" {
			t.Errorf("%s: worker %d, want %d: %s", name, got, c.want, reason)
		}
	}
}

// A worker that is ended has, with others that could be, all that is missing, whatever there is.
func TestVictimSuffices(t *testing.T) {
	const reserve = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	ended := 0
	for range 20000 {
		left := rng.Int64N(reserve)
		all := make([]holder, rng.IntN(6))
		for i := range all {
			all[i] = holder{rng.Int64N(2 * reserve / int64(1+rng.IntN(8))), time.Unix(rng.Int64N(4), 0)}
		}
		i, reason := victim(left, reserve, all)
		if (i < 0) != (reason != "") {
			t.Fatalf("%d left of %v: worker %d, reason %q", left, all, i, reason)
		}
		if i < 0 {
			continue
		}
		ended++
		sum := int64(0)
		for _, h := range all {
			if h.bytes >= reserve/4 {
				sum += h.bytes
			}
		}
		if all[i].bytes < reserve/4 || sum < reserve-left {
			t.Fatalf("%d left of %v: worker %d", left, all, i)
		}
	}
	if ended < 1000 {
		t.Errorf("only %d of 20000 cases end a worker", ended)
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
