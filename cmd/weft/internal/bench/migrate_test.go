package bench

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A computation that moves to another process, on other devices, ends with the bytes of one
// that did not, has lost no step that was done, and leaves nothing behind.
func TestBenchMigrate(t *testing.T) {
	t.Setenv("WEFT_TEST_BENCH", "1")
	dir := t.TempDir()
	got := rows[migrateRow](t, "migrate", "--bytes", "3MiB", "--steps", "40", "--every", "20ms", "--dir", dir)
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	r := got[0]
	if r.Kept != r.Done || r.Done < 20 || r.Done >= 40 || r.Bytes < 3<<20 || r.From != "cpu/2" || r.To != "cpu" || len(r.Digest) != 64 {
		t.Errorf("%+v", r)
	}
	if !(r.Stop > 0 && r.Start > 0 && r.First > 0) || math.Abs(r.Again-r.Stop-r.Start) > 1e-9 || r.Upload != float64(r.Bytes)/12.5e6 {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	// A process that is told to move late does not do the last step: there is one to go on with.
	late := migrate{from: "cpu/2", to: "cpu", steps: 4, every: time.Hour}
	folder := filepath.Join(dir, "late")
	p, err := late.start(t.Context(), late.from, 1<<20, "--dir", folder, "--moves")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.until(func(e *migrateEvent) bool { return e.Event == "step" && e.Done == 3 }); err != nil {
		t.Fatal(err)
	}
	row := migrateRow{State: 1 << 20, Done: 3}
	if err := errors.Join(p.stop(), p.end(func(e *migrateEvent) {
		if e.Event == "step" || e.Event == "begin" || e.Event == "result" {
			t.Errorf("it went on: %+v", e)
		}
	}), late.arrive(t.Context(), folder, time.Now(), &row)); err != nil || row.Kept != 3 || len(row.Digest) != 64 {
		t.Errorf("%+v, %v", row, err)
	}
	// Where all is done already there is no step to measure.
	if err := late.arrive(t.Context(), folder, time.Now(), &row); err == nil || !strings.Contains(err.Error(), "before it had done a step") {
		t.Errorf("with nothing left to do: %v", err)
	}
	refused(t, "--bytes 5", "migrate", "--bytes", "5")
	refused(t, "--steps 3", "migrate", "--steps", "3")
	refused(t, "no such file", "migrate", "--bytes", "1MiB", "--dir", dir+"/gone")
	// What a process says is told.
	if _, err := run(t.Context(), "migrate", "--bytes", "1MiB", "--from", "cpu/x"); err == nil || !strings.Contains(err.Error(), "cpu/x") {
		t.Errorf("devices that are none: %v", err)
	}
}
