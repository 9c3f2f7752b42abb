package weft_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// hashKernel adds up all it reads and writes a function of that to each element.
func hashKernel(c *weft.Call, lo, hi int) {
	out := weft.View[uint64](c.Args[len(c.Args)-1])
	sum := uint64(14695981039346656037)
	for _, a := range c.Args[:len(c.Args)-1] {
		for _, x := range weft.View[uint64](a) {
			sum = (sum ^ x) * 1099511628211
		}
	}
	for i := range out {
		out[i] = sum + uint64(i)
	}
}

// keeping opens a runtime that keeps checkpoints in dir. calls counts launches of the kernel
// mix, and stop, when not nil, is called by each with its number.
func keeping(t *testing.T, c weft.Checkpoint, stop func(n int64)) (*weft.Runtime, error) {
	t.Helper()
	var calls atomic.Int64
	return weft.Open(t.Context(), weft.Options{
		Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Checkpoint: c,
		Funcs: map[string]weft.Func{"mix": func(call *weft.Call, lo, hi int) {
			if n := calls.Add(1); stop != nil {
				stop(n)
			}
			hashKernel(call, lo, hi)
		}},
	})
}

func mustKeep(t *testing.T, c weft.Checkpoint, stop func(n int64)) *weft.Runtime {
	t.Helper()
	rt, err := keeping(t, c, stop)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// Steps that are ended at random places and resumed give the state of steps that were not:
// that in the caller's memory, and resident data.
func TestSteps(t *testing.T) {
	const total = 40
	const words = 140_000 // more than a block
	var b graph.Builder
	x, y := b.Data(graph.Data{Name: "x", Bytes: 8 * words, Input: true}), b.Data(graph.Data{Name: "y", Bytes: 8 * words})
	task := graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("mix")}}}
	task.Uses = []graph.Use{{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}}
	b.Add(task)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	// life runs steps from a fresh start of the program until one of them errs.
	life := func(c weft.Checkpoint, until int) (res []uint64, mem []uint64, first int, err error) {
		rt := mustKeep(t, c, nil)
		defer rt.Close()
		start := make([]uint64, words)
		a, err := weft.Put(rt, "a", start)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Release()
		mem, first = make([]uint64, 3), -1
		err = rt.Steps(t.Context(), weft.Keep{Name: "loop", Params: map[string]string{"words": fmt.Sprint(words)}}, total,
			[]weft.Binding{a.As("a"), weft.Bind("mem", mem)},
			func(ctx context.Context, i int) error {
				if first < 0 {
					first = i
				}
				if i == until {
					return errStop
				}
				mem[i%3] += uint64(i)
				if i%2 == 0 {
					return nil // a stays as it is
				}
				_, err := rt.Run(ctx, g, a.As("x"), a.As("y"))
				return err
			})
		if err == nil {
			if res, err = a.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return res, mem, first, err
	}
	wantRes, wantMem, _, err := life(weft.Checkpoint{}, -1)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 5))
		c := weft.Checkpoint{Dir: filepath.Join(t.TempDir(), "c"), Every: time.Nanosecond}
		kept := false
		for until := 0; ; {
			until += 1 + r.IntN(12)
			res, mem, first, err := life(c, until)
			if err == nil {
				if !slices.Equal(res, wantRes) || !slices.Equal(mem, wantMem) {
					t.Fatalf("seed %d: not the state of steps that were not ended", seed)
				}
				break
			}
			if !errors.Is(err, errStop) {
				t.Fatalf("seed %d: began at %d: %v", seed, first, err)
			}
			if c.Resume = has(c.Dir); c.Resume {
				kept = true
			}
		}
		if !kept {
			t.Errorf("seed %d: nothing was resumed", seed)
		}
		// What is finished is there at once.
		c.Resume = true
		res, mem, first, err := life(c, -1)
		if err != nil || first >= 0 || !slices.Equal(res, wantRes) || !slices.Equal(mem, wantMem) {
			t.Errorf("seed %d: finished steps were resumed at %d: %v", seed, first, err)
		}
	}
}

// has reports whether a folder has checkpoints.
func has(dir string) bool {
	_, err := weft.ReadCheckpoints(dir)
	return err == nil
}

var errStop = errors.New("stopped by the test")

