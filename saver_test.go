package weft

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/stage"
)

// A step that one run changed the state by leaves it whole when it is ended, whatever parts the run changed; one
// with memory or several runs may not.
func TestChangesOf(t *testing.T) {
	type change struct{ runs, last int64 } // of a part
	memory := change{-1, 0}
	for _, c := range []struct {
		parts []change
		want  changes
	}{
		{nil, unchanged},
		{[]change{{0, 0}, {0, 7}}, unchanged},
		{[]change{{1, 9}}, atOnce},
		{[]change{{1, 9}, {0, 7}, {1, 9}}, atOnce},
		{[]change{{2, 9}}, inParts},
		{[]change{{1, 9}, {1, 8}}, inParts},
		{[]change{{0, 7}, memory}, inParts},
		{[]change{{1, 9}, memory}, inParts},
	} {
		state := make([]part, len(c.parts))
		for i, p := range c.parts {
			if p != memory {
				state[i].res = new(resident)
				state[i].res.writes.Store(3)
			}
		}
		before := writesOf(state)
		for i, p := range c.parts {
			if p != memory {
				state[i].res.writes.Add(p.runs)
				state[i].res.by.Store(p.last)
			}
		}
		if got := changesOf(state, before); got != c.want {
			t.Errorf("%v: changes %d, want %d", c.parts, got, c.want)
		}
	}
}

// The blocks that have something in them that matters are those with one byte of it, and no others.
func TestLiveBlocks(t *testing.T) {
	const block = checkpoint.BlockBytes
	for _, c := range []struct {
		name string
		live []stage.Range
		want []bool // of two blocks and a part of one
	}{
		{"all", nil, []bool{true, true, true}},
		{"nothing", []stage.Range{}, []bool{false, false, false}},
		{"one block", []stage.Range{{Lo: block, Hi: 2 * block}}, []bool{false, true, false}},
		{"one byte into the next", []stage.Range{{Lo: 0, Hi: block + 1}}, []bool{true, true, false}},
		{"the last byte of the one before", []stage.Range{{Lo: block - 1, Hi: 2 * block}}, []bool{true, true, false}},
		{"a byte at both ends", []stage.Range{{Lo: 0, Hi: 1}, {Lo: 2*block + 99, Hi: 2*block + 100}}, []bool{true, false, true}},
	} {
		s := newShadow("x", 2*block+100)
		s.Live[1] = true // of the last time
		s.mark(c.live)
		if !slices.Equal(s.Live, c.want) {
			t.Errorf("%s: blocks %v, want %v", c.name, s.Live, c.want)
		}
		if !s.has(c.live) {
			t.Errorf("%s: it lacks what was marked", c.name)
		}
		for b, live := range c.want {
			if s.Live[b] = false; live == s.has(c.live) {
				t.Errorf("%s: without block %d it has all: %v", c.name, b, !live)
			}
			s.Live[b] = live
		}
	}
}

