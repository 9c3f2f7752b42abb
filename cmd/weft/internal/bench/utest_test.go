package bench

import (
	"math"
	"slices"
	"testing"
)

// The exact distribution against the published table of critical values of U, two-sided
// at 5 %: the largest U that is significant.
func TestMannWhitneyTable(t *testing.T) {
	for _, c := range []struct{ n, m, critical int }{
		{4, 4, 0}, {5, 5, 2}, {6, 6, 5}, {7, 7, 8}, {8, 8, 13}, {9, 9, 17}, {10, 10, 23}, {12, 12, 37}, {15, 15, 64}, {20, 20, 127},
		{3, 5, 0}, {4, 6, 2}, {5, 8, 6}, {5, 10, 8}, {8, 10, 17}, {10, 20, 55},
	} {
		for _, swapped := range []bool{false, true} {
			n, m := c.n, c.m
			if swapped {
				n, m = m, n
			}
			if p := exactU(n, m, c.critical); p > 0.05 {
				t.Errorf("n %d, m %d, U %d: p %v; the table has it significant", n, m, c.critical, p)
			}
			if p := exactU(n, m, c.critical+1); p <= 0.05 {
				t.Errorf("n %d, m %d, U %d: p %v; the table has it not significant", n, m, c.critical+1, p)
			}
		}
	}
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2. / 70},
		{[]float64{5, 6, 7, 8, 9}, []float64{1, 2, 3, 4, 0}, 2. / 252},
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 0.1},
		{[]float64{1, 4}, []float64{2, 3}, 1},
		{nil, []float64{1}, 1},
		{[]float64{1, 1, 1, 1}, []float64{1, 1, 1, 1}, 1},
	} {
		if got := mannWhitney(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v beside %v: p %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// With ties the normal distribution is used, which is near to the exact one where there
// are none.
func TestMannWhitneyTies(t *testing.T) {
	var a, b []float64
	for i := range 20 {
		a, b = append(a, float64(i)), append(b, float64(i)+4.5)
	}
	exact := mannWhitney(a, b)
	tied := slices.Clone(b)
	tied[0] = a[5] // 5 for 4.5
	if got := mannWhitney(a, tied); math.Abs(got-exact) > 0.01 {
		t.Errorf("p %v with a tie, and %v without", got, exact)
	}
	// By hand: ranks 1.5, 1.5, 4, 4, 7 add up to 18, so U is 3; two groups of two equal
	// values and two of three make the variance 25/12 (11 − 60/90) = 21.53; z is
	// (12.5 − 3 − 0.5)/4.640 = 1.940.
	if got := mannWhitney([]float64{1, 1, 2, 2, 3}, []float64{2, 3, 3, 4, 4}); math.Abs(got-0.05241) > 1e-4 {
		t.Errorf("p of samples with ties is %v", got)
	}
}