// layered is a graph of some levels, each of which reads what the one before wrote, with two
// grids that are written in turn, an output that one task writes early, and data that is
// updated.
func layered(t *testing.T, levels, words int, extra ...string) *graph.Graph {
	t.Helper()
	bytes := int64(8 * words)
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: bytes, Input: true})
	grids := []graph.DataID{b.Data(graph.Data{Name: "even", Bytes: bytes, Output: true}), b.Data(graph.Data{Name: "odd", Bytes: bytes})}
	early := b.Data(graph.Data{Name: "early", Bytes: bytes, Output: true})
	count := b.Data(graph.Data{Name: "count", Bytes: 64, Input: true, Output: true})
	add := func(name string, uses ...graph.Use) {
		b.Add(graph.Task{Name: name + strings.Join(extra, ""), Steps: []graph.Step{{Kernel: graph.GoKernel("mix"), Launch: graph.Grid(1)}}, Uses: uses, Work: graph.Work{Ops: 1000}})
	}
	from := in
	for l := range levels {
		to := grids[l%2]
		half := bytes / 2
		for k := range int64(2) {
			add(fmt.Sprint(l, "/", k), graph.Use{Data: from}, graph.Use{Data: to, Offset: k * half, Bytes: half, Access: graph.Write})
		}
		if l == 2 {
			add("early", graph.Use{Data: from}, graph.Use{Data: early, Access: graph.Write})
		}
		add("count", graph.Use{Data: from}, graph.Use{Data: count, Access: graph.ReadWrite})
		if l == levels-1 { // stages between do not use in
			add("late", graph.Use{Data: in}, graph.Use{Data: count, Access: graph.ReadWrite})
		}
		from = to
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// outputsOf runs the graph in stages with memory of its own.
func outputsOf(ctx context.Context, rt *weft.Runtime, g *graph.Graph, words int, in uint64) (out []uint64, err error) {
	input, even, early, count := slices.Repeat([]uint64{in}, words), make([]uint64, words), make([]uint64, words), make([]uint64, 8)
	_, err = rt.RunStages(ctx, weft.Keep{Name: "g"}, g, weft.Bind("in", input), weft.Bind("even", even), weft.Bind("early", early), weft.Bind("count", count))
	return slices.Concat(even, early, count), err
}

// A graph that is run in stages, ended at random launches and resumed gives what one run of
// it gives.
func TestRunStages(t *testing.T) {
	const words = 140_000
	g := layered(t, 15, words)
	rt := mustKeep(t, weft.Checkpoint{}, nil)
	want, err := outputsOf(t.Context(), rt, g, words, 3)
	rt.Close()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 6))
		c := weft.Checkpoint{Dir: filepath.Join(t.TempDir(), "c"), Every: time.Nanosecond}
		for lives := 1; ; lives++ {
			ctx, cancel := context.WithCancel(t.Context())
			at := 5 + r.Int64N(20)
			rt := mustKeep(t, c, func(n int64) {
				if n == at {
					cancel()
				}
			})
			got, err := outputsOf(ctx, rt, g, words, 3)
			rt.Close()
			cancel()
			if err == nil {
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, after %d lives: not the outputs of one run", seed, lives)
				}
				if lives < 2 {
					t.Errorf("seed %d: it was never ended", seed)
				}
				break
			}
			if !errors.Is(err, context.Canceled) || lives > 100 {
				t.Fatal(err)
			}
			c.Resume = has(c.Dir)
		}
		// Nothing is computed again.
		c.Resume = true
		rt := mustKeep(t, c, func(int64) { t.Error("a finished graph was computed") })
		if got, err := outputsOf(t.Context(), rt, g, words, 3); err != nil || !slices.Equal(got, want) {
			t.Errorf("a finished graph: %v", err)
		}
		rt.Close()
	}
}

// deep is levels of which two lives of kept do a part.
const deep = 2000

