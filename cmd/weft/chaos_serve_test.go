package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-run/weft/cmd/weft/internal/chaos/siege"
)

func TestChaosServe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker processes need Linux")
	}
	for _, asJSON := range []bool{true, false} {
		if !asJSON && testing.Short() { // the same siege, told in words
			break
		}
		var out, stderr bytes.Buffer
		args := []string{"chaos", "serve", "--for", "2s", "--every", "500ms", "--rate", "20", "--timeout", "1m", "--devices", "cpu/2"}
		if asJSON {
			args = append(args, "--json")
		}
		if code := run(t.Context(), args, &out, &stderr); code != exitOK {
			t.Fatalf("status %d: %s%s", code, &out, &stderr)
		}
		if !asJSON {
			if !strings.Contains(out.String(), "100.000 %") || !strings.Contains(out.String(), "all answers") {
				t.Errorf("%s", &out)
			}
			continue
		}
		var a siege.Account
		if err := json.Unmarshal(out.Bytes(), &a); err != nil || a.Success != 1 || a.Wrong > 0 || a.Model != "reservoir" || len(a.Devices) != 2 {
			t.Errorf("%v: %s", err, &out)
		}
	}
}

func TestChaosServeRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--rate 0":                  "a rate of 0",
		"--every 1ms":               "10ms at least",
		"--devices rocm":            "rocm",
		"--devices fake:3":          "write how many there are to be",
		"--timeout -1s":             "timeout",
		"--devices cpu/1 --resi 10": "unknown flag",
	} {
		if runtime.GOOS != "linux" && strings.Contains(args, "devices") {
			continue
		}
		var out, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"chaos", "serve"}, strings.Fields(args)...), &out, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: status %d: %s", args, code, &stderr)
		}
	}
}
