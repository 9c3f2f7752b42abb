//go:build clang

package msm

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
)

// The kernels for NVIDIA GPUs, as C++ for the host, add up what gnark-crypto does, with windows of
// all lengths.
func TestHost(t *testing.T) {
	clang := os.Getenv("CLANG")
	if clang == "" {
		clang = "clang-19"
	}
	program := filepath.Join(t.TempDir(), "host")
	if out, err := exec.Command(clang, "-x", "c++", "-O2", "-fsanitize=undefined", "-fsanitize-trap=all", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/host.cc").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for bits := 4; bits <= 16; bits++ {
		hosted[bn254.G1Affine](t, program, 300+bits, bits, 1, "sum")
		for k := 2; k <= 16; k *= 2 {
			hosted[bn254.G1Affine](t, program, 20+bits, bits, k, "opposites")
		}
	}
	for _, n := range []int{1, 2, 3, 5, 9, 256, 1025} {
		hosted[bn254.G1Affine](t, program, n, 0, 1, "")
	}
	hosted[bn254.G1Affine](t, program, 5000, 0, 1, "scalars r-1")
	hosted[bn254.G1Affine](t, program, 100, 0, 16, "")
	for _, n := range []int{1, 300} {
		hosted[bn254.G2Affine](t, program, n, 0, 1, "")
	}
	hosted[bn254.G2Affine](t, program, 60, 0, 8, "")
}

// hosted compares sums of some points, or one of them, with multiples of each point.
func hosted[P Point](t *testing.T, program string, n, bits, multiples int, only string) {
	t.Helper()
	for name, c := range cases[P](n) {
		if only != "" && name != only {
			continue
		}
		s := Sum[P]{N: n, window: bits, Multiples: multiples}
		if got, want := runHost(t, program, s.task(0, int64(n)), table(t.Context(), c.points, multiples), c.scalars), Reference(c.points, c.scalars); Total(got) != want || slices.ContainsFunc(got[1:], func(p P) bool { return p != *new(P) }) {
			t.Errorf("%s of %d points of %s with windows of %d, %d multiples: %v, want %v", name, n, group[P](), bits, multiples, got, want)
		}
	}
}

// runHost runs the steps of a task for GPUs.
func runHost[P Point](t *testing.T, program string, task graph.Task, points []P, scalars []fr.Element) []P {
	t.Helper()
	sums := make([]P, task.Uses[2].Bytes/pointBytes[P]())
	var in bytes.Buffer
	write := func(v any) { _ = binary.Write(&in, binary.LittleEndian, v) } // to memory
	write([]uint32{uint32(len(workloadtest.Bytes(points)) / 4), uint32(len(scalars) * 8), uint32(len(workloadtest.Bytes(sums)) / 4), uint32(task.Workspace / 4)})
	write(workloadtest.Bytes(points))
	write(workloadtest.Bytes(scalars))
	for _, s := range task.Steps[1:] { // the first is for CPUs
		var name [32]byte
		copy(name[:], s.Kernel.Impls[1].Entry)
		write(name)
		write([]uint32{s.Launch.Grid[0], max(s.Launch.Grid[1], 1)})
		write(s.Params)
	}
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil || len(out) != len(workloadtest.Bytes(sums)) {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	copy(workloadtest.Bytes(sums), out)
	return sums
}
