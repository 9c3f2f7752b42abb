//go:build linux && !race && (stub || cgo)

package bench

// Benchmarks of GPUs, on a stand-in for NVIDIA's libraries: that they run, and
// what they check. Worker processes take the race detector long.

import (
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
)

// withGPUs makes worker processes find the stand-in.
func withGPUs(t *testing.T) {
	t.Helper()
	dir, err := cudatest.Libraries()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
}

func TestGPUOverhead(t *testing.T) {
	withGPUs(t)
	got := rows[overheadRow](t, "overhead", "--devices", "cuda:0", "--tasks", "200", "--repeat", "1")
	if len(got) != 9 || got[8].Case != "round trip" || got[8].MedianUS <= 0 {
		t.Errorf("%+v", got)
	}
}

func TestGPUMemory(t *testing.T) {
	withGPUs(t)
	seen := map[string]bool{}
	for _, r := range rows[memoryRow](t, "memory", "--devices", "cuda:0", "--sizes", "1MiB", "--repeat", "1") {
		if seen[r.Case] = true; r.BPS <= 0 || r.PeakBPS <= 0 {
			t.Errorf("%+v", r)
		}
	}
	for _, want := range []string{"within", "stream", "in", "out", "in, shared", "out, shared"} {
		if !seen[want] {
			t.Errorf("no case %q among %v", want, seen)
		}
	}
}

func TestGPUProduct(t *testing.T) {
	withGPUs(t)
	got := rows[productRow](t, "product", "--devices", "cuda:0/2", "--size", "48", "--burst", "2", "--repeat", "2", "--precision", "fp32,tf32,bf16,fp64")
	if len(got) != 4 {
		t.Fatalf("%+v", got)
	}
	for _, r := range got {
		if r.Devices != 2 || r.TFLOPS <= 0 || r.Best < r.TFLOPS || r.Error > r.Limit {
			t.Errorf("%+v", r)
		}
	}
	refused(t, "fp8", "product", "--precision", "fp8")
	refused(t, "cpu:0", "product", "--devices", "cpu")
}

func TestGPUFaults(t *testing.T) {
	withGPUs(t)
	got := rows[faultsRow](t, "faults", "--faults", "5", "--standbys", "2", "--resident", "20MiB", "--arena", "8GiB")
	if len(got) != 2 || got[0].Case != "restart" || got[1].Case != "standby" {
		t.Fatalf("%+v", got)
	}
	for _, r := range got {
		if r.BackMS <= 0 || r.BackMaxMS < r.BackMS || r.FDsAfter == 0 || r.RSSAfter == 0 || !strings.Contains(r.Error, "CUDA_ERROR_ILLEGAL_ADDRESS") {
			t.Errorf("%+v", r)
		}
		// Four small copies for each fault, some of them more than once.
		if r.Sent > int64(r.Faults)*20*smallBytes || r.Resident != 20<<20 {
			t.Errorf("%d bytes were sent over %d faults, with %d resident", r.Sent, r.Faults, r.Resident)
		}
	}
	refused(t, "512MiB", "faults", "--faults", "1", "--resident", "1GiB")
	refused(t, "cuda:0", "faults", "--devices", "cpu")
}

func TestGPUFailover(t *testing.T) {
	withGPUs(t)
	got := rows[failoverRow](t, "failover", "--kills", "3", "--devices", "cuda:0/2")
	if len(got) != 1 || got[0].Kills != 3 || got[0].Backend != "cuda" || got[0].Devices != 2 || got[0].Lost != 0 || got[0].Duplicated != 0 || got[0].BackMS.N != 3 {
		t.Errorf("%+v", got)
	}
}
