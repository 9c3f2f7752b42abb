package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/internal/terminal"
)

// No line of any help is longer than a terminal of 80 columns.
func TestHelpWidth(t *testing.T) {
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		help := works(t, append(path, "--help")...)
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > terminal.Width {
				t.Errorf("weft %s --help has a line of %d columns:\n%s", strings.Join(path, " "), n, line)
			}
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" { // whose text is cobra's
				visit(sub, append(path[:len(path):len(path)], sub.Name()))
			}
		}
	}
	visit(newRoot(), nil)
}

// An interrupted command tells what was done and says by its status that it was
// interrupted.
func TestInterruptedRun(t *testing.T) {
	for delay := 50 * time.Millisecond; ; delay *= 2 { // until it is long enough for a run
		ctx, stop := context.WithCancel(t.Context())
		var stdout, stderr bytes.Buffer
		timer := time.AfterFunc(delay, stop)
		code := run(ctx, strings.Fields("run gemm --size 64 --repeat 10000000 --json"), &stdout, &stderr)
		timer.Stop()
		stop()
		if code != exitInterrupted || stderr.String() != "weft: interrupted\n" {
			t.Fatalf("status %d, %q", code, stderr.String())
		}
		if stdout.Len() == 0 {
			continue
		}
		var rep liveReport
		if err := json.Unmarshal(stdout.Bytes(), &rep); err != nil {
			t.Fatal(err)
		}
		if !rep.Interrupted || rep.Checked || rep.Runs == nil {
			t.Errorf("interrupted %v, checked %v, %d runs", rep.Interrupted, rep.Checked, len(rep.Runs))
		}
		if len(rep.Runs) > 0 {
			return
		}
	}
}

// What an interrupted first run did is told as well.
func TestInterruptedFirstRun(t *testing.T) {
	rep := liveReport{Job: "gemm", Tasks: 52, Interrupted: true, Devices: []deviceRow{
		{Name: "cpu:0", Cores: 1, Tasks: 7, Busy: 0.5, Util: 1}, {Name: "cpu:1", Cores: 1, Tasks: 5, Busy: 0.5, Util: 1},
	}}
	var b bytes.Buffer
	rep.text(&b)
	if text := b.String(); !strings.Contains(text, "after 12 of 52 tasks.") || strings.Contains(text, "predicted") || strings.Contains(text, "learning") {
		t.Errorf("the report of an interrupted first run is\n%s", text)
	}
}
