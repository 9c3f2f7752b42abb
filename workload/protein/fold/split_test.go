package fold

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// A trajectory that is split over any number of devices has the bytes of one that is not, and passes
// its check.
func TestSplitSameBytes(t *testing.T) {
	for name, s := range map[string]*protein.Structure{"1CRN": structure(t, "1CRN"), "BPTI": structure(t, "BPTI")} {
		c := Config{Steps: 230, Every: 100, Replicas: 1, Low: 0.9, Seed: 5}
		run := func(devices int, split string) *Run {
			c.Split = split
			r, err := NewOf(c, s)
			if err != nil {
				t.Fatal(err)
			}
			// Near the native structure all terms matter, and the lists are made anew now and then.
			n := 3 * r.model.Beads()
			for k := range n {
				for l := range lanes {
					r.state[k][l], r.state[n+k][l] = r.model.Native[k]+0.2*math.Sin(float64(k)), 8*r.state[n+k][l]
				}
			}
			do(t, workloadtest.Open(t, devices, Funcs()), r)
			return r
		}
		want := run(1, SplitNever)
		for devices := 1; devices <= 3; devices++ {
			got := run(devices, SplitAlways)
			if got.devices != devices {
				t.Fatalf("%s: split over %d devices of %d", name, got.devices, devices)
			}
			if !bytes.Equal(got.result(), want.result()) {
				t.Errorf("%s over %d devices: other bytes than unsplit", name, devices)
			}
			if err := got.Check(); err != nil {
				t.Errorf("%s over %d devices: %v", name, devices, err)
			}
		}
	}
}

func structure(t *testing.T, name string) *protein.Structure {
	t.Helper()
	s, err := protein.Open(name, protein.Select{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Forces on any range of beads are those on all of them, to the last bit, with lists that are full,
// with those that have no more room, and of two chains.
func TestSplitForces(t *testing.T) {
	helix, err := protein.ModelOf(protein.Helix(300))
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*protein.Model{"1CRN": modelOf(t, "1CRN"), "two chains": modelOf(t, "1CRN", 20, 46), "helix": helix} {
		for _, squeezed := range []float64{1, 0.02} {
			g := shaken(m, 0.1, 1)
			for k := range g.x {
				g.x[k] = [lanes]float64{squeezed * g.x[k][0]}
			}
			g.portable = true
			g.list()
			g.do(doForce)
			want := lane(g.f, 0)
			n, full := m.Beads(), 0
			for _, r := range []sched.Range{{Lo: 0, Hi: int64(n)}, {Lo: 0, Hi: 7}, {Lo: 7, Hi: 8}, {Lo: 8, Hi: int64(n)}} {
				q := part{tables: g.s, partParams: partParams{lo: int(r.Lo), hi: int(r.Hi)}, x: lane(g.x, 0), list: make([]int32, r.Len()*(listRoom+1))}
				q.listAll()
				if err := q.forces(); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(q.f, want[3*r.Lo:3*r.Hi]) {
					t.Errorf("%s by %v: forces on beads %d to %d differ", name, squeezed, r.Lo, r.Hi)
				}
				for i := range r.Len() {
					if q.list[i*(listRoom+1)] < 0 {
						full++
					}
				}
			}
			if (full > 0) != (name == "helix" && squeezed < 1) {
				t.Errorf("%s by %v: %d lists have no room", name, squeezed, full)
			}
		}
	}
}

// Splitting is refused where it is predicted to take longer than not to, with the times that say so.
// What is predicted depends on the machine: if a chain is split, it has the bytes that it should.
func TestSplitRefused(t *testing.T) {
	c := Config{Steps: 10, Every: 10, Replicas: 1, Split: SplitPays}
	r := newSmall(t, c)
	if err := r.Do(t.Context(), workloadtest.Open(t, 1, Funcs()), nil); !errors.Is(err, ErrSplit) || !strings.Contains(err.Error(), "one device") {
		t.Errorf("one device: %v", err)
	}
	if err := r.pays(time.Microsecond, 2*time.Microsecond); err != nil {
		t.Error(err)
	}
	r.devices = 2
	const want = "splitting does not pay: a step of 46 beads, after which devices gather 1104 bytes, is predicted to take 3µs over 2 devices and 2µs on one"
	if err := r.pays(3*time.Microsecond, 2*time.Microsecond); err == nil || err.Error() != want {
		t.Error(err)
	}
	got := newSmall(t, c)
	switch err := got.Do(t.Context(), workloadtest.Open(t, 2, Funcs()), nil); {
	case errors.Is(err, ErrSplit):
	case err != nil:
		t.Error(err)
	default:
		c.Split = SplitNever
		want := newSmall(t, c)
		do(t, workloadtest.Open(t, 1, Funcs()), want)
		if !bytes.Equal(got.result(), want.result()) {
			t.Error("other bytes after steps that were tried")
		}
	}
	for _, bad := range []Config{{Split: "half", Replicas: 1}, {Split: SplitAlways, Replicas: 2}, {Split: SplitPays}} {
		if err := bad.Validate(); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A list of pairs, or a table of contacts, that names no bead is an error.
func TestSplitBadTables(t *testing.T) {
	g := shaken(modelOf(t, "1CRN"), 0, 1)
	n := g.s.beads
	q := part{tables: g.s, partParams: partParams{hi: n}, x: lane(g.x, 0), list: make([]int32, n*(listRoom+1))}
	q.list[0], q.list[1] = 1, int32(n)
	if err := q.forces(); err == nil || !strings.Contains(err.Error(), "list of bead 0") {
		t.Error(err)
	}
	q.listAll()
	q.allWith[5] = -1
	if err := q.forces(); err == nil || !strings.Contains(err.Error(), "contact 0 of bead 5") {
		t.Error(err)
	}
}
