package metrics

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/serve/internal/infer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a collector whose clock and sources a test sets.
type bench struct {
	*Collector
	clock   time.Time
	runtime weft.Metrics
	models  []infer.Stats
	root    string
}

// newBench makes a collector with two devices and one model, and a machine of its own.
func newBench(t *testing.T, p Prices) *bench {
	t.Helper()
	b := &bench{clock: time.Unix(1_000_000, 0), root: t.TempDir()}
	unknown := weft.Health{Util: -1, TempC: -1, PowerW: -1, ClockMHz: -1, MemUsed: -1, MemBytes: -1, MemErrors: -1}
	b.runtime = weft.Metrics{
		Uptime: 90 * time.Second, Runs: weft.RunMetrics{Submitted: 10, Completed: 7, Failed: 1, Cancelled: 1}, Retries: 2, Losses: 1,
		Copies: 3, CopyBytes: 4096, Rebalanced: 1, Verified: 11, Unverified: 12, Wrong: 13,
		Devices: []weft.DeviceMetrics{
			{Name: "cuda:0", State: "healthy", Tasks: 100, Busy: 10 * time.Second, Util: 0.5, Queued: 3, Losses: 1, MemUsed: 1 << 20, MemBytes: 1 << 30, Failed: 2,
				Health: weft.Health{Util: 0.7, TempC: 61, PowerW: 200, ClockMHz: 1980, MemUsed: 2 << 20, MemBytes: 1 << 31, MemErrors: 0}},
			{Name: "cpu:0", State: "healthy", Tasks: 10, Busy: time.Second, Health: unknown},
			{Name: "cpu:1", State: "drained", Health: unknown},
		},
	}
	h := infer.Histogram{Bounds: []float64{0.001, 0.002, 0.004, 0.008, 0.016}, Counts: make([]uint64, 6)}
	b.models = []infer.Stats{{Model: "a \"quoted\\name\"\n", Version: "1", Requests: 20, Succeeded: 14, Invalid: 1, Failed: 1, Refused: 2, Expired: 1, Cancelled: 1,
		Items: 60, Batches: 10, Waiting: 4, Queue: h, Compute: h, Total: h}}
	b.machine(t, 1000, 4000, 1_000_000, 500_000)
	c := &Collector{now: func() time.Time { return b.clock }, root: b.root, totals: totals{joules: make(map[string]float64)}}
	c.source = Source{
		Runtime: func() weft.Metrics {
			m := b.runtime
			m.Devices = append([]weft.DeviceMetrics(nil), m.Devices...)
			return m
		},
		Models: func() []infer.Stats {
			out := append([]infer.Stats(nil), b.models...)
			for i := range out {
				out[i].Total.Counts = append([]uint64(nil), out[i].Total.Counts...)
			}
			return out
		},
		Spans: func() Spans { return Spans{Sent: 70, Dropped: 3} },
		Proofs: func() []Proofs {
			return []Proofs{{Circuit: "sum", Proved: 5, Refused: 2, Failed: 1, Verified: 6, Seconds: 2.5, Running: 3, Waiting: 4}}
		},
		Prices: p,
	}
	b.Collector = c
	c.sample()
	return b
}