// kept makes a folder with two checkpoints of a graph that was ended twice: each time the
// stages before are kept.
func kept(t *testing.T, g *graph.Graph, words int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "c")
	for life := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		var told []weft.Saved
		rt := mustKeep(t, weft.Checkpoint{Dir: dir, Every: -1, Resume: life > 0, Saved: func(s weft.Saved) { told = append(told, s) }}, func(n int64) {
			if n == deep/2 {
				cancel()
			}
		})
		_, err := outputsOf(ctx, rt, g, words, 3)
		if !errors.Is(err, context.Canceled) || len(told) != life+1 || told[life].Err != nil || told[life].Finished { // on the disk before Close
			t.Errorf("life %d: it was not ended, or not kept: %+v, %v", life, told, err)
		}
		rt.Close()
		cancel()
	}
	return dir
}

// What cannot be resumed is refused in a line that says why.
func TestCheckpointRefuses(t *testing.T) {
	const words = 1_000
	g := layered(t, deep, words)
	dir := kept(t, g, words)
	resume := weft.Checkpoint{Dir: dir, Resume: true}
	says := func(what string, err error, is error, parts ...string) {
		t.Helper()
		if !errors.Is(err, is) || !errors.Is(err, weft.ErrCheckpoint) && !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%s: %v; want %q in it", what, err, p)
			}
		}
	}
	_, err := keeping(t, weft.Checkpoint{Dir: dir}, nil)
	says("a folder in use", err, weft.ErrHasCheckpoint, "resume it", "of 6002 tasks")
	_, err = keeping(t, weft.Checkpoint{Dir: t.TempDir(), Resume: true}, nil)
	says("nothing", err, weft.ErrNoCheckpoint, "nothing to resume")
	_, err = keeping(t, weft.Checkpoint{Resume: true}, nil)
	says("no folder", err, weft.ErrOptions, "set Dir")
	_, err = keeping(t, weft.Checkpoint{Dir: dir, Every: -5, Resume: true}, nil)
	says("a negative time", err, weft.ErrOptions)

	rt := mustKeep(t, resume, nil)
	_, err = keeping(t, resume, nil)
	says("a second process", err, weft.ErrCheckpoint, "is in use: ", "another process")
	_, err = outputsOf(t.Context(), rt, layered(t, deep, words, "other"), words, 3)
	says("another graph", err, weft.ErrOtherCheckpoint, "graph is sha256")
	_, err = outputsOf(t.Context(), rt, g, words, 4) // the name is free: that one was refused
	says("another input", err, weft.ErrOtherCheckpoint, "input in is sha256")
	rt.Close()
	rt = mustKeep(t, resume, nil)
	step := func(context.Context, int) error { t.Error("a step was called"); return nil }
	says("a bad name", rt.Steps(t.Context(), weft.Keep{Name: "a/b"}, 1, nil, step), weft.ErrCheckpoint, "letters")
	says("nothing kept", rt.Checkpoint(t.Context()), weft.ErrCheckpoint, "no computation")
	state := []weft.Binding{weft.Bind("x", []int{1})}
	if err := rt.Steps(t.Context(), weft.Keep{Name: "used"}, 1, state, func(context.Context, int) error { return nil }); err != nil {
		t.Error(err)
	}
	says("a name used twice", rt.Steps(t.Context(), weft.Keep{Name: "used"}, 1, state, step), weft.ErrCheckpoint, "twice")
	keyed := func(secret bool) *graph.Graph {
		var b graph.Builder
		key := b.Data(graph.Data{Name: "key", Bytes: 8, Input: true, Output: true, Secret: secret})
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("count"), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: key, Access: graph.ReadWrite}}})
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	hidden := keyed(true)
	_, err = rt.RunStages(t.Context(), weft.Keep{Name: "hidden"}, hidden, weft.Bind("key", []int64{1}))
	says("secret data", err, weft.ErrCheckpoint, `data "key" is secret`, "without one")
	resident, err := weft.Put(rt, "resident", []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	err = rt.Steps(t.Context(), weft.Keep{Name: "hides"}, 2, []weft.Binding{resident.As("kept")}, func(ctx context.Context, _ int) error {
		_, _ = rt.Run(ctx, hidden, resident.As("key")) // which has no such kernel
		return nil
	})
	says("secret data of a step", err, weft.ErrCheckpoint, `"kept" is secret`)
	says("secret state", rt.Steps(t.Context(), weft.Keep{Name: "secret"}, 1, []weft.Binding{resident.As("kept")}, step), weft.ErrCheckpoint, `"kept" is secret`)
	_, err = rt.RunStages(t.Context(), weft.Keep{Name: "shown"}, keyed(false), resident.As("key"))
	says("secret data in another graph", err, weft.ErrCheckpoint, `data "key" is secret`)
	later, err := weft.Put(rt, "later", []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = rt.Steps(ctx, weft.Keep{Name: "later"}, 3, []weft.Binding{later.As("kept")}, func(ctx context.Context, i int) error {
		if i == 0 {
			return nil
		}
		_, _ = rt.Run(ctx, hidden, later.As("key"))
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a step that was ended: %v", err)
	}
	if written, _ := filepath.Glob(filepath.Join(dir, "later", "checkpoint-*")); written != nil {
		t.Errorf("secret data was written: %v", written)
	}
	says("a parameter of bytes", rt.Steps(t.Context(), weft.Keep{Name: "n", Params: map[string]string{"path": "a\xffb"}}, 1, state, step), weft.ErrCheckpoint, `"path" is "a\xffb"`, "UTF-8")
	says("a key of bytes", rt.Steps(t.Context(), weft.Keep{Name: "n", Params: map[string]string{"\xff": ""}}, 1, state, step), weft.ErrCheckpoint, "UTF-8")
	says("a name of bytes", rt.Steps(t.Context(), weft.Keep{Name: "n"}, 1, []weft.Binding{weft.Bind("x\xff", []int{1})}, step), weft.ErrCheckpoint, "UTF-8")
	for _, key := range []string{"graph", "input in"} {
		bs := []weft.Binding{weft.Bind("in", make([]uint64, words)), weft.Bind("even", make([]uint64, words)), weft.Bind("early", make([]uint64, words)), weft.Bind("count", make([]uint64, 8))}
		_, err := rt.RunStages(t.Context(), weft.Keep{Name: "r", Params: map[string]string{key: "x"}}, g, bs...)
		says("a parameter that is added", err, weft.ErrCheckpoint, fmt.Sprintf("%q", key), "another name")
	}
	if err := rt.Steps(t.Context(), weft.Keep{Name: "n"}, 1, []weft.Binding{weft.Bind("x", []int{})}, step); !errors.Is(err, weft.ErrBinding) {
		t.Errorf("no state: %v", err)
	}
	_, _, err = rt.Kept(weft.Keep{Name: ".."})
	says("the parameters of a bad name", err, weft.ErrCheckpoint, "letters")
	_, _, err = rt.Kept(weft.Keep{Name: "g", Params: map[string]string{"k": "2"}})
	says("another parameter", err, weft.ErrOtherCheckpoint, "k is nothing there and 2 here")
	if params, ok, err := rt.Kept(weft.Keep{Name: "g"}); err != nil || !ok || !strings.HasPrefix(params["graph"], "sha256 ") {
		t.Errorf("kept parameters: %v, %v, %v", params, ok, err)
	}
	rt.Close()
}

// Close waits for a last checkpoint no longer than it may, and the folder is free when that is written.
func TestCloseLateCheckpoint(t *testing.T) {
	dir := t.TempDir()
	stalls := make(chan struct{})
	rt, err := weft.Open(t.Context(), weft.Options{
		Devices: "cpu", NoCalibrate: true, CacheDir: "off", SyncTimeout: 50 * time.Millisecond,
		Checkpoint: weft.Checkpoint{Dir: dir, Every: -1, Saved: func(weft.Saved) { <-stalls }},
	})
	if err != nil {
		t.Fatal(err)
	}
	state := []weft.Binding{weft.Bind("x", []int{1})}
	if err := rt.Steps(t.Context(), weft.Keep{Name: "n"}, 1, state, func(context.Context, int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(); !errors.Is(err, weft.ErrTimeout) || !errors.Is(err, weft.ErrCheckpoint) {
		t.Errorf("a checkpoint that is not written: %v", err)
	}
	if _, err := keeping(t, weft.Checkpoint{Dir: dir, Resume: true}, nil); !errors.Is(err, weft.ErrCheckpoint) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the folder meanwhile: %v", err)
	}
	close(stalls)
	for err = rt.Close(); errors.Is(err, weft.ErrTimeout); err = rt.Close() { // which waits again
	}
	if err != nil {
		t.Error(err)
	}
	if rt, err = keeping(t, weft.Checkpoint{Dir: dir, Resume: true}, nil); err != nil {
		t.Fatal(err)
	}
	rt.Close()
}

// A damaged checkpoint is told with its reason and the one before is used; with all of them
// damaged, the run errs.
func TestCheckpointDamaged(t *testing.T) {
	const words = 1_000
	g := layered(t, deep, words)
	rt := mustKeep(t, weft.Checkpoint{}, nil)
	want, err := outputsOf(t.Context(), rt, g, words, 3)
	rt.Close()
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"its checksum":  func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"after its":     func(b []byte) []byte { return b[:len(b)/2] },
		"its format is": func(b []byte) []byte { return []byte(strings.Replace(string(b), "checkpoint 1", "checkpoint 7", 1)) },
		"not begin as":  func([]byte) []byte { return []byte("something else") },
	} {
		dir := kept(t, g, words)
		files, _ := filepath.Glob(filepath.Join(dir, "g", "checkpoint-*"))
		if len(files) != 2 {
			t.Fatalf("%d checkpoints", len(files))
		}
		slices.Sort(files)
		for i, file := range []string{files[1], files[0]} {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(src), 0o600); err != nil {
				t.Fatal(err)
			}
			infos, err := weft.ReadCheckpoints(dir)
			if err != nil || len(infos) != 2 || (infos[0].Err() == nil) != (i == 0) || infos[1].Err() == nil {
				t.Errorf("%s: %+v, %v", name, infos, err)
			}
			if i == 1 {
				break
			}
			// In a copy, for going on writes new ones.
			again := filepath.Join(t.TempDir(), "again")
			if err := os.CopyFS(again, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			var told []weft.Saved
			rt := mustKeep(t, weft.Checkpoint{Dir: again, Resume: true, Every: -1, Saved: func(s weft.Saved) { told = append(told, s) }}, nil)
			got, err := outputsOf(t.Context(), rt, g, words, 3)
			rt.Close()
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v", name, err)
			}
			if len(told) != 2 || !told[0].Resumed || len(told[0].Refused) != 1 || !strings.Contains(told[0].Refused[0].Error(), name) {
				t.Errorf("%s: told %+v", name, told)
			}
		}
		rt := mustKeep(t, weft.Checkpoint{Dir: dir, Resume: true}, nil)
		if _, err := outputsOf(t.Context(), rt, g, words, 3); !errors.Is(err, weft.ErrCheckpoint) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: all damaged: %v", name, err)
		}
		rt.Close()
	}
}

