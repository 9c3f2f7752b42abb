package bench

import (
	"runtime"
	"strings"
	"testing"
)

// Parts of a proof agree with gnark's, on several sets of devices and after losses.
func TestBenchZK(t *testing.T) {
	args := []string{"zk", "--devices", "cpu/2", "--points", "300", "--log", "6", "--constraints", "130", "--circuit", "range", "--repeat", "1", "--sets", "cpu/1"}
	want := []string{"multiply-adds of words", "products of scalars", "msm g1", "ntt", "setup", "groth16, from the solved circuit", "groth16, all of it", "groth16, from the solved circuit"}
	if runtime.GOOS == "linux" { // which worker processes need
		args = append(args, "--lose", "cpu/2")
		for range zkStages {
			want = append(want, "groth16, from the solved circuit")
		}
	}
	got := rows[zkRow](t, args...)
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d: %+v", len(got), len(want), got)
	}
	for i, r := range got {
		if r.What != want[i] || r.Same != strings.HasPrefix(r.What, "groth16") || r.Seconds <= 0 && (r.Lost == "" || r.Hit) {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	if r := got[2]; r.Size != 300 || r.Gnark <= 0 || r.Speedup <= 0 || r.Floor <= 0 || r.Share <= 0 || r.Products < 3000 {
		t.Errorf("%+v", r)
	}
	if r := got[3]; r.Size != 64 || r.Products != 32*6 {
		t.Errorf("%+v", r)
	}
	refused(t, "--points 0", "zk", "--points", "0")
	refused(t, "--log 27", "zk", "--log", "27")
	refused(t, "no circuit", "zk", "--circuit", "md5")
	refused(t, "nothing", "zk", "--only", "nothing")
}
