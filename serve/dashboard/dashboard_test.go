package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/test/poll"
)

// get asks a handler.
func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

// Every answer has the headers that keep scripts of others out.
func TestHeaders(t *testing.T) {
	d := still(scene(1, 2, 2))
	for _, path := range []string{"/", "/dashboard/state", "/dashboard/timeline", "/dashboard/static/app.js", "/dashboard/static/none.js", "/none"} {
		h := get(d, path).Header()
		if p := h.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") || !strings.Contains(p, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, p)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the type may be guessed", path)
		}
	}
}

// What is not there is said as JSON, as the server says all errors, and to a person's browser on a page.
func TestNothingThere(t *testing.T) {
	d := still(scene(1, 2, 2))
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct {
		method, path, accept string
		status               int
		page                 bool
	}{
		{"GET", "/nosuch", "", 404, false},
		{"GET", "/nosuch", "*/*", 404, false},
		{"GET", "/nosuch", "application/json, text/html", 404, false},
		{"GET", "/nosuch", browser, 404, true},
		{"GET", "/dashboard/static/none.js", browser, 404, true},
		{"GET", "/dashboard/timeline?since=never", "", 400, false},
		{"PUT", "/dashboard/state", "", 405, false},
		{"DELETE", "/<script>", browser, 404, true},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		var said map[string]string
		err := json.Unmarshal(w.Body.Bytes(), &said)
		kind := w.Header().Get("Content-Type")
		if w.Code != c.status || c.page != strings.HasPrefix(kind, "text/html") || !c.page && (err != nil || said["error"] == "" || kind != "application/json") {
			t.Errorf("%s %s for %q: status %d, %s: %s", c.method, c.path, c.accept, w.Code, kind, w.Body)
		}
		if strings.Contains(w.Body.String(), "<script>") && c.page || (c.status == 405) != (w.Header().Get("Allow") != "") {
			t.Errorf("%s %s: %v %s", c.method, c.path, w.Header(), w.Body)
		}
	}
}

// The page of events opens with problems, which runs that go well do not push out.
func TestEventsOpenWithProblems(t *testing.T) {
	for file, want := range map[string]string{
		"events.js": `h\('select', \{ id: 'events-filter', .*\[\['bad', 'Problems'\], \['', 'All'\]`,
		"live.js":   `next\.events = latest\(`,
	} {
		if text, err := files.ReadFile("static/" + file); err != nil || !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s has no %s: %v", file, want, err)
		}
	}
}

// The page has no script or style within it, and names nothing outside of the server.
func TestSelfContained(t *testing.T) {
	outside := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9]+\.[a-z]|\son\w+=|<style|<script>|style="|javascript:|innerHTML|\beval\(|new Function`)
	entries, err := fs.ReadDir(files, "static")
	if err != nil || len(entries) < 10 {
		t.Fatal(len(entries), err)
	}
	for _, e := range entries {
		body, err := files.ReadFile("static/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", "") // a name, and not fetched
		if m := outside.FindString(text); m != "" {
			t.Errorf("%s has %q", e.Name(), m)
		}
		w := get(newDashboard(nil, Options{}), "/dashboard/static/"+e.Name())
		if w.Code != http.StatusOK || w.Body.Len() != len(body) || strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d, %d bytes as %s", e.Name(), w.Code, w.Body.Len(), w.Header().Get("Content-Type"))
		}
	}
	for _, path := range []string{"/dashboard/static/..%2fdashboard.go", "/dashboard/static/../dashboard.go", "/dashboard/static/"} {
		if w := get(newDashboard(nil, Options{}), path); w.Code == http.StatusOK {
			t.Errorf("%s is served", path)
		}
	}
}

