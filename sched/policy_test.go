package sched

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/machine"
)

// may says where a task may go, from the words of Situation's documentation
// alone.
func may(v *Situation, t *Ready, d machine.DeviceID) bool {
	dev := v.Devices[d]
	return dev.Accepts && t.Cost[dev.Class] >= 0 && t.need(&dev) <= dev.CapBytes &&
		(t.Only == nil || slices.Contains(t.Only, d))
}

// outcomes makes up how placements turned out, for policies that learn.
func outcomes(r *rand.Rand, v *Situation, ps []Placement) []Outcome {
	var out []Outcome
	for _, p := range ps {
		t := &v.Tasks[p.Task]
		cost := max(t.Cost[v.Devices[p.Device].Class], 1)
		took := time.Duration(float64(cost) * (0.5 + r.Float64()))
		out = append(out, Outcome{Kernel: t.Kernel, Ops: t.Ops, Device: p.Device, Predicted: cost,
			Took: took, Turnaround: 2 * took, Failed: r.IntN(20) == 0})
	}
	return out
}

// TestPlaceAllowed checks over several rounds that every policy places every
// task that can be placed, once, where it may go, accounts for it, and that
// two instances given the same calls answer the same.
func TestPlaceAllowed(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				r := rand.New(rand.NewPCG(seed, 1))
				n := 1 + r.IntN(12)
				p := Problem{Machine: bare(n), Cost: uniform(), Seed: seed}
				a, b := Policies()[name](p), Policies()[name](p)
				v := randomView(r, n, 1+r.IntN(40))
				for range 4 {
					before, w := v.clone(), v.clone()
					placed := a.Place(v, nil)
					if again := b.Place(w, nil); !slices.Equal(placed, again) || !reflect.DeepEqual(v.Devices, w.Devices) {
						t.Fatalf("two instances disagree: %v and %v", placed, again)
					}
					checkRound(t, before, v, placed)
					for _, o := range outcomes(r, v, placed) {
						if ao, ok := a.(Observer); ok {
							ao.Observe(o)
							b.(Observer).Observe(o)
						}
					}
					next := randomView(r, n, 1+r.IntN(40))
					for i := range v.Tasks { // keep the devices, take new tasks
						v.Tasks[i] = Ready{}
					}
					v.Tasks = v.Tasks[:0]
					for i := range next.Tasks {
						v.Tasks = append(v.Tasks, randomTask(r, v, i))
					}
					v.Now += time.Millisecond
					v.Dirty = v.Dirty[:0]
					for d := range v.Devices {
						if r.IntN(3) == 0 {
							v.Devices[d] = next.Devices[d]
							v.Devices[d].setClass(int32(r.IntN(int(v.Classes))))
							v.Dirty = append(v.Dirty, machine.DeviceID(d))
						}
					}
				}
			})
		})
	}
}

func checkRound(t *rapid.T, before, after *Situation, placed []Placement) {
	got := make(map[int32]bool)
	queued := make([]int32, len(before.Devices))
	for _, p := range placed {
		if got[p.Task] {
			t.Fatalf("task %d placed twice", p.Task)
		}
		got[p.Task] = true
		queued[p.Device]++
		if !may(before, &before.Tasks[p.Task], p.Device) {
			t.Fatalf("task %d placed on %d, where it may not go", p.Task, p.Device)
		}
	}
	for i := range before.Tasks {
		can := false
		for d := range before.Devices {
			can = can || may(before, &before.Tasks[i], machine.DeviceID(d))
		}
		if can != got[int32(i)] {
			t.Fatalf("task %d: can be placed %v, was placed %v", i, can, got[int32(i)])
		}
	}
	for d := range before.Devices {
		was, is := &before.Devices[d], &after.Devices[d]
		if is.Queued != was.Queued+queued[d] {
			t.Fatalf("device %d: %d queued and %d placed make %d", d, was.Queued, queued[d], is.Queued)
		}
		if queued[d] == 0 && is.FreeAt != was.FreeAt || queued[d] > 0 && is.FreeAt <= max(was.FreeAt, before.Now) {
			t.Fatalf("device %d: FreeAt went from %v to %v with %d tasks placed", d, was.FreeAt, is.FreeAt, queued[d])
		}
	}
}

// TestExplainAgrees checks that Explain names the device Place then takes, and
// changes nothing.
func TestExplainAgrees(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				r := rand.New(rand.NewPCG(seed, 2))
				n := 1 + r.IntN(8)
				p := Policies()[name](Problem{Machine: bare(n), Cost: uniform(), Seed: seed})
				if a, ok := p.(*adaptive); ok {
					a.rng = rand.New(neverExplore{})
				}
				v := randomView(r, n, 1)
				for range 12 {
					v.Tasks[0] = randomTask(r, v, 0)
					before := v.clone()
					e := p.(Explainer).Explain(v, 0)
					if !reflect.DeepEqual(before, v.clone()) {
						t.Fatal("Explain changed the situation")
					}
					if e.Why == "" || e.Policy != name || len(e.Rows) != n {
						t.Fatalf("incomplete: %+v", e)
					}
					placed := p.Place(v, nil)
					want := machine.DeviceID(-1)
					if len(placed) > 0 {
						want = placed[0].Device
					}
					if e.Chosen != want {
						t.Fatalf("Explain says %d, Place takes %d\n%s", e.Chosen, want, e.Text(nil))
					}
					for d, row := range e.Rows {
						if row.Out == may(before, &before.Tasks[0], machine.DeviceID(d)) || row.Out && row.Note == "" {
							t.Fatalf("row %d: %+v", d, row)
						}
					}
					for _, o := range outcomes(r, v, placed) {
						if ob, ok := p.(Observer); ok {
							ob.Observe(o)
						}
					}
				}
			})
		})
	}
}

// neverExplore is a source of randomness that always draws the highest number.
type neverExplore struct{}

func (neverExplore) Uint64() uint64 { return 1<<64 - 1 }

// Programs and configuration files name policies: those named here stay. There may be more.
func TestNames(t *testing.T) {
	want := []string{"adaptive", "capacity", "capacity-weighted", "finish", "hierarchical", "leastloaded", "priority", "roundrobin", "steal"}
	if names := Names(); !slices.IsSorted(names) {
		t.Errorf("Names() = %v, which is not sorted", names)
	}
	_, err := New("fastest")
	if !errors.Is(err, ErrUnknown) {
		t.Fatalf("New of an unknown name: %v", err)
	}
	if list := strings.Join(Names(), ", "); !strings.Contains(err.Error(), list) {
		t.Errorf("error does not list %s: %v", list, err)
	}
	for _, n := range want {
		if _, err := New(n); err != nil {
			t.Error(err)
		}
	}
	if f, err := New(""); err != nil || reflect.ValueOf(f).Pointer() != reflect.ValueOf(newFinish).Pointer() {
		t.Errorf("the empty name does not mean finish: %v", err)
	}
	if _, err := NewPartitioner("fair"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), strings.Join(PartitionerNames(), ", ")) {
		t.Errorf("NewPartitioner of an unknown name: %v", err)
	}
}

func TestAbout(t *testing.T) {
	for _, name := range Names() {
		if About(name) == "" {
			t.Errorf("policy %s has no description", name)
		}
	}
}
