package infer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/test/poll"
)

// A model that hangs on every device makes the service not ready, which says so, and is served
// and ready again once it computes; requests that a kernel does not like change nothing.
func TestFailing(t *testing.T) {
	folder := t.TempDir()
	g := &gate{open: make(chan struct{})}
	put(t, filepath.Join(folder, "bad"), "held", 1, "warmup: 0\ntimeout: 60s\ndeadline: 300ms\n")
	put(t, filepath.Join(folder, "picky"), "picky", 1, "")
	s := ready(t, folder, g)
	for range 2 * doubtAfter {
		if _, err := s.Infer(t.Context(), ask("picky", 666, 1, 1)); err == nil {
			t.Error("666 is answered")
		}
	}
	poll.True(t, "the picky model was tried", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		v := s.pick("picky", "")
		return v.stopTrying == nil
	})
	if err := s.Ready(); err != nil {
		t.Errorf("not ready because of what was asked: %v", err)
	}
	poll.True(t, "not ready", func() bool {
		r := ask("bad", 1, 2, 3)
		r.Deadline = time.Now().Add(20 * time.Millisecond)
		if _, err := s.Infer(t.Context(), r); err == nil {
			t.Error("a model that hangs answers")
		}
		return s.Ready() != nil
	})
	info, err := s.Model("bad", "")
	if e := s.Ready(); err != nil || info.State != Failing || !errors.Is(e, ErrUnavailable) || !strings.Contains(e.Error(), "model bad is failing: it fails on every device: ") || strings.Contains(e.Error(), "\n") {
		t.Errorf("%+v, %v: %v", info, err, e)
	}
	close(g.open)
	poll.True(t, "ready", func() bool { return s.Ready() == nil })
}

// A request that is answered while a model is tried ends the attempts, although none of them succeeds. Of batches that
// fail the log tells.
func TestAnswerEndsAttempts(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "moody", 1, "warmup: 0\ndeadline: 50ms\n")
	s := ready(t, folder, nil)
	var log bytes.Buffer
	s.o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	infer := func(x float32) error {
		r := ask("m", x, 2, 3)
		r.Deadline = time.Now().Add(patience)
		_, err := s.Infer(t.Context(), r)
		return err
	}
	for range doubtAfter {
		if err := infer(666); err == nil {
			t.Error("666 is answered")
		}
	}
	if err := infer(1); err != nil {
		t.Error(err)
	}
	poll.True(t, "the attempts end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pick("m", "").stopTrying == nil
	})
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "a batch failed"); n != doubtAfter {
		t.Errorf("the log tells of %d batches that failed: %s", n, log.String())
	}
}

// Unloading a model that fails does not wait for the next attempt to compute it, nor for the end
// of one that is under way.
func TestUnloadFailing(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "pausing"), "broken", 1, "warmup: 0\n")
	put(t, filepath.Join(folder, "hanging"), "sleepy", 1, "warmup: 0\ntimeout: 1h\ndeadline: 1h\n")
	s := ready(t, folder, nil)
	s.triedAgain = time.Hour
	for name, state := range map[string]State{"pausing": Failing, "hanging": Ready} {
		for range doubtAfter {
			if _, err := s.Infer(t.Context(), ask(name, 1, 2, 3)); err == nil {
				t.Errorf("%s answers", name)
			}
		}
		poll.True(t, name+" is tried", func() bool {
			info, err := s.Model(name, "")
			s.mu.Lock()
			defer s.mu.Unlock()
			return err == nil && info.State == state && s.pick(name, "").stopTrying != nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := s.Unload(ctx, name); err != nil {
			t.Errorf("unload %s: %v", name, err)
		}
		cancel()
	}
}

// A service whose devices are all suspect is not ready, and says what they are.
func TestSuspectDevices(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 1, "")
	o, err := fake.Parse("devices 1; memory 1048576")
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = funcs(nil)
	held := make(chan struct{})
	o.Funcs["weft.probe.check"] = func(c *driver.Call, lo, hi int) { // the probe that verifies it
		<-held
		cpu.Probes()["weft.probe.check"](c, lo, hi)
	}
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := openWith(t, folder, weft.Options{Drivers: []driver.Driver{drv}})
	poll.True(t, "ready", func() bool { return s.Ready() == nil })
	if err := drv.Play("on 0 lose"); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "not ready: suspect", func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), "fake:0 is suspect")
	})
	close(held)
	poll.True(t, "ready again", func() bool { return s.Ready() == nil })
}
