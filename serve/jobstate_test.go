//go:build unix

package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/test/poll"
)

// kept returns jobs that are kept in a folder, with what they log.
func kept(t testing.TB, dir string, limits Jobs, plan func(*api.JobRequest) (task, error)) (*jobs, *time.Time, *bytes.Buffer) {
	t.Helper()
	js, at := table(limits)
	log := &bytes.Buffer{}
	js.log = slog.New(slog.NewTextHandler(log, nil))
	if plan == nil {
		plan = func(*api.JobRequest) (task, error) { return nil, errors.New("no plan") }
	}
	if err := js.restore(dir, plan); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { js.release() })
	return js, at, log
}

var roomy = Jobs{Concurrent: 1, Queue: 9, Keep: 10, KeepFor: Duration(time.Hour)}

// Ended jobs are the same after a restart, one that ran is interrupted, and those that waited run in
// their order. A second server is kept out meanwhile.
func TestStateRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	js, _, _ := kept(t, dir, roomy, nil)
	js.resume()
	add := func(js *jobs, name, key string, run task) api.Job {
		t.Helper()
		j, _, err := js.submit(api.JobRequest{Workload: name, Repeat: 1, Check: new(bool), Parameters: map[string]any{"n": json.Number("1000000")}}, run, key, []byte(name))
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	release := make(chan error)
	good := add(js, "good", "ann\n\xff", func(context.Context, func(api.JobProgress)) (*api.JobResult, error) {
		return &api.JobResult{Job: "a <b> & \u2028", Runs: []api.JobRun{{Seconds: 0.1}}}, nil
	})
	js.tasks.Wait()
	bad := add(js, "bad", "", func(context.Context, func(api.JobProgress)) (*api.JobResult, error) {
		return nil, errors.New("planted")
	})
	js.tasks.Wait()
	ran := add(js, "ran", "", gated(release))
	first, gone, second := add(js, "first", "", gated(release)), add(js, "gone", "", gated(release)), add(js, "second", "", gated(release))
	if _, err := js.stop(gone.ID); err != nil {
		t.Fatal(err)
	}
	other, _ := table(roomy)
	if err := other.restore(dir, nil); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("a second server: %v", err)
	}
	answer := func(js *jobs, id string) string {
		t.Helper()
		j, err := js.get(id)
		if err != nil {
			t.Fatal(err)
		}
		res, err := js.resultOf(id)
		text, bad := json.Marshal(j)
		if bad != nil {
			t.Fatal(bad)
		}
		return string(text) + string(res) + errorText(err)
	}
	before := map[string]string{}
	for _, id := range []string{good.ID, bad.ID, gone.ID} {
		before[id] = answer(js, id)
	}
	js.release() // as if it were killed: nothing is written any more
	var begun []string
	again, _, log := kept(t, dir, roomy, func(q *api.JobRequest) (task, error) {
		return func(context.Context, func(api.JobProgress)) (*api.JobResult, error) {
			begun = append(begun, q.Workload)
			return &api.JobResult{}, nil
		}, nil
	})
	for id, want := range before {
		if got := answer(again, id); got != want {
			t.Errorf("it was\n%s\nand is\n%s", want, got)
		}
	}
	if got := answer(again, ran.ID); !strings.Contains(got, `"interrupted","error":"the server ended`) {
		t.Errorf("the one that ran: %s", got)
	}
	if j, fresh, err := again.submit(api.JobRequest{}, nil, "ann\n\xff", []byte("good")); err != nil || fresh || j.ID != good.ID {
		t.Errorf("its key is forgotten: %v, %v", fresh, err)
	}
	if len(begun) > 0 {
		t.Error("jobs began before they should")
	}
	again.resume()
	again.tasks.Wait()
	if strings.Join(begun, " ") != "first second" {
		t.Errorf("%q ran", begun)
	}
	for _, id := range []string{first.ID, second.ID} {
		if j, err := again.get(id); err != nil || j.State != api.JobSucceeded || j.Parameters["n"] != json.Number("1000000") {
			t.Errorf("%+v, %v", j, err)
		}
	}
	if strings.Contains(log.String(), "skipped") {
		t.Error(log)
	}
	if err := again.close(t.Context(), patience); err != nil {
		t.Error(err)
	}
	close(release)
	js.tasks.Wait()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A server that ends in good order leaves jobs that wait, and interrupts one that does not end.