// A checkpoint that cannot be written is told, and the computation goes on to its result.
func TestCheckpointUnwritable(t *testing.T) {
	const words = 1_000
	g := layered(t, deep, words)
	dir := filepath.Join(t.TempDir(), "c")
	failed, gone := 0, false // the runtime tells one after another
	rt := mustKeep(t, weft.Checkpoint{Dir: dir, Every: time.Nanosecond, Saved: func(s weft.Saved) {
		if !gone { // the folder goes after the first one
			gone = true
			if err := os.RemoveAll(filepath.Join(dir, "g")); err != nil {
				t.Error(err)
			}
			return
		}
		if failed++; s.Err == nil || !errors.Is(s.Err, fs.ErrNotExist) {
			t.Errorf("%+v", s)
		}
	}}, nil)
	_, err := outputsOf(t.Context(), rt, g, words, 3)
	rt.Close() // after which all is told
	if err != nil || failed == 0 {
		t.Errorf("%d checkpoints failed: %v", failed, err)
	}
}

// A checkpoint on demand is on the disk when the call returns, and only what changed is
// written.
func TestCheckpointDemand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	var told []weft.Saved
	rt := mustKeep(t, weft.Checkpoint{Dir: dir, Every: -1, Saved: func(s weft.Saved) { told = append(told, s) }}, nil)
	defer rt.Close()
	large, small := make([]byte, 16<<20), make([]int64, 1)
	answers, asked := make(chan error, 1), 0
	ask := func() {
		asked++
		go func() { answers <- rt.Checkpoint(t.Context()) }()
	}
	err := rt.Steps(t.Context(), weft.Keep{Name: "n"}, 1<<40, []weft.Binding{weft.Bind("large", large), weft.Bind("small", small)}, func(_ context.Context, i int) error {
		small[0]++
		if i == 10 {
			ask()
		}
		select {
		case err := <-answers:
			if err != nil || asked == 2 {
				return errors.Join(errStop, err)
			}
			ask()
		case <-time.After(time.Millisecond):
		}
		return nil
	})
	if err == nil || err.Error() != errStop.Error() {
		t.Fatal(err)
	}
	if len(told) != 2 || told[0].Bytes < 16<<20 || told[1].Bytes > 2<<20 || told[1].State < 16<<20 || told[0].Done < 11 || told[1].Finished {
		t.Errorf("told %+v", told)
	}
	infos, err := weft.ReadCheckpoints(dir)
	if err != nil || len(infos) != 2 || infos[0].Done != told[1].Done || infos[0].Err() != nil || infos[0].Data["large"] != 16<<20 {
		t.Errorf("%+v, %v", infos, err)
	}
}

