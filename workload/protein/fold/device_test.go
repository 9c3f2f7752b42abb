//go:build clang

package fold

import (
	"bytes"
	"encoding/binary"
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weft-run/weft/workload/protein"
)

// The kernel for GPUs, compiled for the host by clang-19, which compiles it for them as well.

// hosted compiles fold.cu for the host.
func hosted(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "host")
	if out, err := exec.Command("clang-19", "-x", "c++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "testdata/host.cpp", "-lstdc++", "-lm", "-o", bin).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// onHost advances all replicas of a run by its first round with the kernel for GPUs.
func onHost(t *testing.T, bin string, r *Run) (after [][lanes]float64, seen [][seenCount][lanes]float64) {
	t.Helper()
	round := r.round(0)
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
	return after, seen
}

// shake sets the replicas of a run near its native structure, or leaves them straight.
func (r *Run) shake(by float64) {
	if by == 0 {
		return
	}
	n := 3 * r.model.Beads()
	for g := range r.groups {
		for k := range n {
			for l := range lanes {
				r.state[2*n*g+k][l] = r.model.Native[k] + by*math.Sin(float64(1+k*(l+1)+g))
			}
		}
	}
}

// The kernel for GPUs goes where the reference goes, and sees what it sees, from straight chains and
// from native ones: with chains that it takes two to a block, one to a block and with lists of pairs.
func TestDeviceKernel(t *testing.T) {
	bin := hosted(t)
	for name, m := range map[string]*protein.Structure{"1CRN": open(t, "1CRN"), "BPTI": open(t, "BPTI"), "1UBI": open(t, "1UBI")} {
		for _, by := range []float64{0, 0.2} {
			r, err := NewOf(Config{Steps: 300, Every: 300, Replicas: 11, Low: 0.5, High: 1.2, Seed: 7}, m)
			if err != nil {
				t.Fatal(err)
			}
			r.shake(by)
			for i := range r.ladder {
				for l := range lanes {
					r.ladder[i][rungScale][l], r.ladder[i][rungStep][l] = 1.1, 1<<32-100
				}
			}
			after, seen := onHost(t, bin, r)
			worst := 0.0
			n := 3 * r.model.Beads()
			for k := range r.c.Replicas {
				x, v := make([]float64, n), make([]float64, n)
				g, l := k/lanes, k%lanes
				got := make([]float64, n)
				for q := range n {
					x[q], v[q], got[q] = r.state[2*n*g+q][l], 1.1*r.state[2*n*g+n+q][l], after[2*n*g+q][l]
				}
				want := r.reference(x, v, motion{r.c.TimeStep, r.c.Friction, r.c.Seed, 1<<32 - 100, 300}, r.temperatures[k], k)
				for q := range n {
					worst = max(worst, math.Abs(got[q]-want[q]), math.Abs(after[2*n*g+n+q][l]-v[q]))
				}
				f := Frame{Replica: k, Energy: seen[g][seenEnergy][l], Q: seen[g][seenQ][l], Rg: seen[g][seenRg][l], RMSD: seen[g][seenRMSD][l]}
				if err := r.checkFrame(f, got); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			t.Logf("%s, shaken by %v: off by %.2g at most", name, by, worst)
			limit := 1e-10
			if by == 0 {
				limit = 1e-5 // straight bends are unstable
			}
			if !(worst <= limit) {
				t.Errorf("%s, shaken by %v: off by %v", name, by, worst)
			}
		}
	}
}

func open(t *testing.T, name string) *protein.Structure {
	t.Helper()
	s, err := protein.Open(name, protein.Select{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
