package fold

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

// What devices other than processors computed may be off by rounding, and no more.
func TestCheckRounded(t *testing.T) {
	r := newSmall(t, small)
	do(t, workloadtest.Open(t, 1, Funcs()), r)
	n := 3 * r.model.Beads()
	for _, c := range []struct {
		other int32
		by    float64
		wrong bool
	}{{0, 1e-5, true}, {1, 1e-5, false}, {1, 0.01, true}, {1, math.NaN(), true}} {
		r.other[0] = c.other
		kept := make([][lanes]float64, len(r.state))
		copy(kept, r.state)
		for g := range r.groups { // a velocity, which no observable is of
			r.state[2*n*g+n+5][2] += c.by
		}
		if err := r.Check(); errors.Is(err, errWrong) != c.wrong || err != nil && !c.wrong {
			t.Errorf("a velocity off by %v, other devices %d: %v", c.by, c.other, err)
		}
		copy(r.state, kept)
	}
}

// A replica that a device brought back without positions is reported.
func TestNowhereAfterRound(t *testing.T) {
	r := newSmall(t, small)
	do(t, workloadtest.Open(t, 1, Funcs()), r)
	if err := r.nowhere(0); err != nil {
		t.Fatal(err)
	}
	r.observed[0][seenEnergy][3] = math.NaN()
	r.after[3*7+1][3] = math.NaN()
	if err := r.nowhere(0); err == nil || !strings.Contains(err.Error(), "bead 7 of replica 3 is nowhere") {
		t.Error(err)
	}
}