// A link in place of a computation's folder is refused, and what is where it leads stays.
func TestCheckpointLink(t *testing.T) {
	steps := func(c weft.Checkpoint) error {
		rt := mustKeep(t, c, nil)
		defer rt.Close()
		mem := make([]uint64, 8)
		return rt.Steps(t.Context(), weft.Keep{Name: "sim"}, 3, []weft.Binding{weft.Bind("mem", mem)}, func(context.Context, int) error {
			mem[0]++
			return nil
		})
	}
	good, evil := t.TempDir(), t.TempDir()
	if err := steps(weft.Checkpoint{Dir: good}); err != nil {
		t.Fatal(err)
	}
	files := func() []string {
		names, err := filepath.Glob(filepath.Join(good, "sim", "*"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%q, %v", names, err)
		}
		return names
	}
	before := files()
	if err := os.Symlink(filepath.Join(good, "sim"), filepath.Join(evil, "sim")); err != nil {
		t.Skip(err)
	}
	if err := steps(weft.Checkpoint{Dir: evil}); !errors.Is(err, weft.ErrCheckpoint) || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("a link was followed: %v", err)
	}
	if after := files(); !slices.Equal(before, after) {
		t.Errorf("%q became %q", before, after)
	}
	rt := mustKeep(t, weft.Checkpoint{Dir: evil, ResumeIfAny: true}, nil)
	defer rt.Close()
	for _, name := range []string{"sim", "../" + filepath.Base(good) + "/sim"} {
		if _, ok, err := rt.Kept(weft.Keep{Name: name}); ok || err == nil {
			t.Errorf("Kept read %s: %v", name, err)
		}
	}
}

