package bench

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// recordingOf writes a recording of one workload whose time follows its operations.
func recordingOf(t *testing.T, label string, speed float64) string {
	m := &machine.Machine{Devices: []machine.Device{{Name: "cpu", Model: label, Backend: "cpu", HostMemory: true}}}
	m.Devices[0].Rates.Ops[graph.FP32] = 1e9 * speed
	r := plan.Recording{Version: plan.RecordingVersion, Label: label, Machine: m}
	for _, name := range []string{"gemm", "reduce", "conv", "merkle"} {
		for k := range 8 {
			n := plan.Need{Name: fmt.Sprint(name, k), Workload: name, Flops: 1e8 * math.Pow(2, float64(k)), Launches: 1}
			s := n.Flops / 1e9 / speed
			seconds := []float64{s, s * 1.01, s * 0.99, s, s}
			if k == 7 && name == "merkle" {
				seconds[0] *= 2
			}
			r.Points = append(r.Points, plan.PointOf(n, k+1, 1000, seconds))
		}
	}
	src, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), label+".json")
	if err := os.WriteFile(file, src, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Recordings are judged: times that follow the work are predicted, and a point that is not
// stable is counted and left out.
func TestBenchPredict(t *testing.T) {
	a, b := recordingOf(t, "here", 1), recordingOf(t, "there", 4)
	text, err := run(t.Context(), "predict", a, b, "--each")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"32      31           1", "62 stable points count", "one size", "every other size", "workload", "machine", "merkle   7 of 7  7 of 7", "No GPU", "gemm3"} {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	got := rows[plan.Judged](t, "predict", a, b)
	kinds := make(map[plan.Held]int)
	for i := range got {
		kinds[got[i].Kind]++
		if off := got[i].Off(); off > 0.05 {
			t.Errorf("off by %v: %+v", off, got[i])
		}
	}
	for kind, want := range map[plan.Held]int{plan.HeldSize: 46, plan.HeldEnd: 16, plan.HeldWorkload: 62, plan.HeldMachine: 62} {
		if kinds[kind] != want {
			t.Errorf("%d predictions without %s, want %d", kinds[kind], kind, want)
		}
	}
}

// A recording of this machine is made, read and judged.
func TestBenchPredictRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "here.json")
	if _, err := run(t.Context(), "predict", "--record", file, "--only", "reduce,gemm,fold", "--sizes", "2", "--shortest", "200us", "--longest", "400us", "--devices", "cpu"); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := plan.DecodeRecording(src)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Points) < 2 || r.Devices != "cpu" || len(r.Machine.Devices) != 1 {
		t.Fatalf("%+v", r)
	}
	for _, p := range r.Points {
		if p.Ops <= 0 || p.Bytes <= 0 || p.Launches < 1 || len(p.Seconds) != plan.LeastRuns || p.Median() <= 0 || p.Peak <= 0 {
			t.Errorf("%+v", p)
		}
	}
	if _, err := run(t.Context(), "predict", file); err != nil {
		t.Error(err)
	}
}

// What was measured when the time is over is kept. How long opening takes depends on the
// machine, so that the time is doubled until a point is complete.
func TestBenchPredictTimeout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "here.json")
	for limit := time.Second; ; limit *= 2 {
		_, err := run(t.Context(), "predict", "--record", file, "--only", "reduce", "--sizes", "2", "--shortest", "200us", "--longest", "400us", "--passes", "1000000", "--devices", "cpu", "--timeout", limit.String())
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "before a point was complete") {
			t.Fatal(err)
		}
	}
	if src, err := os.ReadFile(file); err != nil {
		t.Error(err)
	} else if _, err := plan.DecodeRecording(src); err != nil {
		t.Error(err)
	}
}

func TestBenchPredictRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"version":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, "--record", "predict")
	refused(t, "one after the other", "predict", "--record", "x", "y")
	refused(t, "no label", "predict", bad)
	refused(t, "no such file", "predict", "missing.json")
	refused(t, "--sizes", "predict", "--record", "x", "--sizes", "0")
	refused(t, "--shortest", "predict", "--record", "x", "--shortest", "2s")
	refused(t, "--passes", "predict", "--record", "x", "--passes", "5")
	refused(t, "workload", "predict", "--record", "x", "--only", "gem")
}