// What is shown is what the API tells.
func TestStateIsTheAPI(t *testing.T) {
	rt := openFake(t, "devices 3; lanes 2; set temp 61; set power 230", weft.Options{HealthInterval: time.Millisecond})
	jobs := &fakeJobs{}
	jobs.add(JobState{ID: "a", State: "running", Part: 0.25, Left: 3 * time.Second, Elapsed: time.Second})
	jobs.add(JobState{ID: "b", State: "done", Part: 1, Left: -1})
	d := newDashboard(rt, Options{Name: "x", Jobs: jobs})
	g, x := randomGraph(t, rand.New(rand.NewPCG(1, 1)), 50, 10)
	if _, err := rt.Run(t.Context(), g, x); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "a sample of each device", func() bool {
		return !slices.ContainsFunc(rt.Metrics().Devices, func(d weft.DeviceMetrics) bool { return d.Health.TempC != 61 })
	})
	var s pageState
	if err := json.Unmarshal(get(d, "/dashboard/state").Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	m := rt.Metrics()
	if s.Totals.Submitted != 1 || s.Totals.Completed != m.Runs.Completed || s.Totals.Copies != m.Copies || s.Totals.CopyBytes != m.CopyBytes || m.Copies == 0 {
		t.Errorf("totals %+v, want those of %+v", s.Totals, m)
	}
	var tasks int64
	for i, dev := range s.Devices {
		w := m.Devices[i]
		tasks += dev.Tasks
		if dev.Name != w.Name || dev.State != w.State || dev.Tasks != w.Tasks || dev.MemUsed != w.MemUsed || dev.MemBytes != w.MemBytes || dev.Busy != w.Busy.Seconds() ||
			dev.Temp == nil || *dev.Temp != 61 || dev.Power == nil || *dev.Power != 230 || dev.Queued != w.Queued {
			t.Errorf("device %+v, want that of %+v", dev, w)
		}
	}
	if tasks != 50 {
		t.Errorf("%d tasks in all, want 50", tasks)
	}
	if len(s.Jobs) != 2 || s.Now.JobsOpen != 1 || s.Now.JobsEnded != 1 || s.Jobs[0].Left != 3 || s.Jobs[0].Part != 0.25 || s.Jobs[1].Left >= 0 {
		t.Errorf("jobs %+v, %+v", s.Jobs, s.Now)
	}
	if len(s.Machine.Links) != len(rt.Machine().Links) || s.Machine.Links[0].Rate != rt.Machine().Links[0].BPS {
		t.Errorf("links %+v, want %+v", s.Machine.Links, rt.Machine().Links)
	}
}

// Rates are what was counted, divided by the time between samples.
func TestRates(t *testing.T) {
	rt := openFake(t, "devices 2", weft.Options{})
	served := &fakeModels{}
	d := newDashboard(rt, Options{Serving: served})
	d.sampler.every = 0 // every look is kept
	served.answers = 1000
	g, x := randomGraph(t, rand.New(rand.NewPCG(1, 1)), 30, 2)
	if _, err := rt.Run(t.Context(), g, x); err != nil {
		t.Fatal(err)
	}
	first := d.now()
	if first.Now.TaskRate != nil || first.Models[0].Rate != nil {
		t.Error("there is a rate after one sample")
	}
	if _, err := rt.Run(t.Context(), g, x); err != nil {
		t.Fatal(err)
	}
	served.answers = 1060
	second := d.now()
	want := 30 / second.Window
	if r := second.Now.TaskRate; r == nil || *r < want*0.999 || *r > want*1.001 || second.Window != second.Uptime-first.Uptime {
		t.Errorf("rate %v in %v s, want %v", *second.Now.TaskRate, second.Window, want)
	}
	if r := second.Models[0].Rate; r == nil || *r < 2*want*0.999 || *r > 2*want*1.001 || *second.Now.Requests != *r {
		t.Errorf("models %+v, want a rate of %v", second.Models, 2*want)
	}
	if p := second.Models[0].P50; p == nil || *p < 0.001 || *p > 0.01 {
		t.Errorf("p50 %v, want within its bucket", p)
	}
}

// fakeModels serves a model that answered some requests in 1 to 10 ms.
type fakeModels struct{ answers uint64 }

func (f *fakeModels) Models() []ModelState {
	return []ModelState{{Name: "m", Version: "1", State: "ready", Succeeded: f.answers, Items: f.answers, Batches: f.answers / 2,
		Total: tallied{Bounds: []float64{0.001, 0.01}, Counts: []uint64{0, f.answers, 0}}}}
}

// act sends an action as the page does; change may spoil it.
func act(h http.Handler, path, body string, change func(*http.Request)) (int, outcome) {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set(header, "1")
	r.Header.Set("Origin", "http://"+r.Host)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var o outcome
	_ = json.NewDecoder(w.Body).Decode(&o)
	return w.Code, o
}

