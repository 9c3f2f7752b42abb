//go:build clang

package ntt

import (
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
)

// emulator runs steps of kernels of CUDA C in a program for the host.
type emulator struct {
	in  io.Writer
	out io.Reader
}

// newEmulator compiles ntt.cu for the host.
func newEmulator(t *testing.T) *emulator {
	t.Helper()
	clang := os.Getenv("CLANG")
	if clang == "" {
		clang = "clang-19"
	}
	program := filepath.Join(t.TempDir(), "host")
	if out, err := exec.Command(clang, "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/host.cc").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &emulator{in, out}
}

// step runs a step with its buffers.
func (e *emulator) step(t *testing.T, s *graph.Step, buffers [][]byte) {
	t.Helper()
	i := slices.IndexFunc(s.Kernel.Impls, func(i graph.Impl) bool { return i.Dialect == graph.PTX })
	l := s.Kernel.Impls[i].Shape(s.Launch)
	h := struct {
		Kernel, X, Y, Threads, Params, Buffers uint32
		Bytes                                  [3]uint64
	}{X: l.Grid[0], Y: l.Grid[1], Threads: l.Block[0], Params: uint32(len(s.Params)), Buffers: uint32(len(buffers))}
	if s.Kernel == Move {
		h.Kernel = 1
	}
	for i, b := range buffers {
		h.Bytes[i] = uint64(len(b))
	}
	if err := binary.Write(e.in, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	for _, b := range append([][]byte{s.Params}, buffers...) {
		if _, err := e.in.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadFull(e.out, buffers[1]); err != nil {
		t.Fatal(err)
	}
}

// graph runs the tasks of a graph in their order.
func (e *emulator) graph(t *testing.T, g *graph.Graph, data map[string][]byte) {
	t.Helper()
	memory := make([][]byte, g.NumData())
	for i := range memory {
		d := g.Data(graph.DataID(i))
		if memory[i] = data[d.Name]; memory[i] == nil {
			memory[i] = make([]byte, d.Bytes)
		}
	}
	for id := range g.NumTasks() {
		task := g.Task(graph.TaskID(id))
		var uses [][]byte
		for _, u := range task.Uses {
			m := memory[u.Data][u.Offset:]
			if u.Bytes > 0 {
				m = m[:u.Bytes]
			}
			uses = append(uses, m)
		}
		uses = append(uses, make([]byte, task.Workspace))
		for i := range task.Steps {
			s := &task.Steps[i]
			var args [][]byte
			for _, a := range s.Args {
				args = append(args, uses[a])
			}
			e.step(t, s, args)
		}
	}
}

// The kernels of CUDA C, with the threads of a block in turn on a core, compute what
// gnark-crypto does: one pass and several, whole and in parts.
func TestBlocks(t *testing.T) {
	e := newEmulator(t)
	for _, c := range []struct{ log, most int }{{0, 9}, {1, 9}, {8, 9}, {9, 9}, {11, 9}, {9, 3}, {10, 3}} {
		for i := range 4 {
			tr := Transform{Inverse: i&1 != 0, Coset: i&2 != 0}
			j := workloadtest.New[*job](t)(New(Config{Transform: tr, Log: c.log, Seed: 9}))
			j.most = c.most
			rows := j.Items().Extent
			for _, ranges := range [][]sched.Range{{{Hi: rows}}, {{Hi: rows / 4}, {Lo: rows / 4, Hi: rows}}} {
				g, err := j.Graph(ranges)
				if err != nil {
					t.Fatal(err)
				}
				clear(j.out)
				e.graph(t, g, map[string][]byte{
					"elements": workloadtest.Bytes(j.x), "tables": workloadtest.Bytes(j.tables), "transform": workloadtest.Bytes(j.out),
				})
				if err := j.Check(); err != nil {
					t.Errorf("in passes of 2^%d at most, for %d ranges: %v", c.most, len(ranges), err)
				}
			}
		}
	}
}
