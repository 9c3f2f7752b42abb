package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// A profile is measured on the cores here: every request has an answer of one kind.
func TestBenchServe(t *testing.T) {
	out := works(t, "bench", "serve", "--profile", "analytics", "--devices", "cpu", "--rate", "40", "--duration", "500ms", "--warm-up", "0s", "--bins", "3", "--connections", "8", "--json")
	var rows []struct {
		Kind                                        string
		Arrived, Answered, Refused, Expired, Failed uint64
		Rate, Utilisation                           float64
		Devices, Bins                               int
	}
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	r := rows[0]
	if r.Kind != "measured" || r.Arrived == 0 || r.Arrived != r.Answered+r.Refused+r.Expired+r.Failed || r.Rate != 40 || r.Devices != 1 || r.Bins != 3 {
		t.Errorf("%+v", r)
	}
	if !testing.Short() {
		out = works(t, "bench", "serve", "--profile", "hft", "--machine", "4x5070-ring", "--rate", "1000", "--duration", "1s")
		if !strings.HasPrefix(out, "simulated: ") || !strings.Contains(out, "4 of 4") {
			t.Error(out)
		}
	}
	for _, args := range [][]string{{"--machine", "abacus"}, {"--profile", "fast"}, {"--rate", "-1"}, {"--bins", "0"}, {"--arrivals", "never"}, {"--connections", "0"}, {"--machine", "3x5070", "--devices", "cuda"}, {"--machine", "3x5070", "--connections", "9"}, {"--rate", "1e6", "--duration", "24h"}} {
		if code, _, errs := runWeft(append([]string{"bench", "serve"}, args...)...); code != exitUsage || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: status %d, %q", args, code, errs)
		}
	}
}