// A checkpoint that is asked for while the last one is written is that one: of steps that were
// finished, and of some whose context ended.
func TestCheckpointAskedAtEnd(t *testing.T) {
	for _, end := range []bool{false, true} {
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error, 1)
			var rt *weft.Runtime
			ask := func() { go func() { got <- rt.Checkpoint(t.Context()) }() }
			rt = mustKeep(t, weft.Checkpoint{Dir: filepath.Join(t.TempDir(), "c"), Every: -1, Saved: func(weft.Saved) {
				if end {
					ask()
					time.Sleep(time.Millisecond) // which lets it ask; what it is told does not depend on that
				}
			}}, nil)
			mem := make([]uint64, 1<<16)
			err := rt.Steps(ctx, weft.Keep{Name: "a"}, 2, []weft.Binding{weft.Bind("mem", mem)}, func(_ context.Context, i int) error {
				mem[0]++
				switch {
				case end && i == 0:
					cancel()
				case !end && i == 1:
					ask()
				}
				return nil
			})
			if (err != nil) != end {
				t.Fatal(err)
			}
			if err := <-got; err != nil && !strings.Contains(err.Error(), "no computation is kept now") {
				t.Errorf("ended by its context %v: %v", end, err)
			}
			rt.Close()
			cancel()
		}
	}
}

