package engine

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The energy between two times is the area under the samples, which a sum over small steps
// finds as well, and that of parts adds up to that of the whole.
func TestEnergy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p energy
		var ats []time.Duration
		var watts []float64
		at := time.Duration(0)
		for range rapid.IntRange(1, 3*powerSamples).Draw(t, "samples") {
			at += time.Duration(rapid.IntRange(1, 200).Draw(t, "after")) * time.Millisecond
			w := float64(rapid.IntRange(0, 700).Draw(t, "watts"))
			p.sample(at, w)
			ats, watts = append(ats, at), append(watts, w)
		}
		first := ats[max(0, len(ats)-powerSamples)]
		power := func(x time.Duration) float64 { // within what is kept
			for k := len(ats) - 1; k >= 0; k-- {
				if x >= ats[k] {
					if k == len(ats)-1 {
						return watts[k]
					}
					return watts[k] + (watts[k+1]-watts[k])*float64(x-ats[k])/float64(ats[k+1]-ats[k])
				}
			}
			return 0
		}
		start := first + time.Duration(rapid.Int64Range(0, int64(at)).Draw(t, "start"))
		end := start + time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "end"))
		const steps = 20_000
		want, step := 0.0, (end-start).Seconds()/steps
		for i := range steps {
			want += power(start+time.Duration((float64(i)+0.5)/steps*float64(end-start))) * step
		}
		if got := p.between(start, end); math.Abs(got-want) > 1e-3*want+1e-3 {
			t.Errorf("%g J from %v to %v, want %g", got, start, end, want)
		}
		early := time.Duration(rapid.Int64Range(0, int64(end)).Draw(t, "early"))
		if sum := p.between(early, start) + p.between(start, end); math.Abs(sum-p.between(early, end)) > 1e-6*(1+math.Abs(sum)) {
			t.Errorf("parts add up to %g J, the whole is %g", sum, p.between(early, end))
		}
	})
}
