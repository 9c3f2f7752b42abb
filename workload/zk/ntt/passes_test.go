package ntt

import (
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
)

// testPasses computes short transforms in many passes, as long ones are, whole and in parts.
func testPasses(t *testing.T, rt *weft.Runtime) {
	t.Helper()
	for _, c := range []struct{ log, most, passes int }{{9, 9, 1}, {9, 3, 3}, {10, 3, 4}, {7, 1, 7}, {12, 4, 3}} {
		for i := range 4 {
			tr := Transform{Inverse: i&1 != 0, Coset: i&2 != 0}
			j := workloadtest.New[*job](t)(New(Config{Transform: tr, Log: c.log, Seed: 9}))
			j.most = c.most
			if n := len(j.whole().Steps); n != c.passes {
				t.Errorf("%s, of 2^%d at most: %d passes, want %d", j.Name(), c.most, n, c.passes)
			}
			rows := j.Items().Extent
			for _, ranges := range [][]sched.Range{{{Hi: rows}}, {{Hi: rows / 4}, {Lo: rows / 4, Hi: rows}}} {
				g, err := j.Graph(ranges)
				if err != nil {
					t.Fatal(err)
				}
				clear(j.out)
				if _, err := rt.Run(t.Context(), g, j.Bind()...); err != nil {
					t.Fatal(err)
				}
				if err := j.Check(); err != nil {
					t.Errorf("in passes of 2^%d at most, for %d ranges: %v", c.most, len(ranges), err)
				}
			}
			inPlace(t, rt, j)
		}
	}
}

// inPlace computes a job's transform once more, of resident data.
func inPlace(t *testing.T, rt *weft.Runtime, j *job) {
	t.Helper()
	x, err := weft.Put(rt, "x", j.x)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	tr, err := newTransformer(rt, j)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Release()
	if _, err := tr.Do(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if got, err := x.Get(t.Context()); err != nil || !slices.Equal(got, j.out) {
		t.Errorf("%s in passes of 2^%d at most is another in place: %v", j.Name(), j.most, err)
	}
}

func TestPasses(t *testing.T) { testPasses(t, workloadtest.Open(t, 2, Funcs())) }