// Another input is refused even if its checksum is the same.
func TestCheckpointSameChecksum(t *testing.T) {
	const words = 1_000
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := func(words []uint64) uint32 {
		var b []byte
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return crc32.Checksum(b, table)
	}
	a := slices.Repeat([]uint64{3}, words)
	b := slices.Clone(a)
	b[0] = 1e9
	// The checksum is linear: of which of the last 32 bits must change, each that is tried tells.
	b[words-1] = 0
	zero := sum(b)
	var rows, made [32]uint32 // by the highest bit that changing made[i] changes
	for i := range 32 {
		b[words-1] = 1 << i
		change, by := sum(b)^zero, uint32(1)<<i
		for change != 0 {
			top := bits.Len32(change) - 1
			if rows[top] == 0 {
				rows[top], made[top] = change, by
				break
			}
			change, by = change^rows[top], by^made[top]
		}
	}
	last := uint32(0)
	for need := sum(a) ^ zero; need != 0; {
		top := bits.Len32(need) - 1
		need, last = need^rows[top], last^made[top]
	}
	b[words-1] = uint64(last)
	if sum(a) != sum(b) || slices.Equal(a, b) {
		t.Fatal("the inputs do not have one checksum")
	}
	g := layered(t, deep, words)
	rt := mustKeep(t, weft.Checkpoint{Dir: kept(t, g, words), Resume: true}, nil)
	defer rt.Close()
	_, err := rt.RunStages(t.Context(), weft.Keep{Name: "g"}, g, weft.Bind("in", b), weft.Bind("even", make([]uint64, words)), weft.Bind("early", make([]uint64, words)), weft.Bind("count", make([]uint64, 8)))
	if !errors.Is(err, weft.ErrOtherCheckpoint) || !strings.Contains(err.Error(), "input in is") {
		t.Errorf("%v", err)
	}
}

// Stages that do not use data which lies across them, as when tasks before write it and tasks after read
// it, run without it.
func TestRunStagesPassedOver(t *testing.T) {
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: 8, Input: true})
	begin := b.Data(graph.Data{Name: "begin", Bytes: 8})
	end := b.Data(graph.Data{Name: "end", Bytes: 8, Output: true})
	add := func(to graph.DataID, from ...graph.DataID) {
		task := graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("mix")}}}
		for _, d := range from {
			task.Uses = append(task.Uses, graph.Use{Data: d, Access: graph.Read})
		}
		task.Uses = append(task.Uses, graph.Use{Data: to, Access: graph.Write})
		b.Add(task)
	}
	add(begin, in)
	last := in
	for i := range 40 { // a chain that leaves begin alone
		next := b.Data(graph.Data{Name: fmt.Sprint("chain ", i), Bytes: 8})
		add(next, last)
		last = next
	}
	add(end, begin, last)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	run := func(c weft.Checkpoint) uint64 {
		rt := mustKeep(t, c, nil)
		defer rt.Close()
		x, y := []uint64{5}, []uint64{0}
		if _, err := rt.RunStages(t.Context(), weft.Keep{Name: "g"}, g, weft.Bind("in", x), weft.Bind("end", y)); err != nil {
			t.Fatal(err)
		}
		return y[0]
	}
	if got, want := run(weft.Checkpoint{Dir: filepath.Join(t.TempDir(), "c"), Every: time.Nanosecond}), run(weft.Checkpoint{}); got != want {
		t.Errorf("in stages it is %d, and %d at once", got, want)
	}
}

// A computation that ends after Close has given the folder back when it returns, though its last checkpoint
// was still being written.
func TestCheckpointEndsAfterClose(t *testing.T) {
	c := weft.Checkpoint{Dir: filepath.Join(t.TempDir(), "c"), Every: time.Nanosecond}
	rt := mustKeep(t, c, nil)
	mem := make([]byte, 128<<20)
	err := rt.Steps(t.Context(), weft.Keep{Name: "loop"}, 1<<30, []weft.Binding{weft.Bind("mem", mem)}, func(ctx context.Context, i int) error {
		if ds, err := os.ReadDir(filepath.Join(c.Dir, "loop")); err != nil || len(ds) == 0 || i == 0 {
			time.Sleep(time.Millisecond)
			return err
		}
		if err := rt.Close(); err != nil { // while a checkpoint is being written
			return err
		}
		return errStop
	})
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	c.ResumeIfAny = true
	mustKeep(t, c, nil).Close()
}