// Devices are drained, returned, swapped and recovered, and mistakes are said in a line.
func TestActions(t *testing.T) {
	rt := openFake(t, "devices 3", weft.Options{})
	jobs := &fakeJobs{}
	jobs.add(JobState{ID: "j 1/2", State: "running"})
	d := newDashboard(rt, Options{Jobs: jobs})
	state := func(i int) string { return rt.Metrics().Devices[i].State }
	for _, c := range []struct {
		path, body string
		code       int
		says       string
		device     int
		state      string
	}{
		{"/dashboard/devices/fake:0/drain", "", 200, "fake:0 is drained", 0, "drained"},
		{"/dashboard/devices/fake:0/undrain", "", 200, "back in service", 0, "healthy"},
		{"/dashboard/devices/fake:0/swap", `{"to":"fake:1"}`, 200, "replaced by fake:1", 0, "drained"},
		{"/dashboard/devices/fake:1/recover", "", 200, "is there", 1, "healthy"},
		{"/dashboard/devices/fake:1/drain", "", 200, "is drained", 1, "drained"},
		{"/dashboard/devices/fake:2/drain", "", 409, "drain fake:2", 2, "healthy"},
		{"/dashboard/devices/fake:9/drain", "", 404, "fake:9", 2, "healthy"},
		{"/dashboard/devices/fake:0/swap", "", 400, `{"to": "cuda:1"}`, 0, "drained"},
		{"/dashboard/devices/fake:0/swap", `{"to":"fake:0"}`, 404, "own place", 0, "drained"},
		{"/dashboard/devices/fake:0/explode", "", 404, "drain, undrain, recover or swap", 0, "drained"},
		{"/dashboard/jobs/j%201%2F2/cancel", "", 200, "is cancelled", 0, "drained"},
		{"/dashboard/jobs/none/cancel", "", 409, "no job", 0, "drained"},
	} {
		code, o := act(d, c.path, c.body, nil)
		if code != c.code || !strings.Contains(o.Message, c.says) || strings.Contains(o.Message, "\n") || o.Done != (code == 200) {
			t.Errorf("%s: %d %+v, want %d %q", c.path, code, o, c.code, c.says)
		}
		if got := state(c.device); got != c.state {
			t.Errorf("%s: the device is %s, want %s", c.path, got, c.state)
		}
	}
	if len(jobs.cancelled) != 1 || jobs.cancelled[0] != "j 1/2" {
		t.Errorf("cancelled %q", jobs.cancelled)
	}
}

