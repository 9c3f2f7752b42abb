package serve

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve/internal/infer"
)

// table returns jobs with limits, and a clock to set.
func table(limits Jobs) (*jobs, *time.Time) {
	at := time.Unix(1000, 0)
	if limits.KeepBytes == 0 {
		limits.KeepBytes = 1 << 20
	}
	return &jobs{limits: limits, hub: newHub(), log: slog.New(slog.DiscardHandler), now: func() time.Time { return at }}, &at
}

// gated is a task that waits until it is let go or cancelled.
func gated(release <-chan error) task {
	return func(ctx context.Context, tell func(api.JobProgress)) (*api.JobResult, error) {
		tell(api.JobProgress{Part: 0.5})
		select {
		case err := <-release:
			return &api.JobResult{}, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Jobs run so many at a time, wait so many at most, and are remembered for a while.
func TestJobTable(t *testing.T) {
	js, at := table(Jobs{Concurrent: 2, Queue: 1, Keep: 2, KeepFor: Duration(time.Minute)})
	release := make(chan error)
	add := func() (api.Job, error) {
		j, _, err := js.submit(api.JobRequest{Workload: "w"}, gated(release), "", nil)
		return j, err
	}
	state := func(id string) string {
		j, err := js.get(id)
		if err != nil {
			return "gone"
		}
		return j.State
	}
	a, _ := add()
	b, _ := add()
	c, err := add()
	if err != nil || state(a.ID) != api.JobRunning || state(b.ID) != api.JobRunning || state(c.ID) != api.JobQueued {
		t.Fatalf("%v: %s %s %s", err, state(a.ID), state(b.ID), state(c.ID))
	}
	_, err = add()
	if status, after := statusOf(err); status != 503 || after == 0 {
		t.Errorf("one too many: %v", err)
	}
	if _, err := js.resultOf(a.ID); err == nil {
		t.Error("a job that runs has a result")
	}
	release <- nil
	poll.True(t, "the third runs", func() bool { return state(c.ID) == api.JobRunning })
	release <- errors.New("broken\nby test")
	release <- nil
	poll.True(t, "all have ended", func() bool { return len(js.list()) == 2 }) // the oldest is forgotten
	failed := 0
	for _, j := range js.list() {
		if j.State == api.JobFailed && j.Error == "broken; by test" {
			failed++
		}
		if _, err := js.resultOf(j.ID); (err == nil) != (j.State == api.JobSucceeded) {
			t.Errorf("%s: result %v", j.State, err)
		}
	}
	if failed > 1 {
		t.Errorf("%d failed", failed)
	}
	*at = at.Add(2 * time.Minute)
	if n := len(js.list()); n != 0 {
		t.Errorf("%d jobs are remembered for ever", n)
	}
	// A panic is a failure of its job.
	p, _, err := js.submit(api.JobRequest{}, func(context.Context, func(api.JobProgress)) (*api.JobResult, error) { panic("planted") }, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	poll.True(t, "it failed", func() bool { return state(p.ID) == api.JobFailed })
	if err := js.close(t.Context(), patience); err != nil {
		t.Error(err)
	}
	if _, err := add(); err == nil {
		t.Error("a job was taken after the end")
	}
}

func TestJobCancel(t *testing.T) {
	js, _ := table(Jobs{Concurrent: 1, Queue: 5, Keep: 10, KeepFor: Duration(time.Minute)})
	release := make(chan error)
	var ids []string
	for range 3 {
		j, _, err := js.submit(api.JobRequest{}, gated(release), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	state := func(i int) string { j, _ := js.get(ids[i]); return j.State }
	if j, err := js.stop(ids[1]); err != nil || j.State != api.JobCancelled || state(0) != api.JobRunning {
		t.Errorf("a job that waited is %s, %v", j.State, err)
	}
	if _, err := js.stop(ids[0]); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "it is cancelled and the next runs", func() bool { return state(0) == api.JobCancelled && state(2) == api.JobRunning })
	if j, err := js.stop(ids[0]); err != nil || j.State != api.JobCancelled {
		t.Errorf("cancelled again: %s, %v", j.State, err)
	}
	if _, err := js.stop("none"); err == nil {
		t.Error("a job that is not there was cancelled")
	}
	// The end interrupts what is left once its time is over.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := js.close(ctx, patience); err != nil || state(2) != api.JobInterrupted {
		t.Errorf("after the end it is %s, %v", state(2), err)
	}
}

// A job that cannot be stopped does not hold up the end.
func TestJobLeftBehind(t *testing.T) {
	js, _ := table(Jobs{Concurrent: 1, Queue: 5, Keep: 10, KeepFor: Duration(time.Minute)})
	release := make(chan struct{})
	if _, _, err := js.submit(api.JobRequest{}, func(context.Context, func(api.JobProgress)) (*api.JobResult, error) {
		<-release
		return &api.JobResult{}, nil
	}, "", nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := js.close(ctx, time.Millisecond); err == nil {
		t.Error("it was stopped")
	}
	close(release)
	js.tasks.Wait()
}

// The same key is the same job; with another body it is a mistake.
func TestIdempotencyKey(t *testing.T) {
	js, _ := table(Jobs{Concurrent: 0, Queue: 0, Keep: 10, KeepFor: Duration(time.Minute)})
	js.limits.Concurrent = 1
	run := func(context.Context, func(api.JobProgress)) (*api.JobResult, error) { return &api.JobResult{}, nil }
	first, fresh, err := js.submit(api.JobRequest{}, run, "ann\nk", []byte("{}"))
	if err != nil || !fresh {
		t.Fatal(err)
	}
	js.tasks.Wait()
	again, fresh, err := js.submit(api.JobRequest{}, run, "ann\nk", []byte("{}"))
	if err != nil || fresh || again.ID != first.ID {
		t.Errorf("%v, %v", again.ID, err)
	}
	_, _, err = js.submit(api.JobRequest{}, run, "ann\nk", []byte("{ }"))
	if status, _ := statusOf(err); status != http.StatusConflict {
		t.Errorf("another body: %v", err)
	}
	if other, fresh, err := js.submit(api.JobRequest{}, run, "bob\nk", []byte("{}")); err != nil || !fresh || other.ID == first.ID {
		t.Errorf("another client: %v", err)
	}
	js.tasks.Wait()
}

// devices opens the cores of this machine.
func devices(t *testing.T, which string) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(t.Context(), weft.Options{Devices: which, NoCalibrate: true, CacheDir: "off", Funcs: allFuncs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// A job goes from submission to its result, over HTTP, by the client.
func TestJob(t *testing.T) {
	rt := devices(t, "cpu")
	_, _, address := start(t, func(o *parts) {
		o.Runtime = rt
		o.Open = func(ctx context.Context, which string) (*weft.Runtime, error) {
			return weft.Open(ctx, weft.Options{Devices: which, NoCalibrate: true, CacheDir: "off", Funcs: allFuncs()})
		}
	})
	c, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, which := range []string{"", "cpu/2"} {
		j, err := c.Submit(ctx, api.JobRequest{Workload: "merkle", Parameters: map[string]any{"leaves": 5000}, Devices: which, Repeat: 2})
		if err != nil {
			t.Fatal(err)
		}
		seen := ""
		for e, err := range c.Watch(ctx, j.ID) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Job == nil || e.Job.ID != j.ID {
				t.Fatalf("an event of another: %+v", e)
			}
			if e.Job.State != seen {
				seen = e.Job.State
			}
		}
		if seen != api.JobSucceeded {
			t.Fatalf("it is %s", seen)
		}
		r, err := c.Result(ctx, j.ID)
		if err != nil || r.ID != j.ID || !r.Checked || len(r.Runs) != 2 || !strings.Contains(r.Job, "merkle") || which != "" && len(r.Devices) != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		if got, err := c.Job(ctx, j.ID); err != nil || got.State != api.JobSucceeded || got.Progress.Runs != 2 || got.Ended == nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if list, err := c.Jobs(ctx); err != nil || len(list) != 2 || list[0].Devices != "cpu/2" {
		t.Errorf("%+v, %v", list, err)
	}
	// One that runs for long is cancelled.
	j, err := c.Submit(ctx, api.JobRequest{Workload: "merkle", Parameters: map[string]any{"leaves": 5000}, Repeat: maxRepeat})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cancel(ctx, j.ID); err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Watch(ctx, j.ID) {
		if err != nil {
			t.Fatal(err)
		}
		j = *e.Job
	}
	if j.State != api.JobCancelled {
		t.Errorf("it is %s: %s", j.State, j.Error)
	}
	if _, err := c.Result(ctx, j.ID); err == nil || err.(*api.Error).Status != http.StatusConflict {
		t.Errorf("its result: %v", err)
	}
	// What a workload finds only when it draws its input is how its job ends.
	if j, err = c.Submit(ctx, api.JobRequest{Workload: "reservoir", Parameters: map[string]any{"neurons": 2, "connectivity": 1e-9}}); err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Watch(ctx, j.ID) {
		if err != nil {
			t.Fatal(err)
		}
		j = *e.Job
	}
	if j.State != api.JobFailed || !strings.Contains(j.Error, "have no cycle") {
		t.Errorf("it is %s: %s", j.State, j.Error)
	}
}

// entry returns a workload of the catalogue.
func entry(t *testing.T, name string) catalog.Entry {
	t.Helper()
	for _, w := range catalog.All() {
		if w.Name == name {
			return w
		}
	}
	t.Fatalf("no workload %s", name)
	return catalog.Entry{}
}

// A parameter that sets several gives way to those that it sets, however a map is gone through.
func TestParameterOrder(t *testing.T) {
	w := entry(t, "gemm")
	for range 100 {
		f, _ := w.Order()
		if err := setParameters(f, "gemm", map[string]any{"m": 3, "k": 4, "size": 5}); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{"m": 3, "k": 4, "n": 5} {
			if n := f.Lookup(name).String(); n != strconv.Itoa(want) {
				t.Fatalf("%s is %s, want %d", name, n, want)
			}
		}
	}
}

// The parameters of a job have so many bytes in all, however they are written, and no more.
func TestJobParameters(t *testing.T) {
	long := strings.Repeat("0", parameterBytes)
	for parameters, fits := range map[string]bool{
		`"connectivity":0.` + long[:parameterBytes-14]:                    true,
		`"connectivity":0.` + long[:parameterBytes-13]:                    false,
		`"a":"` + long[:parameterBytes-1] + `"`:                           true,
		`"a":"` + long + `"`:                                              false,
		`"` + long + `":true`:                                             false,
		`"a":"` + long[:parameterBytes/2] + `","b":"` + long[2050:] + `"`: true,
		`"a":"` + long[:parameterBytes/2] + `","b":"` + long[2040:] + `"`: false,
		`"a":"` + strings.Repeat(`\u0030`, parameterBytes-1) + `"`:        true,
		`"a":"` + strings.Repeat(`<`, orderBytes-100) + `"`:               false,
	} {
		q, err := readJob([]byte(`{"workload":"reservoir","parameters":{` + parameters + `}}`))
		if status, _ := statusOf(err); !fits && (status != 400 || !strings.Contains(err.Error(), "write shorter ones")) || fits && err != nil {
			t.Errorf("%.40s, %d bytes: %.200v", parameters, len(parameters), err)
		}
		if b, err := encodeJob(&job{Job: api.Job{JobRequest: q}}); fits && (err != nil || len(b) > 7*parameterBytes) {
			t.Errorf("%.40s: a record of %d bytes, %v", parameters, len(b), err)
		}
	}
}

func TestJobRefused(t *testing.T) {
	rt := devices(t, "cpu")
	h, _, _ := handlerOf(t, func(o *parts) { o.Runtime = rt })
	for body, want := range map[string]string{
		`{"workload":"gem"}`: "gemm",
		`{}`:                 "workload",
		`{"workload":"gemm","parameters":{"sise":3}}`:                        "unknown parameter",
		`{"workload":"gemm","parameters":{"m":"x"}}`:                         "parameter m",
		`{"workload":"gemm","parameters":{"m":[1]}}`:                         "expected a text",
		`{"workload":"gemm","parameters":{"m":0}}`:                           "gemm: 0 × 2048",
		`{"workload":"gemm","parameters":{"m":65537}}`:                       "sizes must be from 1 to 65536",
		`{"workload":"reduce","parameters":{"op":"median"}}`:                 "median",
		`{"workload":"merkle","parameters":{"mode":"tall"}}`:                 "tall",
		`{"workload":"reservoir","parameters":{"replicas":2}}`:               "it goes with --strategy",
		`{"workload":"fisher","parameters":{"shards":0}}`:                    "it must be at least 1",
		`{"workload":"enumerative","parameters":{"problem":"curves","k":3}}`: "curves have a --degree alone",
		`{"workload":"gemm","repeat":0}`:                                     "from 1",
		`{"workload":"gemm","repeat":1e9}`:                                   "from 1",
		`{"workload":"gemm","devices":"abacus"}`:                             "abacus",
		`{"workload":"gemm","check":1}`:                                      "true or false",
		`{"workload":"gemm","extra":1}`:                                      `no key "extra"`,
	} {
		w := ask(h, "POST", "/v1/jobs", body)
		if e := saidError(t, w); w.Code != 400 || !strings.Contains(e, want) {
			t.Errorf("%s: status %d, %s", body, w.Code, e)
		}
	}
	for _, path := range []string{"/v1/jobs/none", "/v1/jobs/none/result", "/v1/jobs/none/events"} {
		if w := ask(h, "GET", path, ""); w.Code != 404 {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	if w := ask(h, "POST", "/v1/jobs", `{"workload":"gemm"}`, "Idempotency-Key", strings.Repeat("k", 300)); w.Code != 400 {
		t.Errorf("a long key: status %d", w.Code)
	}
}

// No parameter that clients can set names a file of the server.
func TestJobFiles(t *testing.T) {
	for _, w := range catalog.All() {
		flags, _ := w.Order()
		file, _ := w.File()
		for _, p := range flags.All() {
			for _, word := range []string{"file", "path", "format", "folder"} {
				if p.Type() == "string" && strings.Contains(strings.ToLower(p.Name+" "+p.Usage), word) && p.Name != file {
					t.Errorf("%s --%s: %s: does it name a file?", w.Name, p.Name, p.Usage)
				}
			}
		}
	}
	h, _, _ := handlerOf(t, nil)
	w := ask(h, "GET", "/v1/workloads", "")
	var out struct{ Workloads []struct{ Name string } }
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || len(out.Workloads) != len(catalog.All())+1 || strings.Contains(w.Body.String(), "PDB") || !strings.Contains(w.Body.String(), "one of 1CRN, 1UBI, BPTI; another comes as structure_text") || strings.Contains(w.Body.String(), `"type":"func"`) {
		t.Errorf("%v: %s", err, w.Body)
	}
	w = ask(h, "POST", "/v1/jobs", `{"workload":"gemm","parameters":{"size":"abc"}}`)
	if said := saidError(t, w); w.Code != 400 || !strings.Contains(said, "is not of type int") {
		t.Errorf("status %d: %s", w.Code, said)
	}
}

// A server that ends says so, finishes what it has, and closes the service.
func TestDrain(t *testing.T) {
	s, f, address := start(t, nil)
	begun, release := make(chan struct{}), make(chan struct{})
	f.before = func(context.Context, *infer.Request) error {
		close(begun)
		<-release
		return nil
	}
	c, err := api.NewClient(address, api.Options{Attempts: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := c.Infer(context.Background(), &api.InferRequest{Model: "double", Inputs: []api.Tensor{api.NewTensor("x", []float32{1})}})
		answered <- err
	}()
	<-begun
	watching := make(chan struct{}, 1)
	go func() {
		for range c.Events(context.Background()) {
			break
		}
		watching <- struct{}{}
	}()
	drained := make(chan error, 1)
	go func() { drained <- s.drain(context.Background()) }()
	poll.True(t, "it is not ready", func() bool { return s.ready() != nil })
	poll.True(t, "no more connections are taken", func() bool {
		resp, err := http.Get(address + "/v2")
		if err == nil {
			resp.Body.Close()
		}
		return err != nil
	})
	select {
	case err := <-drained:
		t.Fatalf("it ended before its request: %v", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	<-watching // streams end too
	if !f.closed {
		t.Error("the service was not closed")
	}
}

// Requests that do not end are cut off at the limit.
func TestDrainLimit(t *testing.T) {
	s, f, address := start(t, nil)
	begun := make(chan struct{})
	f.before = func(ctx context.Context, _ *infer.Request) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Post(address+"/v2/models/double/infer", "application/json", strings.NewReader(doubled))
		if err == nil {
			resp.Body.Close()
		}
		answered <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.drain(ctx); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("%v", err)
	}
	if err := <-answered; err == nil {
		t.Error("it was answered")
	}
}
