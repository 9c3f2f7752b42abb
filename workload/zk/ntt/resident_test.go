package ntt_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// Resident data is transformed in place, to what a call makes of it, in one pass or two.
func TestTransformer(t *testing.T) {
	rt := workloadtest.Open(t, 2, ntt.Funcs())
	for _, log := range []int{0, 1, 9, 10} {
		j := workloadtest.New[*ntt.Job](t)(ntt.New(ntt.Config{Transform: transforms[3], Log: log, Seed: 2}))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		x, err := weft.Put(rt, "x", j.Result())
		if err != nil {
			t.Fatal(err)
		}
		there, err := ntt.NewTransformer(rt, log, transforms[2])
		if err != nil {
			t.Fatal(err)
		}
		back, err := ntt.NewTransformer(rt, log, transforms[3])
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for _, tr := range []*ntt.Transformer{there, back} {
				if _, err := tr.Do(t.Context(), x); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := x.Get(t.Context()); err != nil || !slices.Equal(got, j.Result()) {
			t.Errorf("2^%d elements, there and back twice, are others: %v", log, err)
		}
		if _, err := there.Do(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		got, err := x.Get(t.Context())
		want, err2 := ntt.Of(t.Context(), rt, j.Result(), transforms[2])
		if err != nil || err2 != nil || !slices.Equal(got, want) {
			t.Errorf("2^%d elements in place are not what a call makes of them: %v, %v", log, err, err2)
		}
		x.Release()
		there.Release()
		back.Release()
	}
	if _, err := ntt.NewTransformer(rt, 27, ntt.Transform{}); !errors.Is(err, workload.ErrConfig) {
		t.Errorf("2^27 elements: %v", err)
	}
	few, err := weft.Put(rt, "few", elements(4))
	if err != nil {
		t.Fatal(err)
	}
	defer few.Release()
	tr, err := ntt.NewTransformer(rt, 3, ntt.Transform{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Release()
	if _, err := tr.Do(t.Context(), few); !errors.Is(err, weft.ErrBinding) {
		t.Errorf("4 of 8 elements: %v", err)
	}
}
