//go:build linux || darwin

package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-run/weft/internal/test/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long ends a test that hangs, and nothing else.
const long = time.Minute

// fixed is a source that shows the same frame again and again.
type fixed struct {
	frame  Frame
	frames atomic.Int64
	closed atomic.Int64
}

func (f *fixed) Frame() *Frame {
	f.frames.Add(1)
	frame := f.frame
	return &frame
}

func (f *fixed) Close() { f.closed.Add(1) }

// private700 returns an empty folder that only this user can enter, with a short name.
func private700(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serve starts a server that was changed before.
func serve(t *testing.T, path string, f *fixed, change ...func(*Server)) *Server {
	t.Helper()
	l, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(l, func() Source { return f }, slog.New(slog.DiscardHandler))
	for _, c := range change {
		c(s)
	}
	s.all.Go(s.accept)
	t.Cleanup(s.Close)
	return s
}

func dial(t *testing.T, s *Server) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	t.Cleanup(cancel)
	c, err := Dial(ctx, s.Path(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// What a runtime shows reaches a client, frame by frame, until the runtime is closed.
func TestFrames(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", private700(t))
	f := &fixed{frame: Frame{PID: 7, Devices: []Device{{Name: "cpu", Values: []Value{{Name: "memory", Unit: "B", V: 1, Of: 2}}}}}}
	s := serve(t, "", f)
	if want := filepath.Join(Dir(), fmt.Sprint(os.Getpid(), ".sock")); s.Path() != want {
		t.Errorf("listens at %s, want %s", s.Path(), want)
	}
	if got := Sockets(); len(got) != 1 || got[0].Path != s.Path() || got[0].PID != os.Getpid() {
		t.Errorf("sockets %v", got)
	}
	c := dial(t, s)
	for range 3 {
		got, err := c.Next()
		if err != nil || got.PID != 7 || got.Devices[0].Values[0].Of != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	s.Close()
	for err := error(nil); !errors.Is(err, io.EOF); _, err = c.Next() {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(s.Path()); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if f.closed.Load() != 1 {
		t.Errorf("the source was closed %d times", f.closed.Load())
	}
	s.Close() // again
}

// Only its user can reach a socket: by its mode, and by the folder it is in.
func TestSocketMode(t *testing.T) {
	dir := private700(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	s := serve(t, "", &fixed{})
	for path, want := range map[string]os.FileMode{s.Path(): 0o600, filepath.Dir(s.Path()): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
	// A folder that others can enter is refused, whether it was made so or is the default.
	for _, mode := range []os.FileMode{0o750, 0o701, 0o770} {
		open := filepath.Join(dir, fmt.Sprintf("open%o", mode))
		if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, mode)); err != nil {
			t.Fatal(err)
		}
		if s, err := Serve(filepath.Join(open, "a.sock"), nil, nil); err == nil {
			s.Close()
			t.Errorf("it listens in a folder of mode %o", mode)
		}
		runtime := filepath.Join(open, "weft")
		if err := errors.Join(os.Mkdir(runtime, 0o700), os.Chmod(runtime, mode)); err != nil {
			t.Fatal(err)
		}
		t.Setenv("XDG_RUNTIME_DIR", open)
		if s, err := Serve("", nil, nil); err == nil {
			s.Close()
			t.Errorf("it listens in a runtime folder of mode %o", mode)
		}
	}
}

// A process of another user is refused, whatever the mode of the socket.
func TestOtherUser(t *testing.T) {
	s := serve(t, filepath.Join(private700(t), "a.sock"), &fixed{}, func(s *Server) { s.uid++ }) // this process is another user's
	c := dial(t, s)
	if f, err := c.Next(); err == nil || !strings.Contains(err.Error(), "may not attach") {
		t.Errorf("%+v, %v", f, err)
	}
}

// A client that does not read is dropped, and holds up neither others nor Close.
func TestSlowClient(t *testing.T) {
	f := &fixed{frame: Frame{Events: make([]Event, maxList)}}
	for i := range f.frame.Events {
		f.frame.Events[i].Text = strings.Repeat("x", 400)
	}
	s := serve(t, filepath.Join(private700(t), "a.sock"), f, func(s *Server) { s.wait = 10 * time.Millisecond })
	dial(t, s) // and does not read
	poll.True(t, "dropped", func() bool { return f.closed.Load() == 1 })
	if n := f.frames.Load(); n > 10 {
		t.Errorf("%d frames were made for it", n)
	}
}

// There is a limit to clients at a time.
func TestClients(t *testing.T) {
	s := serve(t, filepath.Join(private700(t), "a.sock"), &fixed{})
	for range maxClients {
		if _, err := dial(t, s).Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dial(t, s).Next(); err == nil || !strings.Contains(err.Error(), "the most") {
		t.Errorf("one more: %v", err)
	}
}

// Whatever a client sends, it is answered by one line or by the end.
func TestBadRequests(t *testing.T) {
	s := serve(t, filepath.Join(private700(t), "a.sock"), &fixed{})
	for _, q := range []string{"\n", "{}\n", `{"weft":2}` + "\n", "GET / HTTP/1.1\r\n", strings.Repeat("x", 1<<16), "[1,2\n", `{"weft":1,"every_ms":1e99}` + "\n"} {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.Path(), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(long))
		c.Write([]byte(q)) // it may be refused before all is sent
		answer, _ := newReader(c, maxFrame).frame()
		if answer == nil || answer.Error == "" {
			t.Errorf("%.20q is answered by %+v", q, answer)
		}
		c.Close()
	}
}

// A socket whose process was killed is removed by the next that listens there.
func TestStale(t *testing.T) {
	dir := private700(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	leave := func(path string) string {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		return path
	}
	if err := os.Mkdir(Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	gone := leave(filepath.Join(Dir(), fmt.Sprint(cmd.Process.Pid, suffix)))
	mine := leave(filepath.Join(Dir(), fmt.Sprint(os.Getpid(), suffix))) // of a process with this number before
	other := filepath.Join(Dir(), fmt.Sprint(cmd.Process.Pid, "-1", suffix))
	if err := os.WriteFile(other, nil, 0o600); err != nil { // no socket
		t.Fatal(err)
	}
	s := serve(t, "", &fixed{})
	if _, err := os.Lstat(gone); !os.IsNotExist(err) {
		t.Errorf("a socket was left: %v", err)
	}
	if _, err := os.Lstat(other); err != nil {
		t.Errorf("a file was removed: %v", err)
	}
	if s.Path() != mine {
		t.Errorf("it listens at %s, not %s", s.Path(), mine)
	}
	if second := serve(t, "", &fixed{}); second.Path() == s.Path() {
		t.Error("two runtimes of a process listen at one socket")
	}
	path := leave(filepath.Join(dir, "named.sock"))
	serve(t, path, &fixed{})
	if _, err := Serve(path, nil, nil); !errors.Is(err, errInUse) {
		t.Errorf("a socket in use: %v", err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, strings.Repeat("x", 200)): "at most 103 bytes",
		other:                              "no socket",
		filepath.Join(dir, "no", "a.sock"): "no such file",
	} {
		if _, err := Serve(path, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// A socket that somebody listens at is left alone by whoever starts or ends beside it: one of
// a process that cannot be seen from here, and one that has come to be in the place of another.
func TestOthersSockets(t *testing.T) {
	dir := private700(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := os.Mkdir(Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	unseen := filepath.Join(Dir(), fmt.Sprint(cmd.Process.Pid, suffix)) // its number is of no process
	other, err := net.ListenUnix("unix", &net.UnixAddr{Name: unseen, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s := serve(t, "", &fixed{})
	if _, err := os.Lstat(unseen); err != nil {
		t.Errorf("a socket in use was swept: %v", err)
	}
	// Somebody removes the socket, and another process listens at its name.
	if err := os.Remove(s.Path()); err != nil {
		t.Fatal(err)
	}
	heir, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.Path(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer heir.Close()
	s.Close()
	if _, err := os.Lstat(s.Path()); err != nil {
		t.Errorf("Close removed the socket of another: %v", err)
	}
}

// Many that start and end at once in one folder do not take one another's sockets.
func TestSocketsAtOnce(t *testing.T) {
	dir := private700(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				s, err := Serve("", func() Source { return &fixed{} }, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Error(err)
					return
				}
				if abandoned(s.Path()) {
					t.Errorf("nobody listens at %s", s.Path())
				}
				s.Close()
			}
		})
	}
	all.Wait()
	if left, _ := filepath.Glob(filepath.Join(Dir(), "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What a program calls its tasks cannot command a terminal, nor make a line too long.
func TestHostileNames(t *testing.T) {
	f := &Frame{Program: "\x1b[2J\u202e", Tasks: []Task{{Task: strings.Repeat("é", 10_000)}}, Runs: make([]Run, 5000)}
	line, err := encode(f)
	if err != nil || bytes.ContainsAny(line[:len(line)-1], "\x1b\n\u202e") {
		t.Errorf("%q, %v", line[:100], err)
	}
	got, err := newReader(bytes.NewReader(line), maxFrame).frame()
	if err != nil || len(got.Tasks[0].Task) > maxText || len(got.Runs) != maxList {
		t.Errorf("%v", err)
	}
	// A server that is not weft's is read no less carefully.
	for _, line := range []string{
		`{"weft":1,"program":"` + strings.Repeat("x", maxText+1) + `"}`,
		`{"weft":1,"runs":[` + strings.Repeat("{},", maxList) + `{}]}`,
		`{"weft":2}`, `{"weft":1`, strings.Repeat(" ", maxFrame+1),
	} {
		if f, err := newReader(strings.NewReader(line+"\n"), maxFrame).frame(); !errors.Is(err, ErrProtocol) {
			t.Errorf("%.30q is read as %+v, %v", line, f, err)
		}
	}
	got, err = newReader(strings.NewReader(`{"weft":1,"program":"\u001b[31m"}`+"\n"), maxFrame).frame()
	if err != nil || got.Program != ".[31m" {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzFrame reads any bytes as frames: whatever is returned is bounded and printable, and
// is read again as it is written.
func FuzzFrame(f *testing.F) {
	f.Add([]byte(`{"weft":1,"pid":3,"devices":[{"name":"cpu","values":[{"name":"util","value":1}]}]}` + "\n"))
	f.Add([]byte("{}\n[]\n\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newReader(bytes.NewReader(data), 1<<12)
		for {
			frame, err := r.frame()
			if frame == nil && err == nil {
				t.Fatal("neither a frame nor an error")
			}
			if err != nil {
				if !errors.Is(err, ErrProtocol) && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if frame == nil {
					return
				}
				continue
			}
			line, err := encode(frame)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := newReader(bytes.NewReader(line), maxFrame).frame(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzRequest reads any bytes as a request.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"weft":1,"every_ms":500}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if q, err := readRequest(bytes.NewReader(data)); err == nil && q.Weft != Version {
			t.Fatalf("%+v", q)
		}
	})
}
