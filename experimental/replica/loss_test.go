package replica_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/experimental/replica"
	"github.com/weft-run/weft/internal/backend/fake"
)

// fakes opens devices that follow a script. Those that join average by a library
// whose calls are counted, in the order of ranks backwards, and which fails as
// often as it is told.
type fakes struct {
	drv   *fake.Driver
	rt    *weft.Runtime
	calls atomic.Int32
	fails atomic.Int32
}

func openFakes(t *testing.T, script string) *fakes {
	t.Helper()
	f := &fakes{}
	o, err := fake.Parse("memory 1048576; peer; " + script)
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = collective.Funcs()
	o.Funcs["move"] = weft.WithParams(move)
	o.Natives = map[string]func([][][]byte, []byte) error{"nccl.allreduce": func(args [][][]byte, _ []byte) error {
		f.calls.Add(1)
		if f.fails.Add(-1) >= 0 {
			return errors.New("no library today")
		}
		mean := slices.Clone(weft.View[float32](args[len(args)-1][0]))
		for r := len(args) - 2; r >= 0; r-- {
			for i, v := range weft.View[float32](args[r][0]) {
				mean[i] += v
			}
		}
		for _, a := range args {
			for i, out := 0, weft.View[float32](a[1]); i < len(out); i++ {
				out[i] = mean[i] / float32(len(args))
			}
		}
		return nil
	}}
	if f.drv, err = fake.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if f.rt, err = weft.Open(ctx, weft.Options{Drivers: []driver.Driver{f.drv}, NoCalibrate: true, CacheDir: "off"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.rt.Close() })
	return f
}

// backwards is the mean with replicas added up from the last to the first.
func (m *model) backwards() []float32 {
	slices.Reverse(m.x)
	defer slices.Reverse(m.x)
	return m.mean()
}

// replicas copies a state.
func replicas(t *testing.T, s *replica.State[float32]) [][]float32 {
	t.Helper()
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap.Replicas
}

// Where every replica has a device of its own that has a library for it, that
// averages, unless the order is asked for.
func TestNativeMerge(t *testing.T) {
	const n = 100
	f := openFakes(t, "devices 3; joins nccl")
	for _, c := range []struct {
		name    string
		o       replica.Options[float32]
		size    int
		library bool
	}{
		{"library", replica.Options[float32]{}, 3, true},
		{"two of three", replica.Options[float32]{Devices: []string{"fake:2", "fake:0"}}, 2, true},
		{"exact", replica.Options[float32]{Exact: true}, 3, false},
		{"two on one", replica.Options[float32]{Devices: []string{"fake:0", "fake:1", "fake:0"}}, 3, false},
		{"one alone", replica.Options[float32]{Devices: []string{"fake:1"}}, 1, false},
	} {
		f.calls.Store(0)
		s, err := replica.New(f.rt, ramp(n), c.o)
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(ramp(n), c.size)
		const rounds = 3
		for k := range rounds {
			update(t, f.rt, s, n, k)
			m.update(k)
			want := m.mean()
			if c.library {
				want = m.backwards()
			}
			if out, err := s.Updated(t.Context()); err != nil || !out.Merged || out.Epoch != uint64(k+1) {
				t.Fatalf("%s, round %d: %+v, %v", c.name, k, out, err)
			}
			m = newModel(want, c.size)
			if got := replicas(t, s); !reflect.DeepEqual(got, m.x) {
				t.Errorf("%s, round %d: %v, want %v", c.name, k, got, m.x)
			}
		}
		if got := f.calls.Load() > 0; got != c.library || c.library && f.calls.Load() != rounds {
			t.Errorf("%s: the library was called %d times in %d merges", c.name, f.calls.Load(), rounds)
		}
		if s.Failure() != nil {
			t.Errorf("%s: %v", c.name, s.Failure())
		}
		s.Release()
	}
}

