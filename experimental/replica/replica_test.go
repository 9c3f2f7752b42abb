package replica_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/experimental/replica"
	"github.com/weft-run/weft/graph"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drift is how an update moves element i of replica r in round k.
func drift(r, k, i int) float32 { return float32(math.Sin(float64(r*7+i*3))) * float32(1+k%3) / 10 }

// moveParams are the parameters of move.
type moveParams struct{ replica, round int }

// move updates a replica.
func move(c *weft.Call, p moveParams, _, _ int) {
	x := weft.View[float32](c.Args[0])
	for i := range x {
		x[i] += drift(p.replica, p.round, i)
	}
}

var moveKernel = &graph.Kernel{Name: "move", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "move"}}}

func open(t *testing.T, parts int) *weft.Runtime {
	t.Helper()
	funcs := collective.Funcs()
	funcs["move"] = weft.WithParams(move)
	rt, err := weft.Open(t.Context(), weft.Options{NoCalibrate: true, CacheDir: "off", Devices: fmt.Sprintf("cpu/%d", parts), Funcs: funcs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// update moves all replicas, each on its device.
func update(t *testing.T, rt *weft.Runtime, s *replica.State[float32], n, k int) {
	t.Helper()
	var b graph.Builder
	var bind []weft.Binding
	for r := range s.Size() {
		name := fmt.Sprint("replica ", r)
		d := b.Data(graph.Data{Name: name, Bytes: int64(4 * n), Input: true, Output: true})
		b.Add(graph.Task{
			Steps: []graph.Step{graph.Step{Kernel: moveKernel}.With(moveParams{r, k})}, On: graph.Constraint{Only: []string{s.Device(r)}},
			Uses: []graph.Use{{Data: d, Access: graph.ReadWrite}},
		})
		bind = append(bind, s.Replica(r).As(name))
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Run(t.Context(), g, bind...); err != nil {
		t.Fatal(err)
	}
}

// deal names so many devices, in turn.
func deal(rt *weft.Runtime, n int) (out []string) {
	devs := rt.Devices()
	for r := range n {
		out = append(out, devs[r%len(devs)].Name)
	}
	return out
}

// model is the same state in plain Go.
type model struct {
	x [][]float32
}

func newModel(initial []float32, n int) *model {
	m := &model{}
	for range n {
		m.x = append(m.x, slices.Clone(initial))
	}
	return m
}

func (m *model) update(k int) {
	for r, x := range m.x {
		for i := range x {
			x[i] += drift(r, k, i)
		}
	}
}

func (m *model) mean() []float32 {
	out := slices.Clone(m.x[0])
	for i := range out {
		for _, x := range m.x[1:] {
			out[i] += x[i]
		}
		out[i] /= float32(len(m.x))
	}
	return out
}

func (m *model) merge() {
	mean := m.mean()
	for r := range m.x {
		copy(m.x[r], mean)
	}
}

func (m *model) divergence() float64 {
	var worst, norm float64
	sum := make([]float64, len(m.x))
	for i := range m.x[0] {
		mean := 0.
		for _, x := range m.x {
			mean += float64(x[i]) / float64(len(m.x))
		}
		norm += mean * mean
		for r, x := range m.x {
			sum[r] += (float64(x[i]) - mean) * (float64(x[i]) - mean)
		}
	}
	for _, s := range sum {
		worst = max(worst, math.Sqrt(s)/math.Sqrt(norm))
	}
	return worst
}

func ramp(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1 + float32(i%13)
	}
	return x
}

// Every strategy merges when it should, on any number of devices, to the bits of
// a plain sequential run.
func TestStrategies(t *testing.T) {
	const n, rounds, replicas = 1000, 12, 4
	for _, strategy := range []string{"eager", "periodic 3s", "adaptive 0.03", "none"} {
		k, err := replica.ParseStrategy(strategy)
		if err != nil {
			t.Fatal(err)
		}
		for parts := 1; parts <= 8; parts++ {
			rt := open(t, parts)
			var now time.Duration
			s, err := replica.New(rt, ramp(n), replica.Options[float32]{
				Devices: deal(rt, replicas), Strategy: k, Sample: n, Now: func() time.Duration { return now },
			})
			if err != nil {
				t.Fatal(err)
			}
			m, merges, last := newModel(ramp(n), replicas), 0, time.Duration(0)
			for round := range rounds {
				update(t, rt, s, n, round)
				m.update(round)
				now += time.Second
				out, err := s.Updated(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				want := false
				switch k.Kind {
				case replica.Eager:
					want = true
				case replica.Periodic:
					want = now-last >= 3*time.Second
				case replica.Adaptive:
					want = m.divergence() > 0.03
					if math.Abs(out.Divergence-m.divergence()) > 1e-6 {
						t.Errorf("round %d: divergence %v, want %v", round, out.Divergence, m.divergence())
					}
				}
				if out.Merged != want {
					t.Fatalf("%s, round %d: merged %v, want %v", strategy, round, out.Merged, want)
				}
				if want {
					m.merge()
					merges++
					last = now
				}
			}
			snap, err := s.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(snap.Replicas, m.x) {
				t.Errorf("%s on %d devices: other bits than one after another", strategy, parts)
			}
			st := s.Stats()
			if int(st.Epoch) != merges || st.Updates != rounds || snap.Epoch != st.Epoch {
				t.Errorf("%s: %+v after %d merges", strategy, st, merges)
			}
			bytes := int64(merges*2*(replicas-1)*n*4 + st.Checks*replicas*n*4)
			if st.Bytes != bytes {
				t.Errorf("%s: %d bytes, want %d", strategy, st.Bytes, bytes)
			}
			if k.Kind == replica.Adaptive && (merges == 0 || merges == rounds) {
				t.Errorf("adaptive merged %d times of %d: the test says nothing", merges, rounds)
			}
			s.Release()
		}
	}
}

// A sample tells about the whole, at a small part of the bytes.
func TestSample(t *testing.T) {
	const n = 100_000
	rt := open(t, 2)
	s, err := replica.New(rt, ramp(n), replica.Options[float32]{Strategy: replica.Strategy{Kind: replica.None}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	m := newModel(ramp(n), 2)
	update(t, rt, s, n, 0)
	m.update(0)
	got, err := s.Divergence(t.Context())
	if err != nil || math.Abs(got-m.divergence()) > 0.1*m.divergence() {
		t.Errorf("divergence %v (%v), of all elements %v", got, err, m.divergence())
	}
	if b := s.Stats().Bytes; b != 2*1024*4 {
		t.Errorf("%d bytes for a sample", b)
	}
}

// A merge of the caller's own: the largest of each.
func TestMerge(t *testing.T) {
	const n = 50
	rt := open(t, 3)
	largest := func(out []float32, all [][]float32) {
		for i := range out {
			for _, x := range all {
				out[i] = max(out[i], x[i])
			}
		}
	}
	s, err := replica.New(rt, ramp(n), replica.Options[float32]{Merge: largest})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	m := newModel(ramp(n), 3)
	for k := range 3 {
		update(t, rt, s, n, k)
		m.update(k)
		if _, err := s.Updated(t.Context()); err != nil {
			t.Fatal(err)
		}
		merged := make([]float32, n)
		largest(merged, m.x)
		m = newModel(merged, 3)
	}
	if got, err := s.Value(t.Context()); err != nil || !slices.Equal(got, m.x[0]) {
		t.Errorf("value %v (%v), want %v", got, err, m.x[0])
	}
}

// Going back to a snapshot and on again gives what going on gave.
func TestRestore(t *testing.T) {
	const n = 64
	rt := open(t, 2)
	s, err := replica.New(rt, ramp(n), replica.Options[float32]{Strategy: replica.Strategy{Kind: replica.Adaptive, Threshold: 0.05}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	forward := func(from, to int) *replica.Snapshot[float32] {
		for k := from; k < to; k++ {
			update(t, rt, s, n, k)
			if _, err := s.Updated(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		snap, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	middle := forward(0, 5)
	end := forward(5, 9)
	if reflect.DeepEqual(middle, end) {
		t.Fatal("nothing happened in between")
	}
	if err := s.Restore(middle); err != nil {
		t.Fatal(err)
	}
	if again := forward(5, 9); !reflect.DeepEqual(again, end) {
		t.Errorf("after restoring: %+v, want %+v", again, end)
	}
	bad := &replica.Snapshot[float32]{Replicas: [][]float32{{1}, {2}}}
	if err := s.Restore(bad); !errors.Is(err, replica.ErrSnapshot) {
		t.Errorf("a snapshot of another length: %v", err)
	}
	bad.Replicas = middle.Replicas[:1]
	if err := s.Restore(bad); !errors.Is(err, replica.ErrSnapshot) {
		t.Errorf("a snapshot of fewer replicas: %v", err)
	}
}

// A device that joins late has the current epoch's state, pending updates
// included; with strategy none the others are left alone.
func TestJoin(t *testing.T) {
	const n = 40
	for _, kind := range []replica.Kind{replica.Eager, replica.Adaptive, replica.None} {
		rt := open(t, 3)
		s, err := replica.New(rt, ramp(n), replica.Options[float32]{
			Devices: []string{"cpu:0", "cpu:1"}, Strategy: replica.Strategy{Kind: kind, Threshold: 1e9},
		})
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(ramp(n), 2)
		for k := range 3 {
			update(t, rt, s, n, k)
			m.update(k)
			if _, err := s.Updated(t.Context()); err != nil {
				t.Fatal(err)
			}
			if kind == replica.Eager {
				m.merge()
			}
		}
		if err := s.Join(t.Context(), "cpu:2"); err != nil {
			t.Fatal(err)
		}
		mean := m.mean()
		if kind != replica.None {
			m.merge()
		}
		m.x = append(m.x, mean)
		snap, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := map[replica.Kind]uint64{replica.Eager: 3, replica.Adaptive: 1, replica.None: 0}[kind]
		if !reflect.DeepEqual(snap.Replicas, m.x) || snap.Epoch != want {
			t.Errorf("%s: after joining, epoch %d: %v, want %v", kind, snap.Epoch, snap.Replicas, m.x)
		}
		// It takes part from then on, and goes again.
		update(t, rt, s, n, 3)
		m.update(3)
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.merge()
		if got, err := s.Value(t.Context()); err != nil || !slices.Equal(got, m.mean()) {
			t.Errorf("%s: %v (%v), want %v", kind, got, err, m.mean())
		}
		if err := s.Leave(2); err != nil || s.Size() != 2 {
			t.Errorf("leaving: %v, %d left", err, s.Size())
		}
		update(t, rt, s, n, 4)
		if _, err := s.Updated(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := s.Stats()
		if err := s.Join(t.Context(), "cpu:9"); !errors.Is(err, replica.ErrOptions) || s.Stats() != before {
			t.Errorf("joining on a device there is not: %v, and %+v became %+v", err, before, s.Stats())
		}
		s.Release()
	}
}

// A merge that is cut short leaves everything as it was.
func TestSyncCancelled(t *testing.T) {
	const n = 10
	rt := open(t, 2)
	s, err := replica.New(rt, ramp(n), replica.Options[float32]{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	update(t, rt, s, n, 0)
	before, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Sync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if after, err := s.Snapshot(t.Context()); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("cancelled: %v, then %v (%v)", before, after, err)
	}
}

func TestParseStrategy(t *testing.T) {
	for _, text := range []string{"eager", "periodic 100ms", "adaptive 0.25", "none"} {
		if s, err := replica.ParseStrategy(text); err != nil || s.String() != text {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"lazy", "periodic", "periodic -1s", "periodic 0s", "adaptive", "adaptive x", "adaptive 0", "adaptive -1", "adaptive NaN", "adaptive Inf", "eager 3"} {
		if _, err := replica.ParseStrategy(text); !errors.Is(err, replica.ErrOptions) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if s := (replica.Strategy{}).String(); s != "eager" {
		t.Errorf("the zero strategy is %s", s)
	}
}

func TestNewRefuses(t *testing.T) {
	rt := open(t, 1)
	for what, o := range map[string]replica.Options[float64]{
		"strategy": {Strategy: replica.Strategy{Kind: "lazy"}},
		"device":   {Devices: []string{"cpu:0", "cuda:7"}},
		"sample":   {Sample: -1},
	} {
		if _, err := replica.New(rt, []float64{1, 2}, o); !errors.Is(err, replica.ErrOptions) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := replica.New(rt, nil, replica.Options[float64]{}); !errors.Is(err, replica.ErrOptions) {
		t.Errorf("nothing: %v", err)
	}
}