// The answer to an action that takes its time comes, however short the server's time for taking
// an answer is.
func TestActionIsAnswered(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Funcs: map[string]weft.Func{
		"wait": func(*weft.Call, int, int) { close(begun); <-end },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	name := rt.Devices()[0].Name
	var b graph.Builder
	y := b.Data(graph.Data{Name: "y", Bytes: 8})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "wait", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "wait"}}}}},
		Uses: []graph.Use{{Data: y, Access: graph.Write}}, On: graph.Constraint{Only: []string{name}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() {
		_, err := rt.Run(t.Context(), g)
		ran <- err
	}()
	<-begun
	d := newDashboard(rt, Options{})
	d.wait = 300 * time.Millisecond
	s := httptest.NewUnstartedServer(d)
	s.Config.WriteTimeout = 20 * time.Millisecond
	s.Start()
	defer s.Close()
	r, err := http.NewRequest("POST", s.URL+"/dashboard/devices/"+name+"/drain", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header, "1")
	r.Header.Set("Origin", s.URL)
	a, err := s.Client().Do(r)
	if err != nil {
		t.Fatalf("the answer was cut off: %v", err)
	}
	defer a.Body.Close()
	var o outcome
	if err := json.NewDecoder(a.Body).Decode(&o); err != nil || a.StatusCode != http.StatusAccepted || !strings.Contains(o.Message, "goes on") {
		t.Errorf("%s %+v, %v", a.Status, o, err)
	}
	close(end)
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// Nobody but the page itself acts.
func TestOnlyThePageActs(t *testing.T) {
	rt := openFake(t, "devices 2", weft.Options{})
	jobs := &fakeJobs{}
	jobs.add(JobState{ID: "j", State: "running"})
	d := newDashboard(rt, Options{Jobs: jobs})
	for _, path := range []string{"/dashboard/devices/fake:0/drain", "/dashboard/jobs/j/cancel"} {
		for name, change := range map[string]func(*http.Request){
			"no header":     func(r *http.Request) { r.Header.Del(header) },
			"no origin":     func(r *http.Request) { r.Header.Del("Origin") },
			"null origin":   func(r *http.Request) { r.Header.Set("Origin", "null") },
			"other origin":  func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
			"other port":    func(r *http.Request) { r.Header.Set("Origin", "http://"+r.Host+":81") },
			"host in front": func(r *http.Request) { r.Header.Set("Origin", "http://"+r.Host+".evil.example") },
			"other site":    func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
			"same site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		} {
			if code, o := act(d, path, "", change); code != http.StatusForbidden || o.Done {
				t.Errorf("%s with %s: %d %+v", path, name, code, o)
			}
		}
		if got := rt.Metrics().Devices[0].State; got != "healthy" || len(jobs.cancelled) != 0 {
			t.Errorf("%s: a request that was refused acted: %s, %q", path, got, jobs.cancelled)
		}
	}
	if code, o := act(d, "/dashboard/devices/fake:0/drain", "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }); code != http.StatusOK {
		t.Errorf("of the page itself: %d %+v", code, o)
	}
	for _, path := range []string{"/dashboard/devices/fake:0/drain", "/dashboard/jobs/j/cancel"} {
		if w := get(d, path); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
}

// The timeline of a runtime has every task, on its device, and streams end when it is closed.
func TestTimelineLive(t *testing.T) {
	for name, records := range map[string]int{"events": 0, "trace": 10_000} {
		t.Run(name, func(t *testing.T) {
			rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Trace: records, Funcs: map[string]weft.Func{"spin": spin}})
			if err != nil {
				t.Fatal(err)
			}
			defer rt.Close()
			d := newDashboard(rt, Options{})
			d.sampler.every = time.Millisecond
			s := serving(t, d)
			r := watch(t, t.Context(), s.URL)
			r.next(t)
			poll.True(t, "events to be collected", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.strip.strips) == 2 })
			g, x := randomGraph(t, rand.New(rand.NewPCG(1, 1)), 60, 20)
			var ran int
			poll.True(t, "all tasks", func() bool {
				if _, err := rt.Run(t.Context(), g, x); err != nil {
					t.Fatal(err)
				}
				var got pageTimeline
				if err := json.Unmarshal(get(d, "/dashboard/timeline").Body.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				ran = 0
				for i, strip := range got.Devices {
					ends := map[int]float64{}
					if strip.Name != fmt.Sprintf("cpu:%d", i) {
						t.Errorf("strip %d is of %s", i, strip.Name)
					}
					for _, sp := range strip.Spans {
						if sp.Start < ends[sp.Lane] || sp.End < sp.Start || sp.Busy > sp.End-sp.Start+1e-9 || sp.Lane >= strip.Lanes || sp.End > got.To+1 {
							t.Errorf("span %+v after %v, until %v", sp, ends[sp.Lane], got.To)
						}
						ends[sp.Lane] = sp.End
						if !sp.Copy {
							ran += sp.Tasks
						}
					}
				}
				return ran >= 60 && got.Recorded == (records > 0)
			})
			if records > 0 { // and a verdict about the last seconds
				poll.True(t, "a verdict", func() bool { return len(d.now().Verdicts) > 0 })
				if v := d.now().Verdicts[0]; v.Tasks < 60 || !strings.Contains(v.Sentence, v.Verdict) || v.Took <= 0 {
					t.Errorf("verdict %+v", v)
				}
			}
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
			for err = nil; err == nil; {
				_, _, err = r.read()
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v", err)
			}
			quiet(t, d)
		})
	}
	if w := get(still(scene(1, 1, 1)), "/dashboard/timeline?since=soon"); w.Code != http.StatusBadRequest {
		t.Errorf("since=soon: %d", w.Code)
	}
}

// A request that ends early does not call an action off.
func TestActionOutlivesRequest(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Funcs: map[string]weft.Func{"spin": func(*weft.Call, int, int) {
		close(began)
		<-finish
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	g, x := randomGraph(t, rand.New(rand.NewPCG(1, 1)), 1, 1)
	run := rt.Submit(g, nil, x)
	<-began
	busy := rt.Running()[0].Device
	ctx, cancel := context.WithCancel(t.Context())
	d := newDashboard(rt, Options{})
	ended := make(chan int)
	go func() {
		code, _ := act(d, "/dashboard/devices/"+busy+"/drain", "", func(r *http.Request) { *r = *r.WithContext(ctx) })
		ended <- code
	}()
	drains := func() bool {
		for _, m := range rt.Metrics().Devices {
			if m.Name == busy {
				return m.State == "draining" || m.State == "drained"
			}
		}
		return false
	}
	poll.True(t, "the drain to begin", drains)
	cancel()
	if code := <-ended; code == http.StatusOK {
		t.Error("a drain that waits is said to be done")
	}
	close(finish)
	if _, err := run.Wait(); err != nil {
		t.Error(err)
	}
	if !drains() {
		t.Error("the drain was called off with its request")
	}
}
