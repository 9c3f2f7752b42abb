package engine

import (
	"math/rand/v2"
	"testing"
)

// Whatever probes say, a device becomes suspect by a bad one alone, is trusted again after
// goodProbes good ones in a row and never before, is given up at the last bad one that is borne,
// and one or the other comes within goodProbes·badProbes probes.
func TestStanding(t *testing.T) {
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var s standing
		chance := rnd.Float64()
		row, bad, since := 0, 0, 0 // good ones in a row, bad ones while suspect, probes while suspect
		verifying := false
		for range 400 {
			if !s.suspected && rnd.IntN(20) == 0 { // it was lost and has come back
				s.verify()
				verifying, row, bad, since = true, 0, 0, 0
			}
			was, good := s.suspected, rnd.Float64() < chance
			v := s.probed(good)
			if good {
				row++
			} else {
				row, bad = 0, bad+1
			}
			since++
			need, bears := goodProbes, badProbes-1
			if verifying {
				need, bears = 1, 0
			}
			want := stays
			switch {
			case !was && !good:
				want, row, bad, since = doubted, 0, 1, 0
			case was && row >= need:
				want = cleared
			case was && bad > bears:
				want = givenUp
			}
			if v != want {
				t.Fatalf("seed %d: verdict %d, want %d (suspect %v, good %v)", seed, v, want, was, good)
			}
			if v == cleared || v == givenUp {
				verifying = false
			}
			if s.suspected != (v == doubted || v == stays && was) || (s.suspected && s.bears == 0) && !verifying {
				t.Fatalf("seed %d: suspect %v after verdict %d", seed, s.suspected, v)
			}
			if s.suspected && since >= goodProbes*badProbes {
				t.Fatalf("seed %d: suspect for %d probes", seed, since)
			}
		}
	}
}

// Doubt from elsewhere counts once, and needs as many good probes.
func TestDoubt(t *testing.T) {
	var s standing
	if !s.doubt(0) || s.doubt(0) {
		t.Error("doubted twice")
	}
	for i := range goodProbes {
		if v := s.probed(true); (v == cleared) != (i == goodProbes-1) {
			t.Errorf("verdict %d after %d good probes", v, i+1)
		}
	}
}
