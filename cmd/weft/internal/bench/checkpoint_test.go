package bench

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
)

// Steps with checkpoints end with the same state as without, and leave nothing behind.
func TestBenchCheckpoint(t *testing.T) {
	dir := t.TempDir()
	got := rows[checkpointRow](t, "checkpoint", "--size", "2MiB", "--every", "20ms", "--length", "200ms", "--repeat", "2", "--dir", dir, "--devices", "cpu")
	if len(got) != 1 || got[0].Pairs != 2 || got[0].Written < 1 || got[0].Bytes < 2<<20 || got[0].Plain <= 0 || got[0].Kept <= 0 || got[0].Steps < 3 || got[0].CPU == 0 && runtime.GOOS == "linux" {
		t.Errorf("%+v", got)
	}
	if r := got[0]; len(r.Each) != 2 || r.Each[0].KeptFirst || !r.Each[1].KeptFirst || r.Over != (r.Each[0].Over+r.Each[1].Over)/2 || r.Machine == "" || r.Cores != runtime.NumCPU() {
		t.Errorf("pairs of %+v", r)
	}
	for _, p := range got[0].Each {
		if p.Plain <= 0 || p.Over != p.Kept/p.Plain-1 {
			t.Errorf("a pair of %+v", p)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	text, err := run(t.Context(), "checkpoint", "--size", "64KiB", "--every", "20ms", "--length", "20ms", "--repeat", "1", "--dir", dir, "--devices", "cpu")
	if err != nil || !strings.Contains(text, "pair") || !strings.Contains(text, terminal.Count(runtime.NumCPU(), "core")) {
		t.Errorf("%v: %s", err, text)
	}
	refused(t, "--size 5", "checkpoint", "--size", "5")
	refused(t, "--every", "checkpoint", "--every", "0s")
	refused(t, "no such file", "checkpoint", "--dir", dir+"/gone")
}
