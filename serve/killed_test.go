package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/test/poll"
)

// servedState names the folder in which the test binary is a server.
const servedState = "WEFT_TEST_STATE"

// keptState has that server keep all jobs in checkpoints.
const keptState = "WEFT_TEST_KEPT"

// serveState is a server with a state folder, and ends the process.
func serveState(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := DefaultConfig()
	c.Listen, c.State, c.Jobs.Queue, c.Jobs.Keep = "unix:"+filepath.Join(dir, "s"), filepath.Join(dir, "state"), 1000, 1000
	o := weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: allFuncs()}
	if os.Getenv(keptState) != "" {
		o.Checkpoint, keepAfter = c.checkpoint(), 0
		holdKernels(dir, o.Checkpoint.Dir, o.Funcs)
		o.Checkpoint.Every = 10 * time.Millisecond
	}
	rt, err := weft.Open(ctx, o)
	fail(err)
	s, err := newServer(parts{Config: c, Service: newFake(), Workloads: catalog.All(), Runtime: rt, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	fail(err)
	fail(s.take())
	go func() { fail(s.accept()) }()
	<-ctx.Done()
	ended, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	fail(s.drain(ended))
	rt.Close()
	os.Exit(0)
}

// killing is a server that is killed again and again, and what it said.
type killing struct {
	t      *testing.T
	dir    string
	client *http.Client
	keys   map[string]string // of submissions, with the job's id once it was told
	last   map[string]api.Job
	result map[string]string
}

func (k *killing) start() *exec.Cmd {
	k.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), servedState+"="+k.dir)
	out := &bytes.Buffer{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if k.t.Failed() {
			k.t.Log(out)
		}
	})
	return c
}

// ask makes a request; it fails when the server has gone.
func (k *killing) ask(method, path, key, body string) (int, string, error) {
	r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := k.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// submit submits what was not answered before, and a new job.
func (k *killing) submit(fresh string) error {
	k.keys[fresh] = ""
	for key, id := range k.keys {
		if id != "" {
			continue
		}
		status, b, err := k.ask("POST", "/v1/jobs", key, `{"workload":"merkle","parameters":{"leaves":`+key+`}}`)
		if err != nil {
			return err
		}
		if status == http.StatusServiceUnavailable {
			return io.EOF // it is ending
		}
		var j api.Job
		if err := json.Unmarshal([]byte(b), &j); err != nil || status/100 != 2 || j.ID == "" {
			k.t.Fatalf("status %d: %s", status, b)
		}
		k.keys[key], k.last[j.ID] = j.ID, j
	}
	return nil
}

// look compares what the server says of every job with what it said before. again is whether it was
// started since.
func (k *killing) look(again bool) (over bool, err error) {
	status, b, err := k.ask("GET", "/v1/jobs", "", "")
	if err != nil || status != 200 {
		return false, err
	}
	var list struct{ Jobs []api.Job }
	if err := json.Unmarshal([]byte(b), &list); err != nil {
		k.t.Fatal(err)
	}
	now, names := map[string]api.Job{}, map[string]bool{}
	over = true
	for _, j := range list.Jobs {
		now[j.ID] = j
		if name := fmt.Sprint(j.Parameters["leaves"]); names[name] {
			k.t.Fatalf("two jobs of %s: %s", name, b)
		} else {
			names[name] = true
		}
	}
	for id, was := range k.last {
		is, ok := now[id]
		switch {
		case !ok:
			k.t.Fatalf("job %s was told of and is lost", id)
		case was.Over() && (is.State != was.State || is.Error != was.Error || !is.Ended.Equal(*was.Ended)):
			k.t.Fatalf("job %s had ended and changed: %+v, %+v", id, was, is)
		case was.Started != nil && (is.Started == nil || !is.Started.Equal(*was.Started)):
			k.t.Fatalf("job %s was started twice: %+v, %+v", id, was, is)
		case was.State == api.JobRunning && again && !is.Over():
			k.t.Fatalf("job %s ran and is %s after a restart", id, is.State)
		case is.State == api.JobFailed:
			k.t.Fatalf("job %s failed: %s", id, is.Error)
		}
		k.last[id] = is
		if over = over && is.Over(); is.State != api.JobSucceeded {
			continue
		}
		status, res, err := k.ask("GET", "/v1/jobs/"+id+"/result", "", "")
		if err != nil {
			return false, err
		}
		if had := k.result[id]; status != 200 || had != "" && had != res {
			k.t.Fatalf("status %d, the result was %s and is %s", status, had, res)
		}
		k.result[id] = res
	}
	return over, nil
}

// A server that is killed at any moment loses no job that it told of, runs none twice, and has the
// same results.
func TestStateKilled(t *testing.T) {
	seed := uint64(1)
	if s := os.Getenv("WEFT_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir, err := os.MkdirTemp("", "w") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	k := &killing{t: t, dir: dir, keys: map[string]string{}, last: map[string]api.Job{}, result: map[string]string{}}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "s"))
	}}
	k.client = &http.Client{Transport: transport, Timeout: patience}
	defer transport.CloseIdleConnections()
	rounds := 12
	if testing.Short() {
		rounds = 5
	}
	for round := range rounds + 1 {
		c := k.start()
		if round < rounds && rnd.IntN(4) == 0 { // before it is ready, perhaps
			time.Sleep(time.Duration(rnd.IntN(80)) * time.Millisecond)
			k.end(c, os.Kill)
			continue
		}
		poll.True(t, "it answers", func() bool { _, _, err := k.ask("GET", "/healthz", "", ""); return err == nil })
		if _, err := k.look(true); err != nil {
			t.Fatal(err)
		}
		if round == rounds {
			if err := k.submit("999"); err != nil { // on a slow machine the others may all have been struck
				t.Fatal(err)
			}
			poll.True(t, "all jobs have ended", func() bool {
				over, err := k.look(false)
				if err != nil {
					t.Fatal(err)
				}
				return over
			})
			k.end(c, syscall.SIGTERM)
			break
		}
		how := os.Signal(os.Kill)
		if rnd.IntN(3) == 0 {
			how = syscall.SIGTERM
		}
		killed := make(chan struct{})
		after := time.Duration(rnd.IntN(60)) * time.Millisecond
		go func() {
			defer close(killed)
			time.Sleep(after) // wherever that finds the server
			_ = c.Process.Signal(how)
		}()
		for i := 0; ; i++ {
			if err := k.submit(fmt.Sprint(1000 + 100*round + i)); err != nil {
				break
			}
			if _, err := k.look(false); err != nil {
				break
			}
		}
		<-killed
		_ = c.Wait() // by a signal, or with 1 where a job was cut off
		transport.CloseIdleConnections()
	}
	states := map[string]int{}
	for _, j := range k.last {
		states[j.State]++
	}
	t.Logf("seed %d: %v", seed, states)
	if states[api.JobSucceeded] == 0 {
		t.Error("none succeeded")
	}
}

// end ends a server.
func (k *killing) end(c *exec.Cmd, by os.Signal) {
	k.t.Helper()
	if err := c.Process.Signal(by); err != nil {
		k.t.Fatal(err)
	}
	if err := c.Wait(); by == syscall.SIGTERM && err != nil {
		k.t.Error(err)
	}
}