// machine writes the files of the machine: ticks of processors that were busy and idle, bytes
// received and sent.
func (b *bench) machine(t *testing.T, busy, idle, received, sent uint64) {
	t.Helper()
	n := func(x uint64) string { return string(appendUint(nil, x)) }
	for name, text := range map[string]string{
		"proc/stat":                 "cpu  " + n(busy) + " 0 0 " + n(idle-idle/2) + " " + n(idle/2) + " 0 0 0 7 7\ncpu0 1 2 3\n",
		"proc/meminfo":              "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n",
		"proc/net/dev":              "Inter-|   Receive\n face |bytes\n    lo: 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\n  eth0: " + n(received) + " 1 0 0 0 0 0 0 " + n(sent) + " 1 0 0 0 0 0 0\n virt0: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n",
		"sys/class/net/eth0/speed":  "1000\n",
		"sys/class/net/virt0/speed": "-1\n",
		"proc/self/stat":            "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0\n",
		"proc/self/statm":           "1000 25 3 4 5 6 7\n",
		"proc/self/fd/0":            "",
		"proc/self/fd/1":            "",
	} {
		file := filepath.Join(b.root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func appendUint(b []byte, x uint64) []byte {
	if x >= 10 {
		b = appendUint(b, x/10)
	}
	return append(b, byte('0'+x%10))
}

// after lets time pass and counts what happened meanwhile.
func (b *bench) after(t *testing.T, d time.Duration) {
	t.Helper()
	b.clock = b.clock.Add(d)
}

// parsed reads a page by the parser of Prometheus.
func parsed(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return families
}

// figure is the value of a family's figure with some labels, in turn with their values.
func figure(t *testing.T, fs map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	f := fs[name]
	if f == nil {
		t.Errorf("no family %s", name)
		return math.NaN()
	}
metrics:
	for _, m := range f.Metric {
		for i := 0; i < len(labels); i += 2 {
			has := false
			for _, l := range m.Label {
				has = has || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
			}
			if !has {
				continue metrics
			}
		}
		switch {
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		case m.Counter != nil:
			return m.Counter.GetValue()
		}
	}
	t.Errorf("no %s%q", name, labels)
	return math.NaN()
}

// Every figure is what its formula gives, computed by hand.
func TestFigures(t *testing.T) {
	b := newBench(t, Prices{KWh: 0.36, DeviceHour: 1.8, Prediction: 0.001})
	// In the first second 30 predictions in 2 batches; cuda:0 ends 8 tasks in 0.8 s, cpu:0 one task in
	// 0.2 s; power rises from 200 to 300 W.
	b.after(t, time.Second)
	b.runtime.Devices[0].Tasks += 8
	b.runtime.Devices[0].Busy += 800 * time.Millisecond
	b.runtime.Devices[0].Health.PowerW = 300
	b.runtime.Devices[1].Tasks++
	b.runtime.Devices[1].Busy += 200 * time.Millisecond
	b.models[0].Items += 30
	b.models[0].Batches += 2
	b.models[0].Total.Counts[1] = 8 // from 1 to 2 ms
	b.models[0].Total.Counts[3] = 2 // from 4 to 8 ms
	b.models[0].Total.Sum = 0.024
	b.machine(t, 1300, 4100, 1_000_000+25_000_000, 600_000)
	b.sample()
	// In the next two 30 predictions, and nothing else.
	b.after(t, 2*time.Second)
	b.models[0].Items += 30
	b.models[0].Batches += 3
	b.machine(t, 1400, 4400, 1_000_000+25_000_000, 600_000+125_000_000)
	fs := parsed(t, b.Text())
	cuda, model := []string{"device", "cuda:0"}, []string{"model", "a \"quoted\\name\"\n", "version", "1"}
	const joules = 250*1 + 300*2 // 250 W in the mean of the first second
	const paid = joules/3.6e6*0.36 + 2*3/3600.*1.8
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"weft_uptime_seconds", nil, 90},
		{"weft_runs_submitted_total", nil, 10},
		{"weft_runs_ended_total", []string{"result", "completed"}, 7},
		{"weft_runs_ended_total", []string{"result", "failed"}, 1},
		{"weft_runs_ended_total", []string{"result", "cancelled"}, 1},
		{"weft_task_retries_total", nil, 2},
		{"weft_copies_total", nil, 3},
		{"weft_copied_bytes_total", nil, 4096},
		{"weft_rebalances_total", nil, 1},
		{"weft_verified_tasks_total", nil, 11},
		{"weft_unverified_tasks_total", nil, 12},
		{"weft_wrong_results_total", nil, 13},
		{"weft_device_in_service", cuda, 1},
		{"weft_device_in_service", []string{"device", "cpu:1"}, 0},
		{"weft_device_state", []string{"device", "cpu:1", "state", "drained"}, 1},
		{"weft_device_tasks_total", cuda, 108},
		{"weft_device_failed_tasks_total", cuda, 2},
		{"weft_device_losses_total", cuda, 1},
		{"weft_device_busy_seconds_total", cuda, 10.8},
		{"weft_device_utilisation_ratio", cuda, 0.5},
		{"weft_device_queued_tasks", cuda, 3},
		{"weft_device_memory_used_bytes", cuda, 1 << 20},
		{"weft_device_memory_limit_bytes", cuda, 1 << 30},
		{"weft_device_total_utilisation_ratio", cuda, 0.7},
		{"weft_device_temperature_celsius", cuda, 61},
		{"weft_device_power_watts", cuda, 300},
		{"weft_device_clock_hertz", cuda, 1.98e9},
		{"weft_device_total_memory_used_bytes", cuda, 2 << 20},
		{"weft_device_memory_errors_total", cuda, 0},
		{"weft_device_energy_joules_total", cuda, joules},
		// Together 9 tasks in 3 s are 3 a second; while busy cuda:0 does 8/0.8 = 10 and cpu:0 1/0.2 = 5.
		{"weft_scaling_efficiency_ratio", nil, 3. / 15},
		// Busy 0.8 and 0.2 s: 0.5 in the mean, 0.8 at most.
		{"weft_load_balance_ratio", nil, 0.5 / 0.8},
		// Two retries and a loss were overcome, one run failed.
		{"weft_fault_tolerance_ratio", nil, 3. / 4},
		{"weft_requests_total", model, 20},
		{"weft_requests_ended_total", append(model, "result", "refused"), 2},
		{"weft_requests_ended_total", append(model, "result", "expired"), 1},
		{"weft_requests_ended_total", append(model, "result", "succeeded"), 14},
		{"weft_requests_ended_total", append(model, "result", "invalid"), 1},
		{"weft_proofs_total", []string{"circuit", "sum", "result", "proved"}, 5},
		{"weft_proofs_total", []string{"circuit", "sum", "result", "refused"}, 2},
		{"weft_proofs_total", []string{"circuit", "sum", "result", "failed"}, 1},
		{"weft_proof_seconds_total", []string{"circuit", "sum"}, 2.5},
		{"weft_proofs_running", []string{"circuit", "sum"}, 3},
		{"weft_proofs_waiting", []string{"circuit", "sum"}, 4},
		{"weft_proofs_verified_total", []string{"circuit", "sum"}, 6},
		{"weft_trace_spans_sent_total", nil, 70},
		{"weft_trace_spans_dropped_total", nil, 3},
		{"weft_recent_seconds", nil, 3},
		{"weft_predictions_total", model, 120},
		{"weft_batches_total", model, 15},
		{"weft_waiting_requests", model, 4},
		{"weft_recent_batch_predictions", model, 12}, // 60 in 5
		{"weft_recent_predictions_per_second", nil, 20},
		{"weft_peak_predictions_per_second", nil, 30},
		{"weft_energy_joules_total", nil, joules},
		{"weft_energy_per_prediction_joules", nil, joules / 120.},
		{"weft_device_service_seconds_total", nil, 6}, // two devices for 3 s
		{"weft_cost_total", []string{"part", "energy"}, joules / 3.6e6 * 0.36},
		{"weft_cost_total", []string{"part", "devices"}, 0.003},
		{"weft_prediction_cost", nil, paid / 120},
		{"weft_return_on_investment_ratio", nil, (0.12 - paid) / paid},
		{"weft_machine_cpu_utilisation_ratio", nil, 0.25}, // 100 of 400 ticks since the sample before
		{"weft_machine_memory_bytes", nil, 2 << 20},
		{"weft_machine_memory_available_bytes", nil, 1 << 20},
		{"weft_machine_network_received_bytes_total", []string{"interface", "eth0"}, 26_000_000},
		{"weft_machine_network_sent_bytes_total", []string{"interface", "virt0"}, 6},
		{"weft_machine_network_utilisation_ratio", []string{"interface", "eth0"}, 0.5}, // 125 MB in 2 s of 125 MB/s
		{"process_cpu_seconds_total", nil, 2},
		{"process_resident_memory_bytes", nil, 25 * float64(os.Getpagesize())},
		{"process_open_fds", nil, 2},
	} {
		if got := figure(t, fs, c.name, c.labels...); math.Abs(got-c.want) > 1e-9*math.Abs(c.want) {
			t.Errorf("%s%q is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	s := fs["weft_recent_request_seconds"].Metric[0].Summary
	// The 5th of 10 lies 5/8 into the bucket from 1 to 2 ms, the 9.5th 1.5/2 and the 9.9th 1.9/2 into that from 4 to 8 ms.
	for i, want := range []float64{0.001625, 0.007, 0.0078} {
		if got := s.Quantile[i].GetValue(); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %v is %v, want %v", s.Quantile[i].GetQuantile(), got, want)
		}
	}
	if s.GetSampleCount() != 10 || s.GetSampleSum() != 0.024 {
		t.Errorf("%v", s)
	}
	h := fs["weft_request_seconds"].Metric[0].Histogram
	if h.GetSampleCount() != 10 || len(h.Bucket) != 3 || h.Bucket[1].GetUpperBound() != 0.016 || h.Bucket[1].GetCumulativeCount() != 10 || h.Bucket[0].GetCumulativeCount() != 0 {
		t.Errorf("%v", h)
	}
	for name := range fs {
		if strings.HasPrefix(name, "weft_device_temp") && len(fs[name].Metric) != 1 {
			t.Errorf("%s of devices that do not tell it", name)
		}
	}
}

// The page passes the checks of promtool, and METRICS.md names every family and no other.
func TestPage(t *testing.T) {
	b := newBench(t, Prices{KWh: 1, DeviceHour: 1, Prediction: 1})
	b.after(t, time.Second)
	b.runtime.Devices[0].Tasks++
	b.runtime.Devices[0].Busy += time.Second
	b.models[0].Batches++
	b.models[0].Total.Counts[0]++
	b.machine(t, 1001, 4001, 1, 1)
	text := b.Text()
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	doc, err := os.ReadFile("../../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\{[^`]*)?` ").FindAllStringSubmatch(string(doc), -1) {
		if named[m[1]] {
			t.Errorf("METRICS.md has %s twice", m[1])
		}
		named[m[1]] = true
	}
	for name := range parsed(t, text) {
		if !named[name] {
			t.Errorf("METRICS.md does not have %s", name)
		}
		delete(named, name)
	}
	for name := range named {
		t.Errorf("METRICS.md has %s, which there is not", name)
	}
}

// What is not known is left out, and no figure is a number by accident.
func TestUnknown(t *testing.T) {
	for name, s := range map[string]Source{"nothing": {}, "empty": {Runtime: func() weft.Metrics { return weft.Metrics{} }, Models: func() []infer.Stats { return nil }, Prices: Prices{KWh: 1, Prediction: 1}}} {
		c := &Collector{source: s, root: t.TempDir(), now: time.Now, totals: totals{joules: make(map[string]float64)}}
		text := string(c.Text())
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "weft_return") || strings.Contains(text, "weft_machine") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A page shows what is, also right after a sample, and leaves no trace then.
func TestNow(t *testing.T) {
	b := newBench(t, Prices{})
	b.after(t, time.Second)
	b.sample()
	b.after(t, 10*time.Millisecond)
	b.models[0].Items += 100
	b.runtime.Devices[0].Tasks += 5
	for range 2 {
		fs := parsed(t, b.Text())
		if n, p := figure(t, fs, "weft_predictions_total"), figure(t, fs, "weft_peak_predictions_per_second"); n != 160 || p != 0 {
			t.Errorf("%v predictions, a peak of %v", n, p)
		}
		if n, j := figure(t, fs, "weft_device_tasks_total", "device", "cuda:0"), figure(t, fs, "weft_energy_joules_total"); n != 105 || math.Abs(j-202) > 1e-9 {
			t.Errorf("%v tasks, %v J", n, j)
		}
	}
	if len(b.samples) != 2 || b.totals.predictions != 60 || b.totals.joules["cuda:0"] != 200 {
		t.Errorf("%d samples, %+v", len(b.samples), b.totals)
	}
}

// A model that is loaded again counts from 0, and one that is gone has had its predictions.
func TestReloaded(t *testing.T) {
	b := newBench(t, Prices{}) // 60 predictions
	b.after(t, time.Second)
	b.models[0].Items = 5
	b.models[0].Total.Counts[0] = 1
	b.sample()
	b.after(t, time.Second)
	b.models = nil
	b.sample()
	if got := b.totals; got.predictions != 65 || got.peak != 5 {
		t.Errorf("%+v", got)
	}
}

// Recent reaches back a minute and no further than one sample more, however often figures are
// asked for, and peaks stay.
func TestWindow(t *testing.T) {
	for _, gap := range []time.Duration{500 * time.Millisecond, 700 * time.Millisecond, time.Second} {
		b := newBench(t, Prices{})
		b.after(t, time.Second)
		b.models[0].Items += 1000
		b.sample()
		for i := range 300 {
			b.after(t, gap)
			b.models[0].Items += 10
			b.models[0].Total.Counts[1]++
			text := b.Text()
			if i%20 > 0 {
				continue
			}
			fs := parsed(t, text)
			since := b.clock.Sub(time.Unix(1_000_000, 0)).Seconds()
			if got := figure(t, fs, "weft_recent_seconds"); got > 60+gap.Seconds() || got < min(60, since) {
				t.Fatalf("after %v s recent is %v s", since, got)
			}
		}
		fs := parsed(t, b.Text())
		if r, p := figure(t, fs, "weft_recent_predictions_per_second"), figure(t, fs, "weft_peak_predictions_per_second"); math.Abs(r-10/gap.Seconds()) > 1e-9 || p != 1000 {
			t.Errorf("recent %v, peak %v", r, p)
		}
		if n := len(b.samples); n > int(window/gap)+2 {
			t.Errorf("%d samples of a minute, one each %v", n, gap)
		}
	}
}

func TestHandler(t *testing.T) {
	c := New(Source{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	for range 4 {
		wg.Go(func() { c.Text() })
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" || !strings.Contains(w.Body.String(), "\ngo_goroutines ") {
		t.Errorf("%d %v\n%s", w.Code, w.Header(), w.Body)
	}
	parsed(t, w.Body.Bytes())
	w = httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest("POST", "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("POST gives %d", w.Code)
	}
	cancel()
	wg.Wait()
}

func TestPrices(t *testing.T) {
	if err := (Prices{KWh: 0.3}).Check(); err != nil {
		t.Error(err)
	}
	for _, p := range []Prices{{KWh: -1}, {DeviceHour: math.NaN()}, {Prediction: math.Inf(1)}} {
		if p.Check() == nil {
			t.Errorf("%+v is allowed", p)
		}
	}
}

// Whatever the kernel writes, figures are finite and not negative.
func FuzzHost(f *testing.F) {
	f.Add("cpu  1 2 3 4 5 6 7 8 9 10\n")
	f.Add("MemTotal: 5 kB\n")
	f.Add("  eth0: 1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n")
	f.Add("1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13")
	f.Fuzz(func(t *testing.T, s string) {
		busy, all := parseStat(s)
		total, available := parseMeminfo(s)
		figures := []float64{busy, all - busy, total, available, parseProcess(s)}
		for _, l := range parseNetwork(s) {
			figures = append(figures, l.received, l.sent)
			if strings.Contains(l.name, "/") {
				t.Errorf("interface %q", l.name)
			}
		}
		for _, x := range figures {
			if !(x >= 0) || math.IsInf(x, 0) {
				t.Errorf("%q: %v", s, figures)
			}
		}
	})
}
