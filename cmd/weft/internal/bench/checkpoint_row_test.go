package bench

import (
	"math"
	"testing"
)

// The overhead is the median of the pairs', and the share that of a checkpoint's processor time.
func TestCheckpointRow(t *testing.T) {
	r := checkpointRow{Cores: 2, Every: 10}
	trial := &keepTrial{}
	for i, over := range []float64{0.9, 0.02, 0.03, -0.01, 0.05} {
		trial.written += 7
		trial.wrote += 7 << 30
		r.add(checkpointPair{KeptFirst: i%2 == 1, Plain: 1, Kept: 3, Over: over, CPU: 0.6, PlainOthers: 1, KeptOthers: 0.2}, trial)
	}
	if r.Pairs != 5 || r.Over != 0.03 || r.Plain != 1 || r.Kept != 3 || r.Written != 7 {
		t.Errorf("%+v", r)
	}
	if math.Abs(r.Share-0.03) > 1e-9 || math.Abs(r.Others-0.4) > 1e-9 {
		t.Errorf("a share of %v, others use %v", r.Share, r.Others)
	}
	r.add(checkpointPair{Plain: 1, Kept: 1, PlainOthers: -1}, trial)
	if r.Others != -1 {
		t.Errorf("others use %v, of which one is not known", r.Others)
	}
}
