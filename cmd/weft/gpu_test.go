//go:build linux && !race && (stub || cgo)

package main

// Runs on GPUs, on a stand-in for NVIDIA's libraries. Worker processes take the race
// detector long.

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
)

// withGPUs makes worker processes find the stand-in.
func withGPUs(t *testing.T) {
	t.Helper()
	dir, err := cudatest.Libraries()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
}

// A workload runs on a GPU, on several workers of it and beside the CPU; what the
// stand-in has of its kernels is a library's routine.
func TestGPURun(t *testing.T) {
	withGPUs(t)
	for _, devices := range []string{"cuda:0", "cuda:0/2", "cuda:0/4", "cuda:0,cpu"} {
		out := works(t, "run", "gemm", "--size", "40", "--devices", devices, "--repeat", "2", "--calibrate=false")
		if !strings.Contains(out, "agrees with an independent reference") {
			t.Errorf("%s: %s", devices, out)
		}
	}
}

// A graph's kernel in a file of CUDA C is compiled and run by a worker, and one that does
// not compile fails in one line with what the compiler says.
func TestGPURunGraph(t *testing.T) {
	withGPUs(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"x.bin":  string(make([]byte, 8000)), // two tasks of 1000 numbers
		"bad.cu": "extern \"C\" __global__ void f() { undefined_name(); }",
		"add.cu": `struct P { unsigned n, k; };
extern "C" __global__ void add(unsigned *x, P p) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < p.n) x[i] += p.k;
}`,
		"add.json": `{
  "data": [{"name": "x", "dtype": "u4", "shape": [2, 1000], "input": true, "output": true}],
  "kernels": [{"name": "add", "impls": [{"file": "add.cu", "entry": "add", "per": 64, "block": 64}]}],
  "tasks": [
    {"kernel": "add", "grid": 1000, "params": [{"int": [1000, 5]}], "uses": [{"data": "x", "bytes": 4000, "access": "readwrite"}]},
    {"kernel": "add", "grid": 1000, "params": [{"int": [1000, 6]}], "uses": [{"data": "x", "offset": 4000, "access": "readwrite"}]}]
}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const flags = " --bind x=x.bin --out x=out.bin --devices cuda:0 --calibrate off --cache-dir off"
	works(t, strings.Fields("run add.json --repeat 2"+flags)...)
	got, err := os.ReadFile("out.bin")
	want := strings.Repeat("\x05\x00\x00\x00", 1000) + strings.Repeat("\x06\x00\x00\x00", 1000)
	if err != nil || string(got) != want {
		t.Errorf("%v, and what was written begins with %v", err, got[:min(8, len(got))])
	}
	src, err := os.ReadFile("add.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("bad.json", []byte(strings.Replace(string(src), "add.cu", "bad.cu", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runWeft(strings.Fields("run bad.json" + flags)...)
	if code != exitFailure || !strings.Contains(stderr, "undefined_name") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, %s", code, stderr)
	}
}

// Workers of a GPU are struck alone, in halves and beside cores, and come back.
func TestGPUChaos(t *testing.T) {
	withGPUs(t)
	for _, devices := range []string{"cuda:0", "cuda:0/2,cpu/1"} {
		for _, limit := range []string{"2s", "8s", "40s"} { // a busy machine has few rounds in it
			args := []string{"chaos", "gemm", "--size", "40", "--for", limit, "--faults", "kill,hang,starve", "--devices", devices, "--seed", "5", "--json"}
			var a chaos.Account
			if err := json.Unmarshal([]byte(works(t, args...)), &a); err != nil {
				t.Fatal(err)
			}
			if a.Right == 0 || a.Wrong > 0 || a.Left > 0 {
				t.Errorf("%s: %+v", devices, a)
			}
			if a.Losses > 0 && a.Recoveries > 0 {
				break
			}
			if limit == "40s" {
				t.Errorf("%s: no device was lost and came back: %+v", devices, a)
			}
		}
	}
}
