package plan

import (
	"testing"

	"github.com/weft-run/weft/machine"
)

// Time is billed in steps, and what can be paid for are whole ones.
func TestBilledInSteps(t *testing.T) {
	for _, c := range []struct{ billing, seconds, cost, usd, affords float64 }{
		{0, 2.5, 5, 5, 2.5}, {1, 2.5, 6, 5, 2}, {1, 3, 6, 6, 3}, {60, 1, 120, 239, 60}, {60, 60, 120, 240, 120},
	} {
		e := end{rate: 2, once: 7, billing: c.billing}
		if got := e.cost(c.seconds); got != 7+c.cost {
			t.Errorf("%v s in steps of %v s cost %v, want %v", c.seconds, c.billing, got, 7+c.cost)
		}
		if got := e.affords(7 + c.usd); got != c.affords {
			t.Errorf("$%v afford %v s in steps of %v s, want %v", 7+c.usd, got, c.billing, c.affords)
		}
	}
}

// Seconds are written in the largest unit of which there is a whole one; days begin with the second.
func TestSpan(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 s", 59.9: "59.9 s", 60: "1m00s", 60.5: "1m01s", 3599: "59m59s", 3600: "1h00m", 48*3600 - 60: "47h59m", 48 * 3600: "2.0 days",
	} {
		if got := span(seconds); got != want {
			t.Errorf("%v s are %q, want %q", seconds, got, want)
		}
	}
}

// A packing with more jobs on machines is better whatever it costs; else the cheaper one is.
func TestBetterPacking(t *testing.T) {
	for _, c := range []struct {
		p, q packing
		want bool
	}{
		{packing{left: []int{1}, cost: 9}, packing{left: []int{1, 2}, cost: 1}, true},
		{packing{left: []int{1, 2}, cost: 1}, packing{left: []int{1}, cost: 9}, false},
		{packing{cost: 1}, packing{cost: 2}, true},
		{packing{cost: 2}, packing{cost: 1}, false},
		{packing{cost: 2}, packing{cost: 2}, false},
	} {
		if got := c.p.better(&c.q); got != c.want {
			t.Errorf("%+v is better than %+v: %v", c.p, c.q, got)
		}
	}
}

// A machine takes a job that ends exactly at its deadline, and lets no other miss its own.
func TestAcceptsUpToTheDeadline(t *testing.T) {
	s := &sharing{machines: []Machines{{Start: 1}}, seconds: [][]float64{{2}, {3}}}
	for _, c := range []struct {
		first, second float64
		want          bool
	}{{3, 6, true}, {2.9, 6, false}, {3, 5.9, false}} {
		s.deadline = []float64{c.first, c.second}
		for j, others := range map[int][]int{0: {1}, 1: {0}} {
			if got := s.accepts(0, others, j); got != c.want {
				t.Errorf("deadlines %v and %v, job %d beside the other: %v", c.first, c.second, j, got)
			}
		}
	}
}

// Limits that cannot be kept are refused.
func TestLimitsOfReservations(t *testing.T) {
	m := &machine.Machine{}
	for l, good := range map[Limits]bool{
		{}: true, {Utilisation: 1}: true, {Utilisation: 1.01}: false, {Utilisation: -0.01}: false, {Margin: 0.99}: true, {Margin: 1}: false, {Margin: -0.01}: false, {Celsius: -1}: false, {Watts: -1}: false,
	} {
		if _, err := NewReservations(m, l); (err == nil) != good {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// The smallest and the largest size of a workload are held out as ends, and stay where every other one is
// held out, whether their number is even or odd.
func TestEndsAreHeldOutAlone(t *testing.T) {
	for left := range 2 { // points that are missing
		r := synthetic("a", 1, 1)
		r.Points = r.Points[:len(r.Points)-left]
		ends, halves := make(map[string]bool), 0
		all := Evaluate([]*Recording{r})
		for _, j := range all {
			if j.Kind == HeldEnd {
				ends[j.Job] = true
			}
		}
		for _, j := range all {
			if j.Kind == HeldHalf {
				halves++
				if ends[j.Job] {
					t.Errorf("%d missing: %s is an end, and held out with others", left, j.Job)
				}
			}
		}
		if len(ends) == 0 || len(ends)%2 != 0 || halves == 0 {
			t.Errorf("%d missing: %d ends and %d halves", left, len(ends), halves)
		}
	}
}
