package weft_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// Steps whose context ends, within a step that runs with it or after one, leave a checkpoint of
// whole steps on the disk when they return, however often checkpoints are taken, and another
// process goes on from there to the same result.
func TestStepsCancelled(t *testing.T) {
	const total, words = 12, 1000
	var b graph.Builder
	x, y := b.Data(graph.Data{Name: "x", Bytes: 8 * words, Input: true}), b.Data(graph.Data{Name: "y", Bytes: 8 * words})
	task := graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("mix")}}}
	task.Uses = []graph.Use{{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}}
	b.Add(task)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	// life runs a program and cancels it in step at: at place 0 before the step has done anything,
	// at place 3 when it has done all. A step changes a twice and, if memory is set, memory too.
	life := func(c weft.Checkpoint, memory bool, at, place int) (res, mem []uint64, first int, err error) {
		rt := mustKeep(t, c, nil)
		defer rt.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a, err := weft.Put(rt, "a", make([]uint64, words))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Release()
		mem, first = make([]uint64, 3), -1
		state := []weft.Binding{a.As("a")}
		if memory {
			state = append(state, weft.Bind("mem", mem))
		}
		err = rt.Steps(ctx, weft.Keep{Name: "loop"}, total, state, func(ctx context.Context, i int) error {
			if first < 0 {
				first = i
			}
			for p := range 4 {
				if i == at && p == place {
					cancel()
				}
				switch p {
				case 0:
					if memory {
						mem[i%3] += uint64(i + 1)
					}
				case 1, 2:
					if _, err := rt.Run(ctx, g, a.As("x"), a.As("y")); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			infos, e := weft.ReadCheckpoints(c.Dir) // before Close
			if e != nil || infos[0].Err() != nil {
				t.Fatalf("cancelled at %d of step %d, every %v: no checkpoint: %v, %v", place, at, c.Every, e, err)
			}
			done := at // whole steps
			if place == 3 {
				done++
			}
			if exact := place == 3 || !memory && place < 2; infos[0].Done != done && exact || infos[0].Done > done || infos[0].Done < 1 {
				t.Errorf("cancelled at %d of step %d, every %v: %d steps were kept", place, at, c.Every, infos[0].Done)
			}
			return nil, nil, first, err
		}
		if res, err = a.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		return res, mem, first, nil
	}
	for _, memory := range []bool{false, true} {
		wantRes, wantMem, _, err := life(weft.Checkpoint{}, memory, -1, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, every := range []time.Duration{-1, time.Nanosecond, time.Hour} {
			for place := range 4 {
				for _, at := range []int{1, 6, total - 1} {
					c := weft.Checkpoint{Dir: filepath.Join(t.TempDir(), "c"), Every: every}
					_, _, _, err := life(c, memory, at, place)
					if at == total-1 && place == 3 { // all was done
						if err != nil {
							t.Errorf("after the last step: %v", err)
						}
					} else if !errors.Is(err, context.Canceled) || !errors.Is(err, weft.ErrCancelled) || !strings.HasPrefix(err.Error(), "loop: ended after ") || strings.Contains(err.Error(), " 0 tasks") {
						t.Errorf("cancelled at %d of step %d: %v", place, at, err)
					}
					c.Resume = true
					res, mem, _, err := life(c, memory, -1, 0)
					if err != nil || !slices.Equal(res, wantRes) || !slices.Equal(mem, wantMem) && memory {
						t.Errorf("cancelled at %d of step %d, every %v, memory %v: not the result of steps that were not: %v", place, at, every, memory, err)
					}
				}
			}
		}
	}
}

// ResumeIfAny begins in a folder that is missing or empty and goes on in one that has a
// checkpoint. Without a folder nothing is kept, whatever else is said.
func TestResumeIfAny(t *testing.T) {
	for _, dir := range []string{"", t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		c := weft.Checkpoint{Dir: dir, Every: time.Hour, ResumeIfAny: true, Saved: func(weft.Saved) {}}
		count := make([]int, 1)
		for life := range 2 {
			rt := mustKeep(t, c, nil)
			if _, ok, err := rt.Kept(weft.Keep{Name: "count"}); err != nil || ok != (life > 0 && dir != "") {
				t.Errorf("folder %q, life %d: kept %v, %v", dir, life, ok, err)
			}
			calls := 0
			count[0] = 0
			err := rt.Steps(t.Context(), weft.Keep{Name: "count"}, 5, []weft.Binding{weft.Bind("count", count)}, func(context.Context, int) error {
				calls++
				count[0]++
				return nil
			})
			rt.Close()
			want := 5
			if life > 0 && dir != "" {
				want = 0 // it was finished
			}
			if err != nil || count[0] != 5 || calls != want {
				t.Errorf("folder %q, life %d: %d calls, counted to %d: %v", dir, life, calls, count[0], err)
			}
		}
		if dir == "" {
			continue
		}
		if _, err := keeping(t, weft.Checkpoint{Dir: dir}, nil); !errors.Is(err, weft.ErrHasCheckpoint) || !strings.Contains(err.Error(), "5 of 5 steps") {
			t.Errorf("not to be resumed: %v", err)
		}
	}
}
