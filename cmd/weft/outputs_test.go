package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-run/weft"
)

// writing are all ways to name a file that a command writes. FILE stands for it, and EXT is how its name ends.
var writing = []struct{ args, ext string }{
	{"run network --graph karate --devices cpu/1 --out FILE", ".csv"},
	{"run reduce --n 64 --devices cpu/1 --trace FILE", ".json"},
	{"run ../../examples/blur/blur.json --bind image=../../examples/blur/image.npy --devices cpu/1 --out smooth=FILE", ".npy"},
	{"run ../../examples/blur/blur.json --bind image=../../examples/blur/image.npy --devices cpu/1 --trace FILE", ".json"},
	{"run fold --replicas 2 --steps 10 --frame 10 --devices cpu/1 --out FILE", ".pdb"},
	{"run fold --replicas 2 --steps 10 --frame 10 --devices cpu/1 --html FILE", ".html"},
	{"train reservoir --size 16 --task narma10 --devices cpu/1 --out FILE", ".safetensors"},
	{"sim mixed uniform --trace FILE", ".json"},
	{"plan gemm --size 64 --here none --svg FILE", ".svg"},
	{"plan gemm --size 64 --here none --plans FILE", ".jsonl"},
	{"bench domains --devices cpu/1 --repeat 1 --timeout 1ms --html FILE", ".html"},
	{"bench suite --devices cpu/1 --timeout 1ms --html FILE", ".html"},
	{"bench predict --devices cpu/1 --timeout 1ms --record FILE", ".json"},
	{"run merkle --leaves 64 --devices cpu/1 --checkpoint FILE", ""},
	{"run fold --replicas 2 --steps 10 --frame 10 --devices cpu/1 --checkpoint FILE", ""},
	{"run ../../examples/blur/blur.json --bind image=../../examples/blur/image.npy --devices cpu/1 --checkpoint FILE", ""},
	{"zk setup FILE --constraints 1", ""},
	{"zk prove KEYS --witness KEYS/witness.json --devices cpu/1 --out FILE", ".bin"},
	{"zk prove KEYS --witness KEYS/witness.json --devices cpu/1 --out KEYS/proof --public FILE", ".json"},
}

// A file that cannot be written under its name is a mistake on the command line, which is found before anything
// is computed, whatever command it is.
func TestOutputsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	keys, file := filepath.Join(dir, "keys"), filepath.Join(dir, "file")
	works(t, "zk", "setup", keys, "--constraints", "1")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range writing {
		for _, folder := range []string{filepath.Join(dir, "none"), file} {
			if c.ext == "" && folder != file {
				continue // folders are made
			}
			name := filepath.Join(folder, "x"+c.ext)
			args := strings.ReplaceAll(strings.ReplaceAll(c.args, "FILE", name), "KEYS", keys)
			code, stdout, stderr := runWeft(strings.Fields(args)...)
			if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, filepath.Base(folder)) {
				t.Errorf("weft %s: status %d, %q, %q", args, code, stdout, stderr)
			}
		}
	}
}

// What was not verified is told, and why.
func TestNotVerified(t *testing.T) {
	var v *verified
	for _, c := range []struct {
		rep  weft.Report
		want string
	}{
		{weft.Report{Tasks: 3}, ""},
		{weft.Report{Tasks: 3, Verified: 3}, "agreed on the results of 3 of 3 tasks.\n"},
		{weft.Report{Tasks: 2, Unverified: 2}, "agreed on the results of 3 of 5 tasks.\nNot verified: 2 tasks, since no second device could execute them and be compared.\n"},
	} {
		var out strings.Builder
		v = v.with(&c.rep)
		if v.text(&out); !strings.HasSuffix(out.String(), c.want) {
			t.Errorf("%+v: %q; want %q", c.rep, out.String(), c.want)
		}
	}
}

// A file that cannot be written after all, as on a full disk, is no mistake.
func TestOutputsOnAFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" { // no other has a file that is always full
		t.Skip("needs /dev/full")
	}
	keys := filepath.Join(t.TempDir(), "keys")
	works(t, "zk", "setup", keys, "--constraints", "1")
	for _, c := range writing {
		if c.ext != ".csv" && c.ext != ".json" && c.ext != ".svg" && c.ext != ".bin" {
			continue // the name must end in what says the format
		}
		if strings.HasPrefix(c.args, "bench") {
			continue
		}
		args := strings.ReplaceAll(strings.ReplaceAll(c.args, "FILE", "/dev/full"), "KEYS", keys)
		code, _, stderr := runWeft(strings.Fields(args)...)
		if code != exitFailure || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no space left") {
			t.Errorf("weft %s: status %d, %q", args, code, stderr)
		}
	}
}
