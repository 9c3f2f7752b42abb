package bench

import "testing"

// With every task verified each is executed twice; with few of them, few are.
func TestBenchVerify(t *testing.T) {
	got := rows[verifyRow](t, "verify", "--size", "64", "--tasks", "8", "--every", "1,1000000", "--repeat", "2", "--devices", "cpu/2")
	if len(got) != 2 || got[0].Every != 1 || got[0].Verified != 8 || got[0].Executions < 2 || got[1].Verified > 1 || got[1].Executions > 1.5 {
		t.Fatalf("%+v", got)
	}
	for _, r := range got {
		if r.Pairs != 2 || r.Tasks != 8 || r.Plain <= 0 || r.With <= 0 || r.Ratio <= 0 {
			t.Errorf("%+v", r)
		}
	}
	refused(t, "--every 0", "verify", "--every", "0")
	refused(t, "--tasks", "verify", "--size", "4", "--tasks", "5")
	refused(t, "--size", "verify", "--size", "0")
	refused(t, "several devices", "verify", "--devices", "cpu")
}
