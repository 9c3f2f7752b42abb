package trace

import (
	"math"
	"testing"
	"time"
)

// A report tells by its counts what kept the run from being faster.
func TestBottleneck(t *testing.T) {
	const s = time.Second
	report := func(executed int, busy ...time.Duration) *Report {
		r := &Report{Executed: executed, Started: s, Ended: 11 * s}
		for _, b := range busy {
			r.Devices = append(r.Devices, DeviceReport{Busy: b})
		}
		return r
	}
	with := func(r *Report, change func(r *Report)) *Report { change(r); return r }
	for name, c := range map[string]struct {
		r         *Report
		want      Verdict
		imbalance float64
	}{
		"busy":         {report(100, 10*s, 10*s), ComputeBound, 0},
		"uneven":       {report(100, 10*s, 5*s), Imbalance, 1. / 3},
		"one of two":   {report(100, 10*s, 0), Imbalance, 1},
		"copies":       {with(report(100, 5*s, 5*s), func(r *Report) { r.CopyTime = 8 * s }), TransferBound, 0},
		"hidden":       {with(report(100, 10*s, 10*s), func(r *Report) { r.CopyTime = 8 * s }), ComputeBound, 0},
		"retries":      {with(report(100, 10*s, 10*s), func(r *Report) { r.Retries = 6 }), Faults, 0},
		"little to do": {report(100, s, s), Underused, 0},
		"short tasks":  {report(1e6, s, s), OverheadBound, 0},
		"nothing":      {report(0, 0, 0), Underused, 0},
		"two lanes":    {with(report(100, 20*s, 10*s), func(r *Report) { r.Lanes = []int{2, 0} }), ComputeBound, 0},
		"no devices":   {&Report{}, Underused, 0},
	} {
		if got := c.r.Bottleneck(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := c.r.Imbalance(); math.Abs(got-c.imbalance) > 1e-9 {
			t.Errorf("%s: imbalance %v, want %v", name, got, c.imbalance)
		}
	}
}
