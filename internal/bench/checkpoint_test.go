package bench

import (
	"os"
	"runtime"
	"testing"
)

// Steps with checkpoints end with the same state as without, and leave nothing behind.
func TestBenchCheckpoint(t *testing.T) {
	dir := t.TempDir()
	got := rows[checkpointRow](t, "checkpoint", "--size", "2MiB", "--every", "20ms", "--length", "200ms", "--repeat", "2", "--dir", dir, "--devices", "cpu")
	if len(got) != 1 || got[0].Pairs != 2 || got[0].Written < 1 || got[0].Bytes < 2<<20 || got[0].Plain <= 0 || got[0].Kept <= 0 || got[0].Steps < 3 || got[0].CPU == 0 && runtime.GOOS == "linux" {
		t.Errorf("%+v", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	refused(t, "--size 5", "checkpoint", "--size", "5")
	refused(t, "--every", "checkpoint", "--every", "0s")
	refused(t, "no such file", "checkpoint", "--dir", dir+"/gone")
}