// A computation called as the file that locks the folder is refused, and not told to remove that file.
func TestCheckpointLockName(t *testing.T) {
	rt := mustKeep(t, weft.Checkpoint{Dir: filepath.Join(t.TempDir(), "c")}, nil)
	defer rt.Close()
	err := rt.Steps(t.Context(), weft.Keep{Name: "lock"}, 1, []weft.Binding{weft.Bind("mem", make([]byte, 1))}, func(context.Context, int) error { return nil })
	if err == nil || strings.Contains(err.Error(), "remove it") || !strings.Contains(err.Error(), `"lock"`) {
		t.Errorf("the name of the lock is answered by %v", err)
	}
}

// A folder that cannot be made is not told as one that has nothing to resume.
func TestCheckpointNoFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err := errors.Join(err, os.Remove(here)); err != nil {
		t.Fatal(err)
	}
	_, err = keeping(t, weft.Checkpoint{Dir: "c"}, nil)
	if !errors.Is(err, weft.ErrCheckpoint) || errors.Is(err, weft.ErrNoCheckpoint) {
		t.Errorf("a folder that cannot be made is told as %v", err)
	}
}

// What tasks have not written of an output that is an input too is the caller's, also after a
// resume: what lies between the parts that a checkpoint has is kept.
func TestRunStagesBetweenParts(t *testing.T) {
	const words = 4 << 20 / 8 // four blocks
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 * words, Input: true, Output: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 64, Output: true})
	task := graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("mix"), Launch: graph.Grid(1)}}}
	at := []int64{0, 100, words/2 - 1, words / 2} // a word within a block, one at its end, one at the beginning
	for k := range at[1:] {
		task.Uses = []graph.Use{{Data: x, Offset: 8 * at[k], Bytes: 8}, {Data: x, Offset: 8 * at[k+1], Bytes: 8, Access: graph.Write}}
		b.Add(task)
	}
	task.Uses = []graph.Use{{Data: x}, {Data: y, Access: graph.Write}}
	b.Add(task)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := weft.Checkpoint{Dir: filepath.Join(t.TempDir(), "c"), Every: -1}
	outputs := func() []uint64 {
		rt := mustKeep(t, c, func(int64) {
			if c.Resume {
				t.Error("a finished graph was computed")
			}
		})
		defer rt.Close()
		xs, ys := make([]uint64, words), make([]uint64, 8)
		for i := range xs {
			xs[i] = uint64(i) * 3
		}
		if _, err = rt.RunStages(t.Context(), weft.Keep{Name: "g"}, g, weft.Bind("x", xs), weft.Bind("y", ys)); err != nil {
			t.Fatal(err)
		}
		return slices.Concat(xs, ys)
	}
	want := outputs()
	c.Resume = true
	for i, got := range outputs() {
		if got != want[i] {
			t.Fatalf("word %d is %d after a resume, and was %d", i, got, want[i])
		}
	}
	if want[1] != 3 || want[words-1] != 3*(words-1) {
		t.Error("tasks wrote more than they were to")
	}
}

// What is forgotten is gone and its name free, whether this process or another computed it, and a computation that goes on is
// not forgotten.
func TestForget(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	rt := mustKeep(t, weft.Checkpoint{Dir: dir, Every: -1}, nil)
	state := []weft.Binding{weft.Bind("x", []int{1})}
	for range 2 {
		err := rt.Steps(t.Context(), weft.Keep{Name: "used"}, 1, state, func(context.Context, int) error {
			if err := rt.Forget(t.Context(), "used"); !errors.Is(err, weft.ErrCheckpoint) || !strings.Contains(err.Error(), "goes on") {
				t.Errorf("while it goes on: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Steps(t.Context(), weft.Keep{Name: "used"}, 1, state, func(context.Context, int) error { return nil }); !errors.Is(err, weft.ErrCheckpoint) {
			t.Errorf("a name that is taken: %v", err)
		}
		if err := rt.Forget(t.Context(), "used"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "used")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("its folder: %v", err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "old"), 0o700), rt.Forget(t.Context(), "old"), rt.Forget(t.Context(), "none")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "old")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("that of another process: %v", err)
	}
	if err := rt.Forget(t.Context(), ".."); !errors.Is(err, weft.ErrCheckpoint) {
		t.Errorf("a bad name: %v", err)
	}
	rt.Close()
	if err := rt.Forget(t.Context(), "used"); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
