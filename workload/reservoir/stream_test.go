package reservoir_test

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/replica"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/reservoir"
)

// streamConfig is a small stream.
func streamConfig(s replica.Strategy) reservoir.StreamConfig {
	p := reservoir.Defaults()
	p.Size, p.Inputs, p.Seed, p.BiasScaling = 90, 10, 5, 0.5
	return reservoir.StreamConfig{Params: p, Replicas: 4, Patterns: 3, Steps: 3, Strategy: s, Sample: 90}
}

// flow takes batches through a stream and returns the state after each, as its
// replicas have it on average.
func flow(t *testing.T, devices, batches int, c reservoir.StreamConfig) (*reservoir.Stream, [][]float32) {
	t.Helper()
	s, err := reservoir.NewStream(workloadtest.Open(t, devices, reservoir.Funcs()), c)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float32
	for range batches {
		if _, err := s.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		v, err := s.State().Value(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return s, out
}

// With every strategy that is not a matter of time, the state goes on as the
// formula says, and is the same bits on one to eight devices.
func TestStream(t *testing.T) {
	for _, k := range []replica.Strategy{{Kind: replica.Eager}, {Kind: replica.Adaptive, Threshold: 0.25}, {Kind: replica.None}} {
		var want *replica.Snapshot[float32]
		for devices := 1; devices <= 8; devices++ {
			s, _ := flow(t, devices, 6, streamConfig(k))
			snap, err := s.State().Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = snap
				ref, err := s.Reference()
				if err != nil {
					t.Fatal(err)
				}
				for r, x := range ref {
					for i, v := range x {
						if math.Abs(v-float64(snap.Replicas[r][i])) > 1e-5 {
							t.Fatalf("%v: neuron %d of replica %d is %v, want %v", k, i, r, snap.Replicas[r][i], v)
						}
					}
				}
			}
			if !reflect.DeepEqual(snap, want) {
				t.Errorf("%v: %d devices give other bits than one", k, devices)
			}
			s.Release()
		}
	}
}

// As a job, run after run, a stream gives what it gives by itself, and its check
// finds a wrong replica.
func TestStreamJob(t *testing.T) {
	for _, k := range []replica.Strategy{{Kind: replica.Eager}, {Kind: replica.Periodic, Every: time.Nanosecond}, {Kind: replica.Adaptive, Threshold: 0.25}, {Kind: replica.None}} {
		c := streamConfig(k)
		s, _ := flow(t, 2, 5, c)
		want, err := s.State().Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		j := workloadtest.New[*reservoir.StreamJob](t)(reservoir.NewStreamJob(c))
		rt := workloadtest.Open(t, 3, reservoir.Funcs())
		for range 5 {
			workloadtest.Run(t, rt, j)
		}
		if !reflect.DeepEqual(j.Replicas(), want.Replicas) {
			t.Errorf("%v: the job's replicas differ from the stream's", k)
		}
		if err := j.Check(); err != nil {
			t.Error(err)
		}
		j.Replicas()[1][7] += 0.01
		if err := j.Check(); !errors.Is(err, reservoir.ErrWrong) {
			t.Errorf("%v: a wrong replica gives %v", k, err)
		}
		j.Release()
		if _, err := workload.Run(t.Context(), rt, j); !errors.Is(err, weft.ErrBinding) {
			t.Errorf("%v: a run of a job that was released: %v", k, err)
		}
		s.Release()
	}
}

// Adaptive merging moves fewer bytes than merging after every batch, and stays
// closer to what that gives than not merging at all.
func TestStreamAdaptive(t *testing.T) {
	const batches = 20
	far := func(k replica.Strategy, sample int, eager [][]float32) (float64, replica.Stats, [][]float32) {
		c := streamConfig(k)
		c.Sample = sample
		s, states := flow(t, 2, batches, c)
		defer s.Release()
		worst := 0.
		for b := range eager {
			var apart, norm float64
			for i, e := range eager[b] {
				d := float64(states[b][i] - e)
				apart, norm = apart+d*d, norm+float64(e)*float64(e)
			}
			worst = max(worst, math.Sqrt(apart/norm))
		}
		return worst, s.State().Stats(), states
	}
	_, all, eager := far(replica.Strategy{Kind: replica.Eager}, 0, nil)
	off, some, _ := far(replica.Strategy{Kind: replica.Adaptive, Threshold: 0.25}, 16, eager)
	alone, none, _ := far(replica.Strategy{Kind: replica.None}, 0, eager)
	t.Logf("eager %d bytes; adaptive %d bytes, %d merges, off by %.4f; none %d bytes, off by %.4f", all.Bytes, some.Bytes, some.Epoch, off, none.Bytes, alone)
	if some.Bytes >= all.Bytes || some.Epoch == 0 || some.Epoch >= all.Epoch || none.Bytes != 0 {
		t.Errorf("eager %+v, adaptive %+v, none %+v", all, some, none)
	}
	if !(off > 0 && off < alone) {
		t.Errorf("adaptive is off by %v, none by %v", off, alone)
	}
}

func TestStreamRejects(t *testing.T) {
	rt := workloadtest.Open(t, 1, reservoir.Funcs())
	for what, spoil := range map[string]func(*reservoir.StreamConfig){
		"size":     func(c *reservoir.StreamConfig) { c.Size = 0 },
		"replicas": func(c *reservoir.StreamConfig) { c.Replicas = 0 },
		"patterns": func(c *reservoir.StreamConfig) { c.Patterns = -1 },
		"steps":    func(c *reservoir.StreamConfig) { c.Steps = 1 << 20 },
	} {
		c := streamConfig(replica.Strategy{})
		spoil(&c)
		if _, err := reservoir.NewStream(rt, c); !errors.Is(err, reservoir.ErrParams) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := reservoir.NewStream(rt, streamConfig(replica.Strategy{Kind: "lazy"})); !errors.Is(err, replica.ErrOptions) {
		t.Errorf("strategy: %v", err)
	}
}
