package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// Every operation is measured in every size, and checked.
func TestDomains(t *testing.T) {
	page := filepath.Join(t.TempDir(), "out.html")
	text, err := run(t.Context(), "domains", "--sizes", "10,100", "--repeat", "1", "--devices", "cpu/2", "--json", "--html", page)
	if err != nil {
		t.Fatal(err)
	}
	var r domainsReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(r.Rows) != 2*len(workloads.Operations()) || len(r.Crossovers) != 0 {
		t.Errorf("%d rows and %d crossovers of %d operations", len(r.Rows), len(r.Crossovers), len(workloads.Operations()))
	}
	for i, row := range r.Rows {
		op := workloads.Operations()[i/2]
		if row.Operation != op.Name || row.Domain != op.Domain || row.Size != []int{10, 100}[i%2] || row.Device != "cpu/2" || !(row.Seconds > 0) || row.Why != "" || row.Job == "" {
			t.Errorf("row %d is %+v", i, row)
		}
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "The cpu is the only device.") {
		t.Errorf("the page: %v", err)
	}
	text, err = run(t.Context(), "domains", "--only", "ca_evolution", "--sizes", "64", "--repeat", "1", "--devices", "cpu")
	if err != nil || strings.Count(text, "ca_evolution") != 2 || !strings.Contains(text, "cpu is the only device") { // once in the command
		t.Errorf("%v\n%s", err, text)
	}
	refused(t, "did you mean ca_evolution", "domains", "--only", "ca_evolutin")
	refused(t, "--sizes 0", "domains", "--sizes", "0")
	refused(t, "--repeat 0", "domains", "--repeat", "0")
	refused(t, "--timeout", "domains", "--timeout", "-1s")
	refused(t, "--longest", "domains", "--longest", "-1s")
}

// Every row that the time does not reach is there and says so, and the status is that of a failure.
func TestDomainsLate(t *testing.T) {
	text, err := run(t.Context(), "domains", "--devices", "cpu", "--repeat", "1000000", "--timeout", "3s", "--sizes", "100,1000", "--only", "ca_evolution,geometric_product")
	if err == nil || !strings.HasSuffix(err.Error(), "with 0 of 4 rows measured") {
		t.Fatalf("%v\n%s", err, text)
	}
	for says, want := range map[string]int{"not finished: the time was up (--timeout)": 1, "not reached: the time was up (--timeout)": 3, "(--timeout))": 1} {
		if n := strings.Count(text, says); n != want {
			t.Errorf("%q is there %d times, want %d:\n%s", says, n, want, text)
		}
	}
}

// A job's result is its own: what the rival before wrote does not pass for it.
func TestDomainsSpoil(t *testing.T) {
	funcs := allFuncs()
	funcs["nothing"] = func(*weft.Call, int, int) {}
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: funcs})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	job, err := workloads.Operations()[0].Job(t.Context(), 50)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workload.Run(t.Context(), rt, job); err != nil {
		t.Fatal(err)
	}
	c := rival{device: "cpu", rt: rt}
	trial := domainsTrial{took: &domainsTime{}}
	if _, _, err := trial.once(t.Context(), &c, idle{job}, 0); err == nil || !strings.Contains(err.Error(), "the result is wrong") {
		t.Errorf("a run that wrote nothing: %v", err)
	}
	if _, _, err := trial.once(t.Context(), &c, job, 0); err != nil {
		t.Error(err)
	}
}

// idle is a job whose tasks write nothing.
type idle struct{ workload.Job }

func (i idle) Graph(ranges []sched.Range) (*graph.Graph, error) {
	g, err := i.Job.Graph(ranges)
	if err != nil {
		return nil, err
	}
	var b graph.Builder
	for d := range g.NumData() {
		b.Data(*g.Data(graph.DataID(d)))
	}
	for i := range g.NumTasks() {
		t := *g.Task(graph.TaskID(i))
		t.Steps = slices.Clone(t.Steps)
		for k := range t.Steps {
			t.Steps[k].Kernel = graph.GoKernel("nothing")
		}
		b.Add(t)
	}
	return b.Build()
}

// Devices are measured beside the cpu and with it. A size that does not fit is skipped with the
// reason, and what fails or is wrong ends the benchmark.
func TestDomainRivals(t *testing.T) {
	open := func() *weft.Runtime {
		rt, err := openAll(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rt.Close() })
		return rt
	}
	m := &meter{ctx: t.Context(), repeat: 2, quiet: true}
	p := terminal.StartProgress(&bytes.Buffer{}, true, "run", 1)
	all := []rival{{device: "cpu", rt: open()}, {device: "other", rt: open()}, {device: "other", both: true, rt: open()}}
	product := func() (workload.Job, error) { return workloads.Operations()[0].Job(t.Context(), 50) }
	var took domainsTime
	trial := func(job func() (workload.Job, error)) domainsTrial {
		return domainsTrial{job: job, all: all, took: &took, progress: p}
	}
	rows, err := domainRow{Size: 50}.measure(m, trial(product))
	if err != nil || len(rows) != 2 || rows[0].Speedup != 0 || !(rows[1].Speedup > 0) || !(rows[1].Together > 0) || rows[1].Verdict == "" || rows[0].Verdict != "" {
		t.Errorf("%+v, %v", rows, err)
	}
	if !(took.First > 0) || !(took.Runs > 0) || !(took.Plans > 0) || !(took.Checks > 0) || !(took.Inputs > 0) {
		t.Errorf("%+v", took)
	}
	rows, err = domainRow{Size: 7}.measure(m, trial(func() (workload.Job, error) { return nil, host.Enough("it", math.MaxInt64/2) }))
	if err != nil || len(rows) != 2 || !strings.HasPrefix(rows[0].Why, "skipped: it needs 4") || rows[1].Why != rows[0].Why || rows[1].Device != "other" || rows[0].Size != 7 {
		t.Errorf("%+v, %v", rows, err)
	}
	brief := trial(product)
	brief.longest = time.Nanosecond
	rows, err = domainRow{Size: 50}.measure(m, brief)
	if err != nil || len(rows) != 2 || rows[0].Seconds+rows[1].Seconds+rows[1].Together != 0 || !strings.HasSuffix(rows[1].Why, "longer than 1 ns (--longest)") {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, err = (domainRow{}).measure(m, trial(func() (workload.Job, error) { return nil, errors.New("broken") })); err == nil || err.Error() != "broken" {
		t.Error(err)
	}
	lie := func() (workload.Job, error) {
		j, err := product()
		return liar{j}, err
	}
	if _, err = (domainRow{Operation: "wrong"}).measure(m, trial(lie)); err == nil || !strings.Contains(err.Error(), "wrong on cpu: ") {
		t.Error(err)
	}
	late, end := context.WithCancel(t.Context())
	end()
	j, err := lie()
	if err != nil {
		t.Fatal(err)
	}
	if err := checked(late, j); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a check that was cut off: %v", err)
	}
}

