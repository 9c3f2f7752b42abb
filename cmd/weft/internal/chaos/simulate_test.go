package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/merkle"
	"github.com/weft-run/weft/workload/reduce"
	"github.com/weft-run/weft/workload/tropical"
)

var (
	seedsFlag = flag.Uint64("seeds", 60, "how many seeds TestSimulated runs")
	firstFlag = flag.Uint64("first", 1, "the first of them")
)

// jobs are small ones of the workloads, with their kernels.
var jobs = map[string]func(context.Context) (workload.Job, error){
	"merkle":   made(merkle.New, merkle.Config{N: 40000, Mode: merkle.RFC6962}),
	"tropical": made(tropical.New, tropical.Config{M: 3000, K: 64, N: 100, Seed: 1}),
	"automata": made(automata.New, automata.Config{Rows: 2000, Cols: 1920, Steps: 40, K: 4, Seed: 1}),
	"gemm":     made(gemm.New, gemm.Config{M: 3000, K: 64, N: 100, Seed: 1}),
	"reduce":   made(reduce.New, reduce.Config{Op: "sum", N: 1 << 18, Seed: 3}),
}

func made[C any, J workload.Job](make func(C) (J, error), c C) func(context.Context) (workload.Job, error) {
	return func(context.Context) (workload.Job, error) { return make(c) }
}

// TestSimulated does the beginning of the trials of many seeds in virtual time.
//
//	go test ./cmd/weft/internal/chaos -run '^TestSimulated$' -seeds 1000
func TestSimulated(t *testing.T) {
	devices := []string{"cpu/2", "fake/3", "cpu/2,fake/2"}
	sum := make(map[string]int)
	seeds := *seedsFlag
	if testing.Short() {
		seeds = min(seeds, 10)
	}
	for name, make := range jobs {
		j, err := make(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		job := func(context.Context) (workload.Job, error) { return j, nil } // a simulation leaves it as it is
		for seed := *firstFlag; seed < *firstFlag+seeds; seed++ {
			trial := &Trial{Job: job, Options: weft.Options{Devices: devices[seed%3], HangTimeout: time.Second}, Seed: seed, Faults: Faults()}
			a, err := trial.Simulate(t.Context(), 1)
			if err != nil || a.Errors > 0 || a.Right == 0 || a.Right != a.Rounds {
				t.Errorf("%s, %s, seed %d: %v, %s", name, trial.Options.Devices, seed, err, a.FirstError)
			}
			for f, n := range a.Faults {
				sum[f] += n
			}
			sum["retries"] += a.Retries
			sum["replays"] += a.Replays
			sum["evictions"] += a.Evictions
		}
	}
	t.Log(sum)
	if seeds < 50 {
		return
	}
	for _, what := range append(Faults(), "retries", "replays", "evictions") {
		if sum[what] < 20 && what != lie { // nothing is computed that could be wrong
			t.Errorf("only %d %s", sum[what], what)
		}
	}
}

// What happens follows from the seed: not from what a trial did before, how fast it is or which
// faults are left out.
func TestPlan(t *testing.T) {
	some := &Trial{Seed: 4, Faults: []string{"kill", "starve", "fail"}}
	all := &Trial{Seed: 4, Faults: Faults()}
	other := &Trial{Seed: 5, Faults: Faults()}
	differ := false
	for n := range uint64(200) {
		p, q := all.plan(n), some.plan(n)
		if !reflect.DeepEqual(p, all.plan(n)) {
			t.Fatalf("bout %d differs from itself", n)
		}
		differ = differ || !reflect.DeepEqual(p, other.plan(n))
		if q.standby != p.standby || q.starved != p.starved || !reflect.DeepEqual(q.fails, p.fails) || len(q.dawdles) > 0 || len(q.rounds) != len(p.rounds) {
			t.Fatalf("bout %d: %+v is no part of %+v", n, q, p)
		}
		for i := range p.rounds {
			var kills []hit
			for _, h := range p.rounds[i] {
				if h.strike == Kill {
					kills = append(kills, h)
				}
			}
			if !reflect.DeepEqual(kills, q.rounds[i]) {
				t.Fatalf("bout %d, round %d: %+v of %+v", n, i, q.rounds[i], p.rounds[i])
			}
		}
	}
	if !differ {
		t.Error("two seeds are alike")
	}
}

// stateful is a job that keeps something.
type stateful struct{ workload.Job }

func (stateful) Begin(context.Context, *weft.Runtime) error { return nil }
func (stateful) End(context.Context) error                  { return nil }
func (stateful) Release()                                   {}

func TestSimulateRefuses(t *testing.T) {
	trial := &Trial{Job: jobs["merkle"], Options: weft.Options{Devices: "cuda:0"}}
	if _, err := trial.Simulate(t.Context(), 1); !errors.Is(err, ErrDevices) {
		t.Error(err)
	}
	trial = &Trial{Options: weft.Options{Devices: "cpu/2"}, Job: func(ctx context.Context) (workload.Job, error) {
		j, err := jobs["reduce"](ctx)
		return stateful{j}, err
	}}
	if _, err := trial.Simulate(t.Context(), 1); !errors.Is(err, ErrSimulate) {
		t.Error(err)
	}
	trial = &Trial{Options: weft.Options{Devices: "cpu/2"}, Job: func(context.Context) (workload.Job, error) { return nil, fmt.Errorf("planted") }}
	if _, err := trial.Simulate(t.Context(), 1); err == nil || err.Error() != "planted" {
		t.Error(err)
	}
}

// A job is made once, or for each bout if it keeps something on the devices of a bout.
func TestJobOf(t *testing.T) {
	for want, job := range map[int]func(context.Context) (workload.Job, error){
		1: jobs["reduce"],
		3: func(ctx context.Context) (workload.Job, error) {
			j, err := jobs["reduce"](ctx)
			return stateful{j}, err
		},
	} {
		made := 0
		trial := &Trial{Job: func(ctx context.Context) (workload.Job, error) { made++; return job(ctx) }}
		var last workload.Job
		for range 3 {
			var err error
			if last, err = trial.jobOf(t.Context(), last); err != nil || last == nil {
				t.Fatal(last, err)
			}
		}
		if made != want {
			t.Errorf("made %d times in 3 bouts, want %d", made, want)
		}
	}
}
