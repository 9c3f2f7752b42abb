//go:build linux || darwin

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/monitor"
)

// watchable opens a runtime that can be watched, in a runtime folder of its own.
func watchable(t *testing.T) *weft.Runtime {
	t.Helper()
	if os.Getenv("XDG_RUNTIME_DIR") == "" || !strings.Contains(os.Getenv("XDG_RUNTIME_DIR"), "weft-top-") {
		dir, err := os.MkdirTemp("", "weft-top-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		t.Setenv("XDG_RUNTIME_DIR", dir)
	}
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Socket: "on"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// One frame is shown of the only runtime there is, of one named by its process or by its
// socket, as text without control characters or as JSON.
func TestTop(t *testing.T) {
	rt := watchable(t)
	socket := monitor.Sockets()[0].Path
	for _, args := range [][]string{{}, {socket}, {fmt.Sprint(os.Getpid())}} {
		code, out, errs := runWeft(append([]string{"top", "--once"}, args...)...)
		if code != 0 || errs != "" || !strings.Contains(out, "cpu:1") || !strings.Contains(out, "util") || strings.ContainsAny(out, "\x1b\r") {
			t.Errorf("top %q: %d\n%s\n%s", args, code, out, errs)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(line); n > 81 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
	code, out, _ := runWeft("top", "--once", "--json")
	var f monitor.Frame
	if err := json.Unmarshal([]byte(out), &f); err != nil || code != 0 || len(f.Devices) != 2 || f.PID != os.Getpid() || strings.Count(out, "\n") != 1 {
		t.Errorf("%d, %v: %s", code, err, out)
	}
	watchable(t)
	if code, _, errs := runWeft("top"); code != exitUsage || !strings.Contains(errs, "name one") {
		t.Errorf("two runtimes: %d, %s", code, errs)
	}
	if code, _, errs := runWeft("top", fmt.Sprint(os.Getpid())); code != exitUsage || !strings.Contains(errs, "several") {
		t.Errorf("two runtimes of a process: %d, %s", code, errs)
	}
	rt.Close()
	if code, _, errs := runWeft("top", socket); code != exitFailure || !strings.Contains(errs, "no such file") {
		t.Errorf("a closed runtime: %d, %s", code, errs)
	}
}

// What cannot be watched is said in a line.
func TestTopMistakes(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"top", exitUsage, "--socket on"},
		{"top 1", exitUsage, "process 1 cannot be watched"},
		{"top a b", exitUsage, "too much"},
		{"top --every 1ms", exitUsage, "100ms"},
		{"top " + filepath.Join(t.TempDir(), "none"), exitFailure, "no such file"},
		{"run gemm --socket yes", exitUsage, "path"},
	} {
		code, _, errs := runWeft(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d, %q, want %d, %q", c.args, code, errs, c.code, c.want)
		}
	}
}

// Frames follow one another until the runtime is closed, which is no failure.
func TestTopFrames(t *testing.T) {
	rt := watchable(t)
	var out, errs bytes.Buffer
	closed := make(chan struct{})
	w := writerFunc(func(p []byte) (int, error) {
		if n, err := out.Write(p); bytes.Count(out.Bytes(), []byte("weft top")) < 3 {
			return n, err
		}
		select {
		case <-closed:
		default:
			close(closed)
			go rt.Close()
		}
		return len(p), nil
	})
	if code := run(context.Background(), []string{"top", "--every", "100ms"}, w, &errs); code != 0 || errs.Len() > 0 {
		t.Errorf("%d, %s", code, errs.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// However much there is, a frame has no more lines than the terminal, and devices, runs and
// tasks leave room for events.
func TestTopRows(t *testing.T) {
	f := &monitor.Frame{MoreRun: 5}
	tp := &top{}
	for i := range 100 {
		f.Devices = append(f.Devices, monitor.Device{Name: fmt.Sprint("cuda:", i), Values: []monitor.Value{{Name: "temp", Unit: "°C", V: 40}, {Name: "power", Unit: "W", V: -1}}})
		f.Runs = append(f.Runs, monitor.Run{Run: int64(i), Left: -1})
		f.Tasks = append(f.Tasks, monitor.Task{Task: "t"})
		tp.events = append(tp.events, monitor.Event{Text: fmt.Sprint("event ", i)})
	}
	lines := tp.lines(f, 100, 40)
	text := strings.Join(lines, "\n")
	for _, want := range []string{"temp  power", "40 °C      -", "and 94 more", "and 99 more", "waits", "event 99"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if len(lines) > 40 {
		t.Errorf("%d lines:\n%s", len(lines), text)
	}
}
