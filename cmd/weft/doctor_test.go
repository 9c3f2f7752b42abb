package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/host"
)

func TestDoctor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	var found []finding
	if err := json.Unmarshal([]byte(works(t, "doctor", "--json", "--cache-dir", dir)), &found); err != nil {
		t.Fatal(err)
	}
	state := make(map[string]finding)
	for _, f := range found {
		state[f.What] = f
	}
	if f := state["cpu"]; !f.OK || !strings.HasPrefix(f.Says, "cpu:0: ") {
		t.Errorf("the CPU: %+v", f)
	}
	if f := state["cache"]; !f.OK || f.Says != dir {
		t.Errorf("the cache: %+v", f)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the examined cache holds %v, %v", left, err)
	}
	file := write(t, "file", "")
	if f := examineCache(filepath.Join(file, "below")); f.OK || f.Fix == "" {
		t.Errorf("a cache below a file: %+v", f)
	}
	if f := examineCache("off"); !f.OK {
		t.Errorf("no cache: %+v", f)
	}
}

func TestExamineHost(t *testing.T) {
	bad := examineHost(host.Limits{Cores: 1.5, Memory: 4 << 30, Available: 100 << 20, Locked: 8 << 20, HugePages: "never"}, 8)
	good := examineHost(host.Limits{Memory: 64 << 30, Available: 32 << 30, Locked: -1, HugePages: "always"}, 8)
	for i, f := range bad {
		if ok := f.What == "go"; f.OK != ok || !f.OK && f.Fix == "" {
			t.Errorf("%+v", f)
		}
		if !good[i].OK || good[i].Fix != "" || good[i].What != f.What {
			t.Errorf("%+v", good[i])
		}
	}
	var b bytes.Buffer
	writeFindings(&b, bad)
	for line := range strings.Lines(b.String()) {
		if len(line) > terminal.Width+1 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestEnough(t *testing.T) {
	if err := host.Enough("a byte", 1); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		bytes uint64
		line  string
		args  []string
	}{
		{2 << 40, "weft: fold needs 2.36 TB of memory and ", []string{"fold", "--replicas", "65536", "--steps", "1000000", "--frame", "1"}},
		{50e9, "weft: gemm needs ", []string{"gemm", "--m", "65536", "--n", "65536", "--k", "65536"}},
	} {
		if l := host.Read(); l.Available == 0 || uint64(l.Available) > c.bytes {
			continue // it is enough
		}
		if code, stdout, stderr := runWeft(append([]string{"run"}, c.args...)...); code != exitFailure || stdout != "" || !strings.HasPrefix(stderr, c.line) {
			t.Errorf("status %d, %q", code, stderr)
		}
	}
}
