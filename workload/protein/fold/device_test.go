//go:build clang

package fold

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The kernel for GPUs, compiled for the host by clang-19, which compiles it for them as well.

// hosted compiles fold.cu for the host.
func hosted(t *testing.T, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "host")
	args := append(flags, "-x", "c++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "testdata/host.cpp", "-lstdc++", "-lm", "-o", bin)
	if out, err := exec.Command("clang-19", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// onHost advances all replicas of a run by its first round with the kernel for GPUs.
func onHost(t *testing.T, bin string, r *Run) (before, after [][lanes]float64, seen [][seenCount][lanes]float64) {
	t.Helper()
	round := r.round(r.stepsOf(0))
	task := round.task(0, int64(r.groups))
	after, seen = make([][lanes]float64, len(r.state)), make([][seenCount][lanes]float64, r.groups)
	var in bytes.Buffer
	for _, v := range []any{
		[]uint64{uint64(len(r.ints)), uint64(len(r.reals)), uint64(rungCount * lanes * r.groups), uint64(lanes * len(r.state)), uint64(seenCount * lanes * r.groups), uint64(task.Workspace / 8)},
		task.Steps[0].Params, r.ints, r.reals, r.ladder, r.state,
	} {
		if err := binary.Write(&in, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bin)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	from := bytes.NewReader(out)
	for _, v := range []any{after, seen} {
		if err := binary.Read(from, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return r.state, after, seen
}

// The kernel for GPUs goes where the reference goes, with chunks of four beads and of eight.
func TestDeviceKernel(t *testing.T) {
	for _, flags := range [][]string{nil, {"-DFOURS=50"}} {
		bin := hosted(t, flags...)
		testSteps(t, func(t *testing.T, r *Run) (before, after [][lanes]float64, seen [][seenCount][lanes]float64) {
			return onHost(t, bin, r)
		})
	}
}

// Steps in parts are the same as in one, although each part begins with a new list of pairs: the chain
// is so hot that beads which were far from each other meet.
func TestDeviceParts(t *testing.T) {
	bin := hosted(t)
	const steps, part = 1500, 100
	begin := func(every int) *Run {
		r, err := NewOf(Config{Steps: steps, Every: every, Replicas: 8, Low: 4, Seed: 5}, open(t, "1UBI"))
		if err != nil {
			t.Fatal(err)
		}
		r.shake(0.2)
		return r
	}
	_, want, _ := onHost(t, bin, begin(steps))
	r := begin(part)
	for first := 0; first < steps; first += part {
		r.climb(first, nil)
		_, after, _ := onHost(t, bin, r)
		copy(r.state, after)
	}
	if !slices.Equal(r.state, want) {
		t.Error("the states differ")
	}
}
