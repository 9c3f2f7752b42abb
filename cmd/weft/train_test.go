package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/workload/reservoir"
)

// patternLines are patterns on one channel or another.
func patternLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"duration\": 20, \"spikes\": [[%d, %d.5], [%[1]d, 12]], \"label\": \"channel %[1]d\"}\n", i/2%2, i%9)
	}
	return b.String()
}

// A reservoir learns the patterns of a file, and is saved as a model that can be read.
func TestTrain(t *testing.T) {
	file := write(t, "patterns.jsonl", patternLines(80))
	out := filepath.Join(t.TempDir(), "model.safetensors")
	text := works(t, "train", "reservoir", "--task", file, "--size", "50", "--steps", "7", "--out", out, "--json")
	var r trained
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if r.Test != 1 || r.Score != "accuracy" || r.Samples[0] != 60 || r.Samples[1] != 20 || r.File != out {
		t.Errorf("%s", text)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	m, err := reservoir.ReadModel(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if m.Weights.Size != 50 || m.Weights.Inputs != 2 || m.Steps != 7 || fmt.Sprint(m.Labels) != "[channel 0 channel 1]" || int64(len(b)) != r.Bytes {
		t.Errorf("%d bytes: %+v", len(b), m)
	}
	if text := works(t, "train", "reservoir", "--task", file, "--size", "50"); !strings.Contains(text, "accuracy") || strings.Contains(text, "\x1b") {
		t.Errorf("%s", text)
	}
	// The model may be the only thing on standard output.
	code, stdout, stderr := runWeft("train", "reservoir", "--task", file, "--size", "50", "--steps", "7", "-o", "-")
	if code != exitOK || stdout != string(b) || !strings.Contains(stderr, "accuracy") {
		t.Errorf("status %d, %d bytes, %s", code, len(stdout), stderr)
	}
}

func TestTrainMemory(t *testing.T) {
	var r trained
	if err := json.Unmarshal([]byte(works(t, "train", "reservoir", "--task", "memory", "--size", "20", "--seeds", "2", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Each) != 2 || r.Size != 20 || !(r.Test > 3 && r.Test < 20) {
		t.Errorf("%+v", r)
	}
}