func TestStateDrained(t *testing.T) {
	dir := t.TempDir()
	js, _, _ := kept(t, dir, roomy, nil)
	js.resume()
	var ids []string
	for range 2 {
		j, _, err := js.submit(api.JobRequest{Workload: "w"}, gated(nil), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := js.close(ctx, patience); err != nil {
		t.Fatal(err)
	}
	again, _, _ := kept(t, dir, roomy, func(*api.JobRequest) (task, error) { return gated(nil), nil })
	for i, want := range []string{api.JobInterrupted, api.JobQueued} {
		if j, err := again.get(ids[i]); err != nil || j.State != want {
			t.Errorf("%s, %v, want %s", j.State, err, want)
		}
	}
	// What a server no longer has fails, with the reason.
	again.release()
	third, _, _ := kept(t, dir, roomy, func(*api.JobRequest) (task, error) { return nil, errors.New("planted") })
	if j, err := third.get(ids[1]); err != nil || j.State != api.JobFailed || !strings.Contains(j.Error, "planted") {
		t.Errorf("%+v, %v", j, err)
	}
}

// filled is a folder with a job that succeeded, and its file.
func filled(t testing.TB) (dir, id string, file []byte) {
	dir = t.TempDir()
	js, _, _ := kept(t, dir, roomy, nil)
	js.resume()
	j, _, err := js.submit(api.JobRequest{Workload: "w", Parameters: map[string]any{"a": "b"}}, func(context.Context, func(api.JobProgress)) (*api.JobResult, error) {
		return &api.JobResult{Job: "w", Runs: []api.JobRun{}}, nil
	}, "key", nil)
	if err != nil {
		t.Fatal(err)
	}
	js.tasks.Wait()
	js.release()
	if file, err = os.ReadFile(filepath.Join(dir, "job-"+j.ID)); err != nil {
		t.Fatal(err)
	}
	return dir, j.ID, file
}

// A file that is cut short anywhere, or has another bit anywhere, is no job.
func TestStateDamaged(t *testing.T) {
	_, id, file := filled(t)
	if _, err := decodeJob(id, file); err != nil {
		t.Fatal(err)
	}
	for n := range file {
		if _, err := decodeJob(id, file[:n]); err == nil {
			t.Fatalf("cut after %d bytes it is a job", n)
		}
		for bit := range 8 {
			b := bytes.Clone(file)
			b[n] ^= 1 << bit
			if _, err := decodeJob(id, b); err == nil {
				t.Fatalf("with another bit in byte %d it is a job", n)
			}
		}
	}
}

// What is in the folder and is no job of this server is skipped, with a line for each, and stays.
func TestStateForeign(t *testing.T) {
	dir, id, file := filled(t)
	name := func(c string) string { return filepath.Join(dir, "job-"+strings.Repeat(c, 26)) }
	put := func(path string, b []byte, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, b, mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	put(name("a"), nil, 0o600)
	put(name("b"), file, 0o600)     // of another job
	put(name("c"), file[:9], 0o600) // cut short
	put(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600)
	put(filepath.Join(dir, "job-.."), file, 0o600)
	put(name("d"), bytes.ReplaceAll(file, []byte(id), []byte(strings.Repeat("d", 26))), 0o666)
	if err := errors.Join(os.Symlink(filepath.Join(dir, "job-"+id), name("e")), syscall.Mkfifo(name("f"), 0o600), os.Mkdir(name("g"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Create(name("h")); err != nil || f.Truncate(maxRecord+1) != nil || f.Close() != nil {
		t.Fatal("a large file")
	}
	put(filepath.Join(dir, "job-123.tmp"), file[:50], 0o600) // a write that was cut off
	js, _, log := kept(t, dir, roomy, nil)
	if n := strings.Count(log.String(), "skipped"); n != 10 || len(js.list()) != 1 || js.list()[0].ID != id {
		t.Errorf("%d lines, jobs %v:\n%s", n, js.list(), log)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 12 { // with the job and the lock, and without the write
		t.Errorf("%v, %v", entries, err)
	}
}

// A folder that others can write, or that cannot be one, is refused.
func TestStateFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	js, _ := table(roomy)
	if err := js.restore(dir, nil); err == nil || !strings.Contains(err.Error(), "nobody else") {
		t.Errorf("others may write: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := js.restore(file, nil); err == nil || !strings.Contains(err.Error(), "state:") {
		t.Errorf("a file: %v", err)
	}
}

// Limits of number, size and age hold for files too, now and after a restart.
func TestStateRetention(t *testing.T) {
	dir := t.TempDir()
	files := func() int {
		list, err := filepath.Glob(filepath.Join(dir, "job-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	limits := roomy
	limits.Keep = 5
	js, _, _ := kept(t, dir, limits, nil)
	js.resume()
	long := strings.Repeat("x", 1000)
	for range 8 {
		if _, _, err := js.submit(api.JobRequest{Workload: "w"}, func(context.Context, func(api.JobProgress)) (*api.JobResult, error) {
			return &api.JobResult{Job: long}, nil
		}, "", nil); err != nil {
			t.Fatal(err)
		}
		js.tasks.Wait()
	}
	if n := files(); n != 5 || len(js.list()) != 5 {
		t.Errorf("%d files and %d jobs of 5", n, len(js.list()))
	}
	newest := js.list()[0].ID
	js.release()
	limits.KeepBytes = 3500 // two jobs, and not three
	js, at, _ := kept(t, dir, limits, nil)
	if n := files(); n != 2 || len(js.list()) != 2 || js.list()[0].ID != newest {
		t.Errorf("%d files and %d jobs in 3500 bytes", n, len(js.list()))
	}
	*at = at.Add(2 * time.Hour)
	if js.list(); files() != 0 {
		t.Errorf("%d files are kept for ever", files())
	}
}

// unwritable makes a state folder one that its server cannot write to, until the function is called
// that it returns.
func unwritable(t *testing.T, dir string) (heal func()) {
	t.Helper()
	lock := filepath.Join(dir, lockFile)
	if err := os.Rename(lock, dir+"-lock"); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Rename(dir+"-lock", lock); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that cannot write takes no jobs, cancels none that waits and begins none; and does when it can.
// The end of one that ran is told, with that it is not kept. Whatever was told holds after a restart.
func TestStateUnwritable(t *testing.T) {
	for _, restart := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "state")
		js, _, log := kept(t, dir, roomy, nil)
		js.resume()
		release := make(chan error)
		end := func() {
			t.Helper()
			select {
			case release <- nil:
			case <-time.After(patience):
				t.Fatalf("no job runs, restart %v", restart)
			}
		}
		var ids []string
		add := func(n int) error {
			j, _, err := js.submit(api.JobRequest{Workload: strconv.Itoa(n)}, gated(release), "", nil)
			ids = append(ids, j.ID)
			return err
		}
		for n := range 4 {
			if err := add(n); err != nil {
				t.Fatal(err)
			}
		}
		if j, err := js.stop(ids[1]); err != nil || j.State != api.JobCancelled {
			t.Fatalf("%+v, %v", j, err)
		}
		heal := unwritable(t, dir)
		err := add(4)
		if status, after := statusOf(err); status != 503 || after == 0 || len(js.list()) != 4 {
			t.Errorf("%v, %d jobs", err, len(js.list()))
		}
		_, err = js.stop(ids[2])
		if status, after := statusOf(err); status != 503 || after == 0 {
			t.Errorf("a job that waits is cancelled: %v", err)
		}
		end()
		poll.True(t, "the first ends", func() bool { j, err := js.get(ids[0]); return err == nil && j.Over() })
		poll.True(t, "it is tried again", func() bool {
			js.mu.Lock()
			defer js.mu.Unlock()
			return js.later != nil
		})
		js.mu.Lock()
		js.next() // as when it is tried again
		said := log.String()
		js.mu.Unlock()
		if strings.Count(said, "no job can be begun") != 1 || !strings.Contains(said, "the end of a job could not be written") {
			t.Error(said)
		}
		if j, err := js.get(ids[0]); err != nil || j.State != api.JobSucceeded || !strings.Contains(j.Error, "started again the job is interrupted") {
			t.Errorf("a job whose end is not kept: %+v, %v", j, err)
		}
		for _, id := range ids[2:4] {
			if j, err := js.get(id); err != nil || j.State != api.JobQueued || j.Started != nil || j.Error != "" {
				t.Errorf("a job that waits: %+v, %v", j, err)
			}
		}
		heal()
		first := api.JobSucceeded
		if restart {
			js.release()
			js, _, _ = kept(t, dir, roomy, func(*api.JobRequest) (task, error) { return gated(release), nil })
			js.resume()
			first = api.JobInterrupted
		}
		end() // the third runs, and the fourth
		end()
		js.tasks.Wait()
		for i, want := range []string{first, api.JobCancelled, api.JobSucceeded, api.JobSucceeded} {
			if j, err := js.get(ids[i]); err != nil || j.State != want {
				t.Errorf("restart %v, job %d: %s, %v; want %s", restart, i, j.State, err, want)
			}
		}
	}
}

// A job that cannot be planned after a restart is told as failed once that is kept, and not before.
func TestStateUnplanned(t *testing.T) {
	dir := t.TempDir()
	js, _, _ := kept(t, dir, roomy, nil)
	js.closed, js.running = false, 1 // so that it waits
	j, _, err := js.submit(api.JobRequest{Workload: "w"}, gated(nil), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	js.release()
	var heal func()
	again, _, _ := kept(t, dir, roomy, func(*api.JobRequest) (task, error) {
		heal = unwritable(t, dir)
		return nil, errors.New("planted")
	})
	if j, err := again.get(j.ID); err != nil || j.State != api.JobQueued {
		t.Errorf("%+v, %v", j, err)
	}
	again.resume()
	heal()
	poll.True(t, "it fails", func() bool {
		j, err := again.get(j.ID)
		return err == nil && j.State == api.JobFailed && strings.Contains(j.Error, "planted")
	})
	again.tasks.Wait()
}

// A state folder that is removed under a server is not made again, and another server that makes one
// there has it for itself.
func TestStateRemoved(t *testing.T) {
	for what, take := range map[string]func(dir string) error{
		"the folder":      os.RemoveAll,
		"what is in it":   func(dir string) error { return os.Remove(filepath.Join(dir, lockFile)) },
		"it is elsewhere": func(dir string) error { return os.Rename(dir, dir+"2") },
	} {
		dir := filepath.Join(t.TempDir(), "state")
		js, _, _ := kept(t, dir, roomy, nil)
		js.resume()
		if err := take(dir); err != nil {
			t.Fatal(err)
		}
		_, _, err := js.submit(api.JobRequest{Workload: "first"}, gated(nil), "", nil)
		if status, _ := statusOf(err); what != "it is elsewhere" && status != 503 {
			t.Errorf("%s: %v", what, err)
		}
		other, _, _ := kept(t, dir, roomy, nil)
		if n := len(other.list()); n != 0 {
			t.Errorf("%s: another server has %d of its jobs", what, n)
		}
		if what != "it is elsewhere" {
			if _, _, err = js.submit(api.JobRequest{Workload: "first"}, gated(nil), "", nil); err == nil {
				t.Errorf("%s: a job was taken although another server has the folder", what)
			}
		}
		if files, err := filepath.Glob(filepath.Join(dir, "job-*")); err != nil || len(files) > 0 {
			t.Errorf("%s: %v, %v", what, files, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := js.close(ctx, patience); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Whatever a file holds, with a right checksum, it is refused or a job that survives being written.
func FuzzJobFile(f *testing.F) {
	const id = "abcdefghijklmnopqrstuvwxyz"
	hash := strings.Repeat("A", 43) + "="
	body := `{"id":"` + id + `","number":3,"state":"succeeded","created":"2026-01-01T00:00:00Z","started":"2026-01-01T00:00:01Z","ended":"2026-01-01T00:00:02Z",` +
		`"progress":{"runs":1,"part":0},"key":"a2V5","hash":"` + hash + `","request":{"workload":"w","parameters":{"a":"b","n":1e3},"repeat":1,"check":true},"result":{"id":"` + id + `","job":"w","runs":[]}}`
	f.Add([]byte(body))
	for _, state := range []string{"queued", "running", "cancelled", "interrupted", "failed"} {
		f.Add([]byte(strings.Replace(body, "succeeded", state, 1)))
	}
	f.Add([]byte(`{"id":"` + id + `","state":"queued","created":"2026-01-01T00:00:00Z","hash":"` + hash + `","request":{"workload":"w"},"progress":{}}`))
	decode := func(body []byte) (*job, error) {
		sum := sha256.Sum256(body)
		return decodeJob(id, []byte(recordMagic+hex.EncodeToString(sum[:])+"\n"+string(body)))
	}
	if _, err := decode([]byte(body)); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		j, err := decode(body)
		if err != nil {
			return
		}
		if j.Over() != (j.Ended != nil) || j.Check == nil || j.Repeat < 1 || j.Repeat > maxRepeat {
			t.Fatalf("%+v", j)
		}
		out, err := encodeJob(j)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeJob(id, out)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if twice, err := encodeJob(again); err != nil || !bytes.Equal(out, twice) {
			t.Errorf("%s\n%s\n%v", out, twice, err)
		}
	})
}
