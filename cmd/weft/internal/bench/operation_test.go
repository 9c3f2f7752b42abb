package bench

import (
	"strings"
	"testing"

	"github.com/weft-run/weft/collective"
)

// Every operation is measured, and its check finds any wrong element.
func TestOperations(t *testing.T) {
	got := make(map[string]bool)
	for _, r := range rows[collectiveRow](t, "collective", "--ops", strings.Join(operationNames(), ","), "--sizes", "52", "--split", "3", "--repeat", "1", "--peers=false") {
		got[r.Op] = true
		if r.Seconds <= 0 || r.Devices != 3 || (r.BusGBPS == 0) != (r.Op == "barrier") {
			t.Errorf("%+v", r)
		}
	}
	if len(got) != collective.NumOps {
		t.Errorf("measured are %v", got)
	}
	for op := range collective.Op(collective.NumOps) {
		v := newVectors(op, 3, 13)
		for r := range v.out {
			for i := range v.out[r] {
				v.out[r][i] = v.want(r, int64(i))
			}
		}
		if err := v.check(); err != nil {
			t.Errorf("%v: %v", op, err)
		}
		for r := range v.out {
			for i := range v.out[r] {
				v.out[r][i]++
				if v.check() == nil {
					t.Errorf("%v: a wrong element %d of rank %d goes unseen", op, i, r)
				}
				v.out[r][i]--
			}
		}
	}
	if _, err := run(t.Context(), "collective", "--ops", "allreduce,rediuce"); err == nil || !strings.Contains(err.Error(), "--ops rediuce: there are allreduce, reduce, ") {
		t.Errorf("an unknown operation: %v", err)
	}
}
