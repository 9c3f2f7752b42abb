package enumerative

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	// 265,182,525 points and 74,974,368: no other has as many with 14 or 6 rows.
	for _, c := range []Config{{Problem: Degree, K: 14, N: 31}, {Problem: Degree, K: 6, N: maxN}, {Problem: Degree, K: maxK, N: 20}} {
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		c = c.withDefaults()
		j := &job{c: c, primes: primesFor(c.bound()), space: c.space(), p: c.params()}
		for _, p := range j.primes {
			f := newField(p)
			j.fields = append(j.fields, f)
			j.tables = append(j.tables, j.p.table(&f, make([]int64, c.N))...)
		}
		j.sums = workloadtest.Hollow[uint32](t, int(chunks(c.points()))*len(j.primes))
		workloadtest.Largest(t, j.declare())
	}
	workloadtest.Largest(t, workloadtest.New[*curveJob](t)(NewCurves(CurveConfig{Degree: maxCurves})))
}