// What the benchmark measures is kept in the cache, and predictions for the same devices, by which work is
// placed, go by it from their first run on.
func TestDomainsKept(t *testing.T) {
	dir := t.TempDir()
	open := func() *weft.Runtime {
		rt, err := openAll(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	job, err := workloads.Operations()[0].Job(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	first := func(rt *weft.Runtime) int {
		defer rt.Close()
		res, err := workload.Run(t.Context(), rt, job)
		if err != nil {
			t.Fatal(err)
		}
		return res.Prediction.Samples
	}
	if n := first(open()); n != 0 {
		t.Fatalf("%d measurements before anything was measured", n)
	}
	rt := open()
	m := &meter{ctx: t.Context(), repeat: 3, quiet: true}
	p := terminal.StartProgress(&bytes.Buffer{}, true, "run", 1)
	trial := domainsTrial{job: func() (workload.Job, error) { return job, nil }, all: []rival{{device: "cpu", rt: rt}}, took: &domainsTime{}, progress: p}
	if _, err := (domainRow{Size: 1000}).measure(m, trial); err != nil {
		t.Fatal(err)
	}
	rt.Close()
	if n := first(open()); n < 3 {
		t.Errorf("%d measurements are behind the first run after the benchmark, want at least 3", n)
	}
}

// liar is a job whose result is always wrong.
type liar struct{ workload.Job }

func (liar) Check() error { return errors.New("not so") }

// Crossovers lie where the speed-up passes one for good.
func TestCrossovers(t *testing.T) {
	row := func(op string, size int, speedup float64) domainRow {
		return domainRow{Operation: op, Device: "cuda:0", Size: size, Seconds: 1 / speedup, Speedup: speedup, Verdict: worth(speedup)}
	}
	rows := []domainRow{
		{Operation: "between", Device: "cpu", Size: 100, Seconds: 1},
		row("between", 100, 0.25), row("between", 10000, 4),
		row("always", 100, 1.5), row("always", 1000, 3),
		row("never", 100, 2), row("never", 1000, 0.5),
		row("late", 1000, 0.5), row("late", 10, 2), row("late", 100, 0.9), row("late", 2000, 2),
	}
	want := []crossover{
		{"between", "cuda:0", 1000, "the device is faster from about 1000"},
		{"always", "cuda:0", 100, "the device is faster from 100 or less"},
		{"never", "cuda:0", 0, "the cpu is faster up to 1000"},
		{"late", "cuda:0", 1414, "the device is faster from about 1414"},
	}
	got := crossovers(rows)
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	for up, says := range map[float64]string{2: "worth it: 2 times as fast", 0.5: "not worth it: 2 times as slow", 1.03: "as fast as the cpu"} {
		if worth(up) != says {
			t.Errorf("%v times as fast: %s", up, worth(up))
		}
	}
	rows[1].Together, rows[2].Together, rows[3].Together, rows[4].Together = 1.1, 0.2, 0.73, 0.4 // 1, ¼, ⅔ and ⅓ alone
	if p := placedOf(rows); p != (placed{Sizes: 4, Near: 3}) {
		t.Errorf("%+v", p)
	}
	rows[0].Operation = "between <b>"
	rows[1].Why = "skipped: no room"
	r := &domainsReport{Command: "weft bench domains", Machine: "an H100", Note: "a note", Repeat: 10, Rows: rows, Crossovers: got, Placed: placedOf(rows), Took: domainsTime{Checks: 2}}
	var b, page bytes.Buffer
	r.text(&b)
	if err := writeDomainsPage(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cuda:0", "the device is faster from about 1414", "a note", "not worth it: 2 times as slow", "skipped: no room", "checks 2 s"} {
		if !strings.Contains(b.String(), want) || !strings.Contains(page.String(), want) {
			t.Errorf("report or page do not say %q:\n%s", want, b.String())
		}
	}
	if !strings.HasSuffix(b.String(), "more than the faster of them at 3 of\n4 sizes.\n") {
		t.Errorf("%s", b.String())
	}
	text := page.String()
	for _, never := range []string{"http:", "https:", "src=", "<script", "<link", "@import", "url(", "ZgotmplZ", "NaN", "Inf", "<b>"} {
		if strings.Contains(strings.ReplaceAll(text, "<b>{{", ""), never) {
			t.Errorf("the page has %q", never)
		}
	}
	if a, z := strings.Count(text, "<svg"), strings.Count(text, "</svg>"); a != len(want)+2 || a != z {
		t.Errorf("%d drawings begin and %d end", a, z)
	}
}
