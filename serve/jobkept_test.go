package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/checkpoint/disk"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// keptJob is a job of many short tasks, without its check, which takes longer than they do.
const keptJob = `{"workload":"automata","parameters":{"rows":512,"cols":512,"steps":5000,"k":10,"rule":"B2/S"},"check":false}`

// goFile is a file in the folder of a server that has its kernels run on.
const goFile = "go"

// holdKernels has kernels of the job wait, once its checkpoint has more than when the process began, until goFile is there or
// their result is not wanted. So a job cannot end before the test has seen it, however long that takes.
func holdKernels(dir, kept string, funcs map[string]weft.Func) {
	k := checkpoints{dir: kept}
	done := func() (sum int64) {
		names, _ := disk.Folders(kept) // none where there are none yet
		for _, name := range names {
			n, _ := k.newest(name)
			sum += n
		}
		return sum
	}
	first := done()
	for name, run := range funcs {
		if !strings.HasPrefix(name, "automata.") {
			continue
		}
		funcs[name] = func(c *driver.Call, lo, hi int) {
			for lo == 0 && !c.Stopped() {
				if _, err := os.Stat(filepath.Join(dir, goFile)); err == nil {
					break
				}
				time.Sleep(time.Millisecond) // between two looks at the disk
				if done() <= first {
					break
				}
			}
			run(c, lo, hi)
		}
	}
}

// of asks for a job, or its result.
func (k *killing) of(path string, v any) int {
	k.t.Helper()
	status, b, err := k.ask("GET", path, "", "")
	if err != nil {
		k.t.Fatal(err)
	}
	if status == 200 {
		if err := json.Unmarshal([]byte(b), v); err != nil {
			k.t.Fatalf("%v: %s", err, b)
		}
	}
	return status
}

// begin submits the job.
func (k *killing) begin(key string) (j api.Job) {
	k.t.Helper()
	status, b, err := k.ask("POST", "/v1/jobs", key, keptJob)
	if err != nil || status != 201 {
		k.t.Fatalf("status %d: %s %v", status, b, err)
	}
	if err := json.Unmarshal([]byte(b), &j); err != nil {
		k.t.Fatal(err)
	}
	return j
}

// A job goes on from its newest checkpoint when the server is started again after it was killed or told to end, which it
// says, with the result of one that was never interrupted. Nothing is left of its checkpoints, nor of those of a job
// that was cancelled.
func TestJobKept(t *testing.T) {
	t.Setenv(keptState, "1")
	dir, err := os.MkdirTemp("", "w") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	k := &killing{t: t, dir: dir}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "s"))
	}}
	k.client = &http.Client{Transport: transport, Timeout: patience}
	defer transport.CloseIdleConnections()
	answers := func() bool { _, _, err := k.ask("GET", "/healthz", "", ""); return err == nil }
	kept := checkpoints{dir: filepath.Join(dir, "state", checkpointsFolder)}

	c := k.start()
	poll.True(t, "it answers", answers)
	j := k.begin("one")
	from := int64(0)
	for _, how := range []os.Signal{os.Kill, syscall.SIGTERM} {
		poll.True(t, "a checkpoint with more than the last", func() bool { done, _ := kept.newest(j.ID); return done > from })
		k.end(c, how)
		transport.CloseIdleConnections()
		c = k.start()
		poll.True(t, "it answers", answers)
		var now api.Job
		if k.of("/v1/jobs/"+j.ID, &now); now.Resumed == nil || now.Resumed.From <= from || now.Resumed.Of <= now.Resumed.From || now.State == api.JobInterrupted || now.State == api.JobFailed {
			t.Fatalf("after %v from %d: %+v, %+v", how, from, now, now.Resumed)
		}
		from = now.Resumed.From
	}
	result := func(id string) (r api.JobResult) {
		poll.True(t, "the job has ended", func() bool { var now api.Job; k.of("/v1/jobs/"+id, &now); return now.Over() })
		if status := k.of("/v1/jobs/"+id+"/result", &r); status != 200 {
			var now api.Job
			k.of("/v1/jobs/"+id, &now)
			t.Fatalf("%+v", now)
		}
		return r
	}
	gate := filepath.Join(dir, goFile)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	resumed, whole := result(j.ID), result(k.begin("two").ID)
	if resumed.Result != whole.Result || resumed.Runs[0].Rate != "-" || resumed.Tasks != whole.Tasks {
		t.Errorf("it went on to %+v, and at once there is %+v", resumed, whole)
	}
	k.end(c, syscall.SIGTERM) // whose checkpoints are gone for the next one
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	transport.CloseIdleConnections()
	c = k.start()
	poll.True(t, "it answers", answers)
	third := k.begin("three")
	poll.True(t, "a checkpoint", func() bool { done, _ := kept.newest(third.ID); return done > 0 })
	if status, b, err := k.ask("DELETE", "/v1/jobs/"+third.ID, "", ""); status != 200 || err != nil {
		t.Fatalf("status %d: %s %v", status, b, err)
	}
	poll.True(t, "all checkpoints are gone", func() bool {
		names, err := os.ReadDir(kept.dir)
		return err == nil && len(names) == 1 // the lock
	})
	k.end(c, syscall.SIGTERM)
}

