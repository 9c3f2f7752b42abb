package infer

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
)

// A kernel that hangs in a worker process has its requests answered and its device ended and
// brought back: other models are served all the while and afterwards, by both devices.
func TestHangInWorker(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "bad"), "deaf", 1, "warmup: 0\ntimeout: 500ms\n")
	put(t, filepath.Join(folder, "good"), "mul", 2, "")
	mem, err := arena.Open(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mem.Close(); err != nil {
			t.Error(err)
		}
	})
	s := openWith(t, folder, weft.Options{Retries: -1, Drivers: []driver.Driver{proc.New(proc.Options{
		Workers: proc.Workers{Memory: mem},
		Driver:  "test", Parts: func(machine.Device) int { return 2 },
	})}})
	if err := s.Ready(); err != nil || len(s.devices) != 2 {
		t.Fatalf("%d devices: %v", len(s.devices), err)
	}
	hung := make(chan error, 1)
	go func() {
		r := ask("bad", 1, 2, 3)
		r.Deadline = time.Now().Add(patience)
		_, err := s.Infer(t.Context(), r)
		hung <- err
	}()
	good := func() bool {
		r, err := s.Infer(t.Context(), ask("good", 1, 2, 3))
		if err != nil || !bytes.Equal(r.Outputs[0].Data, want(ten, 1, 2, 3)) {
			t.Errorf("of the good model: %v", err)
		}
		return !t.Failed()
	}
	losses := func() (n int64) { return s.rt.Metrics().Losses }
	poll.True(t, "the worker that hangs is ended", func() bool { return !good() || losses() > 0 })
	poll.True(t, "it is back, with the good model", func() bool { return !good() || len(on(t, s, "good")) == 2 })
	select {
	case err := <-hung:
		if err == nil || errors.Is(err, ErrInvalid) {
			t.Errorf("of the model that hangs: %v", err)
		}
	case <-time.After(patience):
		t.Error("a request of the model that hangs has no answer")
	}
}
