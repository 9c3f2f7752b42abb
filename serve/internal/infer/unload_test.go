package infer

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/test/poll"
)

// A model that is loaded again while requests end on the one that was unloaded is one model,
// whose counts go on.
func TestUnloadAndLoad(t *testing.T) {
	folder := t.TempDir()
	g := &gate{open: make(chan struct{})}
	put(t, filepath.Join(folder, "m"), "held", 1, "warmup: 0\n")
	s := ready(t, folder, g)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := s.Infer(t.Context(), ask("m", 1, 2, 3)); err != nil {
				t.Errorf("a request under way: %v", err)
			}
		})
		poll.True(t, "it is under way", func() bool { return g.inside.Load() == 1 })
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := s.Unload(short, "m"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("unload while a kernel runs: %v", err)
		}
		cancel()
		if err := s.Load(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		if st, in := s.Stats(), s.Models(); len(st) != 1 || len(in) != 1 || in[0].State != Ready {
			t.Errorf("%d models have %d counts: %+v", len(in), len(st), in)
		}
		if t.Failed() {
			break
		}
		close(g.open)
		all.Wait()
		g.open = make(chan struct{})
	}
	close(g.open)
	all.Wait()
	if st := s.Stats(); len(st) != 1 || st[0].Succeeded == 0 {
		t.Errorf("%+v", st)
	}
}

// Unload and Close wait for requests under way, and refuse new ones.
func TestUnloadAndClose(t *testing.T) {
	folder := t.TempDir()
	g := &gate{open: make(chan struct{})}
	for _, name := range []string{"a", "b"} {
		put(t, filepath.Join(folder, name), "held", 1, "warmup: 0\n")
	}
	s := ready(t, folder, g)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if _, err := s.Infer(t.Context(), ask([]string{"a", "b"}[i%2], 1, 2, 3)); err != nil {
				t.Errorf("a request under way: %v", err)
			}
		})
	}
	poll.True(t, "requests wait", func() bool { return s.Stats()[0].Waiting+s.Stats()[1].Waiting == 8 })
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Unload(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("unload while a kernel runs: %v", err)
	}
	if _, err := s.Infer(t.Context(), ask("a", 1, 2, 3)); !errors.Is(err, ErrNotFound) {
		t.Errorf("a model that was unloaded: %v", err)
	}
	if got := s.Models(); got[0].Name != "a" || got[0].State != Unloading {
		t.Errorf("%+v", got)
	}
	closed := make(chan error)
	go func() { closed <- s.Close(context.Background()) }()
	poll.True(t, "new requests are refused", func() bool {
		_, err := s.Infer(t.Context(), &Request{Model: "b"})
		return errors.Is(err, ErrUnavailable)
	})
	close(g.open)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	all.Wait()
	for _, err := range []error{s.Ready(), s.Load(t.Context(), "a"), s.Unload(t.Context(), "b")} {
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// Close with a context that ends does not wait for kernels that hang.
func TestCloseHurried(t *testing.T) {
	folder := t.TempDir()
	g := &gate{open: make(chan struct{})}
	put(t, filepath.Join(folder, "m"), "held", 1, "warmup: 0\n")
	s := ready(t, folder, g)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := s.Infer(t.Context(), ask("m", 1, 2, 3)); err == nil {
				t.Error("a request succeeds that was never computed")
			}
		})
	}
	poll.True(t, "requests wait", func() bool { return s.Stats()[0].Waiting == 8 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	all.Wait()
}
