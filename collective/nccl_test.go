//go:build linux && !race && !gpu && (stub || cgo)

package collective_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/machine"
)

// standIns opens the GPUs of a stand-in for NVIDIA's libraries, each in a worker of
// its own.
func standIns(t *testing.T, split int) *proc.Options {
	t.Helper()
	dir, err := cudatest.Libraries()
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(cuda.Options{LibraryPath: []string{dir}, MemBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := arena.Open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mem.Close(); err != nil {
			t.Error(err)
		}
	})
	return &proc.Options{Workers: proc.Workers{Memory: mem}, Driver: "cuda", Config: config, Parts: func(machine.Device) int { return split }}
}

// workers are the processes that serve this one's devices.
func workers(t *testing.T) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path) // number, (name), state, parent
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if fields[1] == strconv.Itoa(os.Getpid()) && strings.Contains(string(env), "WEFT_WORKER=worker") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// Workers are the ranks of NCCL: the name by which they find one another travels
// through this process, the data does not. When one is killed the others let go,
// and the operation is done by a graph.
func TestNCCLInWorkers(t *testing.T) {
	ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{proc.New(*standIns(t, 1))}})
	g := group(t, rt, collective.Options{})
	if g.Size() != 3 {
		t.Fatalf("%d devices", g.Size())
	}
	for _, count := range []int64{1, 1003} {
		everyOperation(t, ctx, g, count)
	}
	in := vectors(3, same(1000), x)
	sum := func() collective.Result {
		t.Helper()
		out := vectors(3, same(1000), zero)
		res, err := collective.AllReduce(ctx, g, collective.Sum, in, out)
		if err != nil {
			t.Fatal(err)
		}
		for r := range out {
			for i := range out[r] {
				if out[r][i] != total(3, int64(i)) {
					t.Fatalf("element %d of rank %d is %v, want %v", i, r, out[r][i], total(3, int64(i)))
				}
			}
		}
		return res
	}
	if res := sum(); res.Algorithm != collective.Native || g.Failure() != nil {
		t.Errorf("done by %s, %v", res.Algorithm, g.Failure())
	}
	for _, pid := range workers(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for range 3 { // at whatever moment the loss is noticed
			sum()
		}
	}
}

// Workers that share a GPU cannot be ranks of NCCL.
func TestNCCLNotOnOneGPU(t *testing.T) {
	ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{proc.New(*standIns(t, 2))}})
	g := group(t, rt, collective.Options{Devices: []string{"cuda:0.0", "cuda:0.1"}})
	in, out := vectors(2, same(1000), x), vectors(2, same(1000), zero)
	res, err := collective.AllReduce(ctx, g, collective.Sum, in, out)
	if err != nil || res.Algorithm == collective.Native || out[1][7] != total(2, 7) {
		t.Errorf("%v, by %s: %v", err, res.Algorithm, out[1][7])
	}
}
