//go:build linux || darwin

package weft_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/monitor"
)

// attach attaches to the runtime of a socket.
func attach(t *testing.T, path string) *monitor.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	t.Cleanup(cancel)
	c, err := monitor.Dial(ctx, path, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// shows waits for a frame.
func shows(t *testing.T, c *monitor.Client, what string, cond func(*monitor.Frame) bool) *monitor.Frame {
	t.Helper()
	for {
		f, err := c.Next()
		if err != nil {
			t.Fatalf("%s is not shown: %v", what, err)
		}
		if cond(f) {
			return f
		}
	}
}

// folder returns a folder that only this user can enter, with a short name.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A client sees devices, the run in progress, the task that hangs and the loss of a device;
// the socket goes with the runtime.
func TestSocket(t *testing.T) {
	path := filepath.Join(folder(t), "a.sock")
	funcs, began, release := paused()
	rt, d := scripted(t, "devices 2; revive standby fails", weft.Options{Socket: path, Funcs: funcs})
	c := attach(t, path)
	h := rt.Submit(incs(t, 1, 4), nil, weft.Bind("x", make([]byte, 1)))
	<-began
	f := shows(t, c, "the run", func(f *monitor.Frame) bool { return len(f.Runs) == 1 && len(f.Tasks) == 1 })
	if r := f.Runs[0]; r.Run != 1 || r.Tasks != 4 || r.Done > 0 || r.Left < 0 {
		t.Errorf("run %+v", r)
	}
	if k := f.Tasks[0]; k.Task != "task 0" || k.Run != 1 {
		t.Errorf("task %+v", k)
	}
	if len(f.Devices) != 2 || f.Devices[1].Name != "fake:1" || f.Devices[1].State != "healthy" || f.PID != os.Getpid() {
		t.Errorf("frame %+v", f)
	}
	lost := f.Tasks[0].Device
	if err := d.Play("on " + strings.TrimPrefix(lost, "fake:") + " lose"); err != nil {
		t.Fatal(err)
	}
	shows(t, c, "the loss", func(f *monitor.Frame) bool {
		for _, e := range f.Events {
			if e.Kind == "device" && strings.Contains(e.Text, lost+" was healthy and is lost") {
				return true
			}
		}
		return false
	})
	close(release)
	if _, err := h.Wait(); err != nil {
		t.Error(err)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A socket that cannot be made fails Open, with the key and how to mend it.
func TestSocketRefused(t *testing.T) {
	dir := folder(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Socket: filepath.Join(dir, "a.sock")})
	if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "mkdir -m 700") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	var o weft.Options
	for v, ok := range map[string]bool{"on": true, "off": true, "": true, "./a.sock": true, "yes": false, "4242": false} {
		if err := o.Set("socket", v); (err == nil) != ok {
			t.Errorf("socket = %s: %v", v, err)
		}
	}
}
