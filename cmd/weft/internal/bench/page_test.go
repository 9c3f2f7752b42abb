package bench

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

var keepPage = flag.String("page", "", "write the page of TestPage to this file, to look at it")

// sampleReport is a report as a suite of a machine of 16 devices makes it.
func sampleReport() *suiteReport {
	m, _ := machine.Named("16xh100")
	r := &suiteReport{
		Command: "weft bench suite --html <out>.html", Commit: "0123abc", Platform: host.Platform(),
		When: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Load: "0.1 0.2 0.3", here: m, Machine: machine.Encode(m),
		Overhead: []overheadRow{{Case: "dag", Tasks: 100, USPerTask: 0.5, MedianUS: 0.6}, {Case: "dag", Trace: true, USPerTask: 0.7, MedianUS: 0.8}},
		Sync:     []syncRow{{Case: "ping-pong", Devices: "cuda:0, cuda:1", Tasks: 2, USPerRound: 28, MedianUS: 30}},
		Memory: []memoryRow{
			{Device: "cuda:0", Case: "in, mapped", Bytes: 1 << 20, BPS: 50e9, OpenBPS: 55e9},
			{Device: "cuda:0", Case: "peer", From: "cuda:1", Bytes: 1 << 20, BPS: 400e9},
		},
		Balance: []balanceRow{{Workload: "triangle", Partitioner: "equal", Policy: fixed, Devices: 16, Seconds: 1, Imbalance: 0.9, Spread: 0.9, Utilisation: 0.5}},
	}
	for _, w := range []string{"gemm", "conv", "reduce", "a <b> & c"} {
		for n := 1; n <= 16; n *= 2 {
			up := float64(n) / (1 + 0.02*float64(n-1))
			row := scalingRow{Workload: w, Job: w + " of some size", Devices: n, Seconds: 1 / up, Speedup: up, Efficiency: up / float64(n), Predicted: 1.05 / up}
			r.Strong = append(r.Strong, row)
			row.Seconds, row.Predicted = float64(n)/up, 0
			r.Weak = append(r.Weak, row)
		}
	}
	return r
}

// The page shows what was measured, and needs nothing from elsewhere.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	if err := writePage(&b, sampleReport()); err != nil {
		t.Fatal(err)
	}
	if *keepPage != "" {
		if err := os.WriteFile(*keepPage, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text := b.String()
	for _, want := range []string{
		"Strong scaling", "Weak scaling", "12.31×", "efficiency 76.9 %", "a &lt;b&gt; &amp; c of some size",
		"weft bench suite --html &lt;out&gt;.html", "0123abc", "50 GB/s", "90.9 %", "peer from cuda:1", "0.50 µs", "14.00 µs",
		"<dd>0.1 0.2 0.3</dd>", "predicted 1.05 s", "16× NVIDIA H100",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, never := range []string{"http:", "https:", "src=", "<script", "<link", "@import", "url(", "ZgotmplZ", "NaN", "The suite was interrupted"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if a, z := strings.Count(text, "<svg"), strings.Count(text, "</svg>"); a != 8+2*3 || a != z {
		t.Errorf("%d drawings begin and %d end, want one for each workload and the keys", a, z)
	}
}

// Ideal and measured speed-up stand where they belong.
func TestDraw(t *testing.T) {
	c := draw([]scalingRow{
		{Workload: "w", Devices: 1, Seconds: 4, Speedup: 1, Efficiency: 1, Predicted: 4},
		{Workload: "w", Devices: 2, Seconds: 2.5, Speedup: 1.6, Efficiency: 0.8, Predicted: 2},
		{Workload: "w", Devices: 4, Seconds: 2, Speedup: 2, Efficiency: 0.5},
	})
	height := c.Bottom - c.Top
	if got, want := c.Points[2].X, c.Right; got != want {
		t.Errorf("four devices are at %v, want %v", got, want)
	}
	if got, want := c.Points[1].X, c.Left+(c.Right-c.Left)/3; got != want {
		t.Errorf("two devices are at %v, want %v", got, want)
	}
	if got, want := c.Points[2].Y, c.Top+height/2; got != want {
		t.Errorf("a speed-up of 2 of 4 is at %v, want %v", got, want)
	}
	if got, want := c.Points[1].PredictedY, c.Top+height/2; got != want { // 1.6 × 2.5 s / 2 s
		t.Errorf("a predicted speed-up of 2 is at %v, want %v", got, want)
	}
	if c.Points[2].PredictedY >= 0 {
		t.Error("what was not predicted is drawn")
	}
	if !strings.HasSuffix(c.Ideal, " 12.0") { // the top
		t.Errorf("the ideal line is %s", c.Ideal)
	}
}

func TestSuite(t *testing.T) {
	var b bytes.Buffer
	sampleReport().text(&b)
	for _, want := range []string{"strong scaling", "weak scaling", "overhead", "synchronisation", "memory", "balance"} {
		if !strings.Contains(b.String(), "\n"+want) {
			t.Errorf("the report has no section %q", want)
		}
	}
	// Ended before anything was measured it leaves no half report.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "out.html")
	if _, err := run(ctx, "suite", "--html", file); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted, the suite ends with %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty page was left behind: %v", err)
	}
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := run(t.Context(), "suite", "--html", filepath.Join(file, "below"))
	if mistake := (text.Mistake{}); !errors.As(err, &mistake) || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a page below a file: %v", err)
	}
	root := newRoot()
	c, rest, err := root.Find(strings.Fields("bench suite --only gemm,conv --json --repeat 3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
	if got, want := commandLine(c), "weft bench suite --json --only gemm,conv --repeat 3"; got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
}
