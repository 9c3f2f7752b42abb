package bytevm

import (
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	firstFlag  = flag.Uint64("first", 1, "the first seed TestBytes runs")
	seedsFlag  = flag.Uint64("seeds", 150, "how many seeds TestBytes runs")
	traitsFlag = flag.String("traits", "", "traits TestBytes may draw, or -name,… for all but these")
	logFlag    = flag.Bool("log", false, "log every action and event, with -seeds 1")
)

// TestBytes runs random programs on random machines while random things go wrong,
// and compares bytes; see the package comment. A failing seed is printed with the
// command that runs it alone.
func TestBytes(t *testing.T) {
	allowed := All
	if *traitsFlag != "" {
		var err error
		if allowed, err = ParseTraits(*traitsFlag); err != nil {
			t.Fatal(err)
		}
	}
	var log func(string)
	if *logFlag && *seedsFlag == 1 {
		log = func(s string) { t.Log(s) }
	}
	const maxBad = 10
	seeds := *seedsFlag
	if testing.Short() {
		seeds = min(seeds, 10)
	}
	var mu sync.Mutex
	var sum Summary
	var next, bad atomic.Uint64
	next.Store(*firstFlag)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= *firstFlag+seeds || bad.Load() >= maxBad {
					return
				}
				// A seed takes some 10 ms. One that does not end is named before
				// the limit of the whole test hides which it was.
				watch := time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("bytevm: seed %d does not end", seed)) })
				drawn, one, err := Run(seed, allowed, log)
				watch.Stop()
				mu.Lock()
				sum.Add(one)
				mu.Unlock()
				if err != nil {
					bad.Add(1)
					t.Errorf("seed %d (go test ./internal/test/bytevm -run '^TestBytes$' -seeds 1 -first %d), %v:\n%v", seed, seed, drawn, err)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%+v", sum)
	if seeds < 100 || *traitsFlag != "" {
		return
	}
	// The trials must go through what they are there to test.
	for i, v := 0, reflect.ValueOf(sum); i < v.NumField(); i++ {
		if v.Field(i).Int() == 0 {
			t.Errorf("no trial counts any %s", v.Type().Field(i).Name)
		}
	}
}

// TestReplay runs a seed twice: a trial is a function of its seed alone, or a
// failure could not be looked at again.
func TestReplay(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		var logs [2][]string
		for i := range logs {
			if _, _, err := Run(seed+1, All, func(s string) { logs[i] = append(logs[i], s) }); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(logs[0], logs[1]) {
			t.Errorf("seed %d: two trials differ", seed+1)
		}
	}
}

func TestTraits(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Trait
	}{
		{"", 0}, {"all", All}, {"gangs,reuse", Gangs | Reuse}, {"-wrap", All &^ Wrap}, {"all,-wrap,-gangs", All &^ (Wrap | Gangs)},
		{All.String(), All},
	} {
		if got, err := ParseTraits(c.in); err != nil || got != c.want {
			t.Errorf("%q is %v (%v), want %v", c.in, got, err, c.want)
		}
	}
	if _, err := ParseTraits("gang"); err == nil {
		t.Error("an unknown trait is taken")
	}
}
