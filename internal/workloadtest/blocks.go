package workloadtest

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
)

// Blocks is a program that runs a kernel of CUDA C on the host, the threads of a block in turn.
type Blocks struct{ program string }

// NewBlocks compiles the program from testdata/host.cc, which calls serve of workload/testdata/host.h.
func NewBlocks(t testing.TB) Blocks {
	t.Helper()
	clang := os.Getenv("CLANG")
	if clang == "" {
		clang = "clang-19"
	}
	b := Blocks{filepath.Join(t.TempDir(), "host")}
	args := []string{"-x", "c++", "-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o", b.program, "testdata/host.cc", "-lm"}
	if out, err := exec.Command(clang, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return b
}

// Run runs the tasks of a graph in their order. data has the memory of what is bound by name.
func (b Blocks) Run(t testing.TB, g *graph.Graph, data map[string][]byte) {
	t.Helper()
	memory := make([][]byte, g.NumData())
	for i := range memory {
		d := g.Data(graph.DataID(i))
		if memory[i] = data[d.Name]; int64(len(memory[i])) != d.Bytes {
			t.Fatalf("%s has %d bytes, and %d are bound", d.Name, d.Bytes, len(memory[i]))
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
		if task.Workspace > 0 {
			uses = append(uses, make([]byte, task.Workspace))
		}
		for i := range task.Steps {
			b.step(t, &task.Steps[i], uses)
		}
	}
}

// step runs a step with what its task uses.
func (b Blocks) step(t testing.TB, s *graph.Step, uses [][]byte) {
	t.Helper()
	args := uses
	if s.Args != nil {
		args = nil
		for _, a := range s.Args {
			args = append(args, uses[a])
		}
	}
	i := slices.IndexFunc(s.Kernel.Impls, func(i graph.Impl) bool { return i.Dialect == graph.PTX })
	l := s.Kernel.Impls[i].Shape(s.Launch)
	h := struct {
		X, Y, Threads, Params, Buffers, _ uint32
		Bytes                             [12]uint64
	}{X: l.Grid[0], Y: l.Grid[1], Threads: l.Block[0], Params: uint32(len(s.Params)), Buffers: uint32(len(args))}
	for i, a := range args {
		h.Bytes[i] = uint64(len(a))
	}
	var in bytes.Buffer
	if err := binary.Write(&in, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	in.Write(s.Params)
	for _, a := range args {
		in.Write(a)
	}
	cmd := exec.Command(b.program)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range args {
		out = out[copy(a, out):]
	}
}