// A job whose checkpoint has no more than that which it went on from last is not run again, nor one whose checkpoint
// cannot be read.
func TestJobNotKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	js, _, _ := kept(t, dir, roomy, nil)
	js.resume()
	begun, release := make(chan struct{}), make(chan struct{})
	j, _, err := js.submit(api.JobRequest{Workload: "w", Repeat: 1, Check: new(bool)}, func(context.Context, func(api.JobProgress)) (*api.JobResult, error) {
		close(begun)
		<-release
		return nil, context.Canceled
	}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := js.state.close(); err != nil { // the server is killed
		t.Fatal(err)
	}
	js.released = true
	defer js.tasks.Wait()
	defer close(release)
	again, _ := table(roomy)
	again.kept = checkpoints{dir: filepath.Join(dir, checkpointsFolder), log: again.log}
	if err := os.MkdirAll(filepath.Join(again.kept.dir, j.ID), 0o700); err != nil {
		t.Fatal(err)
	}
	if done, total := again.kept.newest(j.ID); done != 0 || total != 0 {
		t.Errorf("a checkpoint of %d of %d", done, total)
	}
	if err := again.restore(dir, func(*api.JobRequest) (task, error) { t.Error("it is planned"); return nil, nil }); err != nil {
		t.Fatal(err)
	}
	defer again.release()
	now, err := again.get(j.ID)
	if err != nil || now.State != api.JobInterrupted || now.Resumed != nil {
		t.Errorf("%+v, %v", now, err)
	}
	if names, err := os.ReadDir(again.kept.dir); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// The end of a job removes its own checkpoints, which others have none taken for, and its name may be used again.
func TestJobKeptAlone(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var told []weft.Saved
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Checkpoint: weft.Checkpoint{Dir: dir, Every: -1, Saved: func(s weft.Saved) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, s)
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	steps := func(name string, step func(i int)) error {
		return rt.Steps(t.Context(), weft.Keep{Name: name}, 2, []weft.Binding{weft.Bind("x", []int{1})}, func(_ context.Context, i int) error { step(i); return nil })
	}
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- steps("other", func(i int) {
			if i == 0 {
				close(begun)
				<-release
			}
		})
	}()
	<-begun
	k := checkpoints{dir, rt, slog.New(slog.DiscardHandler)}
	for range 2 {
		if err := steps("job", func(int) {}); err != nil {
			t.Fatal(err)
		}
		k.remove("job", true)
		if _, err := os.Stat(filepath.Join(dir, "job")); !os.IsNotExist(err) {
			t.Errorf("its folder: %v", err)
		}
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	k.remove("other", true) // once its last checkpoint is written
	mu.Lock()
	defer mu.Unlock()
	for _, s := range told {
		if !s.Finished || s.Err != nil {
			t.Errorf("%+v", s)
		}
	}
	if len(told) != 3 {
		t.Errorf("%d checkpoints", len(told))
	}
}

// counted counts how often the graph of a job is built.
type counted struct {
	workload.Job
	graphs *int
}

func (c counted) Graph(r []sched.Range) (*graph.Graph, error) {
	*c.graphs++
	return c.Job.Graph(r)
}

// A job is planned once, whether it takes long and is kept or not.
func TestJobKeptPlan(t *testing.T) {
	after := keepAfter
	defer func() { keepAfter = after }()
	dir := t.TempDir()
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: allFuncs(), Checkpoint: weft.Checkpoint{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for i, least := range []time.Duration{time.Hour, 0} {
		keepAfter = least
		w := entry(t, "automata")
		flags, order := w.Order()
		if err := setParameters(flags, w.Name, map[string]any{"rows": 64, "cols": 64, "steps": 8}); err != nil {
			t.Fatal(err)
		}
		job, err := order.Make(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, name := 0, fmt.Sprint("job", i)
		if _, _, err := runKept(t.Context(), rt, counted{job, &n}, keptAs{name, false}, nil, func(workload.Job, *graph.Graph, *weft.Prediction) {}); err != nil {
			t.Fatal(err)
		}
		_, err = os.Stat(filepath.Join(dir, name))
		if n != 1 || (err == nil) != (least == 0) {
			t.Errorf("least %v: %d graphs were built; its folder: %v", least, n, err)
		}
		if err := job.Check(); err != nil {
			t.Error(err)
		}
	}
}

// Only what is predicted to take long is kept, and no job that cannot be: what takes a moment is run as it is.
func TestKeptOf(t *testing.T) {
	s := &Server{}
	ctx := context.WithValue(t.Context(), keptKey{}, keptAs{"j", true})
	for _, c := range []struct {
		q    api.JobRequest
		want string
	}{
		{api.JobRequest{Repeat: 1}, "j"}, {api.JobRequest{Repeat: 2}, ""}, {api.JobRequest{Repeat: 1, Devices: "cpu/2"}, ""},
	} {
		if as := s.keptOf(ctx, c.q); as.name != c.want || as.resumed != (c.want != "") {
			t.Errorf("%+v: %+v", c.q, as)
		}
	}
	if as := s.keptOf(t.Context(), api.JobRequest{Repeat: 1}); as.name != "" {
		t.Errorf("%+v", as)
	}
	if keepAfter < time.Second {
		t.Error("short jobs are kept")
	}
}