// savesTo opens a runtime that keeps checkpoints in a folder, where they are taken on demand and at the end.
func savesTo(t *testing.T, o Options) *Runtime {
	t.Helper()
	o.Devices, o.NoCalibrate, o.CacheDir, o.Checkpoint.Every = "cpu/2", true, "off", -1
	rt, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// savesMemory begins to keep a computation whose state is some memory.
func savesMemory(t *testing.T, bytes int) (*saver, []part) {
	t.Helper()
	rt := savesTo(t, Options{Checkpoint: Checkpoint{Dir: t.TempDir()}})
	parts, sizes, err := rt.parts([]Binding{Bind("mem", make([]byte, bytes))})
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := rt.newSaver(checkpoint.Meta{Name: "n", Total: 9}, sizes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s, parts
}

// Between checkpoints the state is copied at once for the first time, and then when a multiple of
// the time that the last copy took has passed; never while a checkpoint is being written.
func TestHold(t *testing.T) {
	s, parts := savesMemory(t, 8)
	for _, c := range []struct {
		name          string
		copied        time.Time
		took          time.Duration
		writes, holds bool
	}{
		{"for the first time", time.Time{}, 0, false, true},
		{"after a copy that took long", time.Now(), time.Hour, false, false},
		{"after a copy that took long, long ago", time.Now().Add(-holdPart * time.Hour), time.Hour, false, true},
		{"while a checkpoint is written", time.Time{}, 0, true, false},
	} {
		s.held, s.copied, s.took, s.busy = -1, c.copied, c.took, nil
		if c.writes {
			s.busy = make(chan struct{})
		}
		if s.hold(t.Context(), 5, parts); (s.held == 5) != c.holds {
			t.Fatalf("%s: %d steps are held", c.name, s.held)
		}
	}
	s.busy = nil
}

// Memory for the first copy is provided in the background where that takes long, and nothing is copied
// into it meanwhile.
func TestPrepareInTheBackground(t *testing.T) {
	for bytes, background := range map[int]bool{soonThere: false, soonThere + 1: true} {
		s, parts := savesMemory(t, bytes)
		s.prepare(parts)
		if s.busy == nil {
			t.Errorf("%d bytes: nobody waits for the memory", bytes)
		}
		if !background && !s.idle() {
			t.Errorf("%d bytes: the memory is still being provided", bytes)
		}
		s.wait(t.Context())
		if c := s.copies["mem"]; c == nil || len(c.Mem) != bytes {
			t.Errorf("%d bytes: the copy is %v", bytes, c)
		}
	}
}

// A part of which only some was kept needs what lies between from the caller's data: where that cannot
// be read, it is not restored.
func TestRestoreNeedsTheRest(t *testing.T) {
	var s *saver
	var p part
	var got error
	rt := savesTo(t, Options{Checkpoint: Checkpoint{Dir: t.TempDir()}, Funcs: map[string]Func{
		"asks": func(c *Call, _, _ int) { got = s.restore(c.Context(), p) }, // which would wait for itself
	}})
	d, err := Put(rt, "d", make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	s = &saver{r: rt, loaded: true, copies: map[string]*shadow{"d": newShadow("d", 16)}}
	s.copies["d"].Live[0] = true
	p = part{name: "d", res: d.resident, live: []stage.Range{{Lo: 0, Hi: 8}}}
	var b graph.Builder
	out := b.Data(graph.Data{Name: "out", Bytes: 8, Output: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("asks"), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: out, Access: graph.Write}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Run(t.Context(), g, Bind("out", make([]int64, 1))); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(got, ErrDeadlock) {
		t.Errorf("restored by a kernel that cannot read the data: %v", got)
	}
}

// Memory that is shared with workers is free again once it was warmed.
func TestWarmGivesBack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker processes need Linux")
	}
	rt := savesTo(t, Options{Isolate: true})
	shared := rt.x.Shared()
	if shared == nil {
		t.Fatal("isolated workers share no memory")
	}
	const size = 3 << 20
	place := func() *byte {
		mem, err := shared.Get(size)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Put(mem)
		return &mem[0]
	}
	before := place()
	(&saver{r: rt}).warm([]int64{size, size})
	if place() != before {
		t.Error("the memory that it took is taken still")
	}
}

// Without a folder Steps calls its function and no more: what that returns is returned, with how far it
// was if the context has ended. No steps are none to call, with a folder or without.
func TestStepsAlone(t *testing.T) {
	stop := errors.New("stop")
	mem := []Binding{Bind("mem", make([]byte, 1))}
	rt := savesTo(t, Options{})
	if err := rt.Steps(t.Context(), Keep{Name: "n"}, 3, mem, func(context.Context, int) error { return stop }); err != stop {
		t.Errorf("a step that errs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := rt.Steps(ctx, Keep{Name: "n"}, 3, mem, func(ctx context.Context, i int) error {
		if i == 1 {
			cancel()
		}
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "n: ended after 1 of 3 steps") {
		t.Errorf("a step whose context has ended: %v", err)
	}
	for _, dir := range []string{"", t.TempDir()} {
		rt := savesTo(t, Options{Checkpoint: Checkpoint{Dir: dir}})
		if err := rt.Steps(t.Context(), Keep{Name: "n"}, 0, mem, func(context.Context, int) error { return stop }); err != nil {
			t.Errorf("no steps: %v", err)
		}
		if err := rt.Steps(t.Context(), Keep{Name: "less"}, -1, mem, noStep); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("fewer than none: %v", err)
		}
	}
}

// noStep is a step that does nothing.
func noStep(context.Context, int) error { return nil }

// The last step is followed by one checkpoint, of a finished computation, though one is due after each.
func TestFinishedOnce(t *testing.T) {
	var told []Saved
	o := Options{Checkpoint: Checkpoint{Dir: t.TempDir(), Saved: func(s Saved) { told = append(told, s) }}}
	rt := savesTo(t, o)
	rt.keeps.o.Every = time.Nanosecond
	if err := rt.Steps(t.Context(), Keep{Name: "n"}, 1, []Binding{Bind("mem", make([]byte, 1))}, noStep); err != nil {
		t.Fatal(err)
	}
	rt.Close() // after which all is told
	if len(told) != 1 || told[0].Done != 1 || !told[0].Finished {
		t.Errorf("told %+v", told)
	}
}

// What becomes of checkpoints is logged: each that was written, one that was not, as a warning unless the
// same was said before, and one that cannot be used.
func TestCheckpointLogged(t *testing.T) {
	var log bytes.Buffer
	o := Options{Checkpoint: Checkpoint{Dir: t.TempDir()}}
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	steps := func(rt *Runtime) error {
		return rt.Steps(t.Context(), Keep{Name: "n"}, 1, []Binding{Bind("mem", make([]byte, 1))}, noStep)
	}
	rt := savesTo(t, o)
	if err := steps(rt); err != nil {
		t.Fatal(err)
	}
	rt.Close()
	s := &saver{r: rt}
	for _, why := range []string{"full", "full", "gone"} {
		s.ended(Saved{Name: "n", Err: errors.New(why)}, nil)
	}
	files, err := filepath.Glob(filepath.Join(o.Checkpoint.Dir, "n", "checkpoint-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if err := os.Truncate(files[0], 9); err != nil {
		t.Fatal(err)
	}
	o.Checkpoint.Resume = true
	if err := steps(savesTo(t, o)); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("a damaged one is resumed: %v", err)
	}
	for line, times := range map[string]int{
		"level=INFO msg=\"checkpoint written\" name=n done=1 total=1": 1,
		"level=WARN msg=\"a checkpoint was not written\"":             2,
		"level=DEBUG msg=\"a checkpoint was not written\"":            1,
		"level=WARN msg=\"a checkpoint cannot be used\" name=n":       1,
	} {
		if n := strings.Count(log.String(), line); n != times {
			t.Errorf("%q was logged %d times, want %d, in:\n%s", line, n, times, log.String())
		}
	}
}
