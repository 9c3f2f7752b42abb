package exec

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
)

// Whatever parts are noted and forgotten: a part that was noted last is found changed when any
// byte of it did, and nothing that did not change is.
func TestSumsPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	mem := make([]byte, 5*pieceBytes+123)
	size := int64(len(mem))
	s := newSums()
	for range 500 {
		off := rnd.Int64N(size)
		n := 1 + rnd.Int64N(size-off)
		if rnd.IntN(3) == 0 {
			n = min(n, 10)
		}
		if rnd.IntN(4) == 0 {
			s.forget(7, off, n)
		} else {
			for i := off; i < off+n; i += 1 + rnd.Int64N(1000) {
				mem[i]++
			}
			s.note(7, mem, off, n)
			at := off + rnd.Int64N(n)
			mem[at] ^= 4
			if p, bad := s.changed(7, mem, at, 1); !bad || p.off > at || p.off+p.n <= at {
				t.Fatalf("byte %d changed, found %v: %+v", at, bad, p)
			}
			mem[at] ^= 4
		}
		if p, bad := s.changed(7, mem, 0, size); bad {
			t.Fatalf("nothing changed, and %+v did", p)
		}
		end := int64(0)
		for _, p := range s.known[7] {
			if p.off < end || p.n <= 0 || p.n > pieceBytes {
				t.Fatalf("pieces overlap: %+v", s.known[7])
			}
			end = p.off + p.n
		}
	}
}

// Checksums change no result, on devices with memory of their own and without.
func TestSumsRun(t *testing.T) {
	x := open(t, Config{Checksums: true, Drivers: []driver.Driver{faked(t, "devices 2; peer", incs), cpu.New(cpu.Options{Parts: 2, Funcs: incs})}})
	for range 20 {
		runs(t, x)
	}
	left := make(chan [3]int, 1)
	x.do(func(l *loop) { left <- [3]int{len(l.sums.flying), len(l.sums.bad), len(l.sums.homes)} })
	if n := <-left; n != [3]int{} {
		t.Errorf("of operations, bad runs and homes %d are kept", n)
	}
}

// A kernel that writes an input fails its run, with its name.
func TestSumsInput(t *testing.T) {
	mem := bytes.Repeat([]byte{1}, 100)
	x := open(t, Config{Checksums: true, Drivers: []driver.Driver{cpu.New(cpu.Options{Parts: 1, Funcs: map[string]driver.Func{
		"scribble": func(c *driver.Call, _, _ int) { c.Args[0][50]++ },
	}})}})
	var b graph.Builder
	d := b.Data(graph.Data{Name: "weights", Bytes: 100, Input: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "scribble", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "scribble"}}}, Launch: graph.Grid(1)}},
		Uses:  []graph.Use{{Data: d, Access: graph.Read}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Run(context.Background(), g, engine.RunOptions{}, func(graph.DataID) []byte { return mem })
	if !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), `kernel "scribble"`) || !strings.Contains(err.Error(), "argument 0") {
		t.Errorf("the run ended with %v", err)
	}
}

// Resident data that changes at home is not handed out, and fails a run that reads it there.
func TestSumsResident(t *testing.T) {
	x := open(t, Config{Checksums: true, Drivers: []driver.Driver{faked(t, "devices 1", incs)}})
	mem := []byte{1, 2, 3, 4}
	ref, err := x.Put("state", mem, graph.Versioned)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fetch := func() error { return x.Fetch(ctx, ref, func() error { return nil }, func() {}) }
	run := func() error {
		var b graph.Builder
		d := b.Data(graph.Data{Name: "x", Bytes: 4, Input: true})
		o := b.Data(graph.Data{Name: "y", Bytes: 4, Output: true})
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "inc", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "inc"}}}, Launch: graph.Grid(1)}},
			Uses:  []graph.Use{{Data: o, Access: graph.Write}, {Data: d, Access: graph.Read}},
		})
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Run(ctx, g, engine.RunOptions{Bind: []engine.Binding{{Data: d, Ref: ref}}}, func(graph.DataID) []byte { return make([]byte, 4) })
		return err
	}
	if err := fetch(); err != nil {
		t.Fatal(err)
	}
	x.do(func(*loop) { mem[2] ^= 8 })
	if err := fetch(); !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), `data "state"`) {
		t.Errorf("data that changed is handed out: %v", err)
	}
	if err := run(); !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), `data "state"`) {
		t.Errorf("a run that read data that changed: %v", err)
	}
	x.do(func(*loop) { mem[2] ^= 8 })
	if err := fetch(); err != nil {
		t.Errorf("data that is right again: %v", err)
	}
	if err := run(); err != nil {
		t.Errorf("a run once data is right again: %v", err)
	}
	x.Release(ref)
}