// What the library fails to do is done without it, in order, and it is left alone
// until the replicas change.
func TestNativeMergeFails(t *testing.T) {
	const n = 100
	f := openFakes(t, "devices 3; joins nccl")
	s, err := replica.New(f.rt, ramp(n), replica.Options[float32]{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	m := newModel(ramp(n), 3)
	f.fails.Store(1)
	for k := range 2 {
		update(t, f.rt, s, n, k)
		m.update(k)
		m.merge()
		if out, err := s.Updated(t.Context()); err != nil || out.Epoch != uint64(k+1) {
			t.Fatalf("round %d: %+v, %v", k, out, err)
		}
		if got := replicas(t, s); !reflect.DeepEqual(got, m.x) {
			t.Errorf("round %d: %v, want %v", k, got, m.x)
		}
	}
	if f.calls.Load() != 1 || s.Failure() == nil {
		t.Errorf("the library was called %d times, and failed by %v", f.calls.Load(), s.Failure())
	}
	if err := s.Leave(2); err != nil {
		t.Fatal(err)
	}
	update(t, f.rt, s, n, 2)
	if err := s.Sync(t.Context()); err != nil || f.calls.Load() != 2 || s.Failure() != nil {
		t.Errorf("with others: %v, called %d times, failed by %v", err, f.calls.Load(), s.Failure())
	}
}

// A device that is lost for good takes the updates with it that only its replica
// had. The others keep what they have through the merge that fails, go on without
// it, and a device that joins then gets the epoch they have come to.
func TestLostForGood(t *testing.T) {
	const n = 60
	for _, library := range []bool{false, true} {
		t.Run(fmt.Sprint("library ", library), func(t *testing.T) {
			script := "devices 4; revive standby fails; revive restart fails; revive reopen fails"
			if library {
				script += "; joins nccl"
			}
			f := openFakes(t, script)
			mean := (*model).mean
			if library {
				mean = (*model).backwards
			}
			s, err := replica.New(f.rt, ramp(n), replica.Options[float32]{Devices: []string{"fake:0", "fake:1", "fake:2"}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			m := newModel(ramp(n), 3)
			for k := range 2 {
				update(t, f.rt, s, n, k)
				m.update(k)
				if _, err := s.Updated(t.Context()); err != nil {
					t.Fatal(err)
				}
				m = newModel(mean(m), 3)
			}
			update(t, f.rt, s, n, 2)
			m.update(2)
			if err := f.drv.Play("on 1 lose"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := s.Sync(ctx); !errors.Is(err, weft.ErrNoDevice) {
				t.Fatalf("a merge with a device that is lost for good: %v", err)
			}
			if st := s.Stats(); st.Epoch != 2 {
				t.Errorf("a merge that failed began epoch %d", st.Epoch)
			}
			if err := s.Leave(1); err != nil {
				t.Fatal(err)
			}
			m.x = slices.Delete(m.x, 1, 2)
			if got := replicas(t, s); !reflect.DeepEqual(got, m.x) {
				t.Errorf("the others have %v, want %v", got, m.x)
			}
			if err := s.Sync(ctx); err != nil {
				t.Fatal(err)
			}
			m = newModel(mean(m), 2)
			if err := s.Join(ctx, "fake:3"); err != nil {
				t.Fatal(err)
			}
			m.x = append(m.x, slices.Clone(m.x[0]))
			if got := replicas(t, s); !reflect.DeepEqual(got, m.x) || s.Stats().Epoch != 3 {
				t.Errorf("after joining, in epoch %d: %v, want %v in epoch 3", s.Stats().Epoch, got, m.x)
			}
			update(t, f.rt, s, n, 3)
			m.update(3)
			if err := s.Sync(ctx); err != nil {
				t.Fatal(err)
			}
			m = newModel(mean(m), 3)
			if got := replicas(t, s); !reflect.DeepEqual(got, m.x) {
				t.Errorf("all have %v, want %v", got, m.x)
			}
		})
	}
}
