package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/text"
)

// reports writes a file of n reports of overhead and of copies, whose figures are base
// and a little more with each report.
func reports(t *testing.T, n int, us, bps float64) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		more := 1 + 0.001*float64(i)
		fmt.Fprintf(&b, `[{"case": "dag", "tasks": 10, "trace": false, "us_per_task": %v}, {"case": "chain", "tasks": 10, "us_per_task": %v}]`, us*more, 7.5*more)
		fmt.Fprintf(&b, "\n"+`{"command": "suite", "memory": [{"device": "cpu:0", "case": "in", "bytes": 64, "bytes_per_second": %v}], "left": []}`+"\n", bps*more)
	}
	file := filepath.Join(t.TempDir(), "reports.json")
	if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// A figure that is worse by more than allowed fails the command, in the direction that is
// worse for the figure; others do not.
func TestCompare(t *testing.T) {
	before := reports(t, 5, 0.5, 1e9)
	for name, c := range map[string]struct {
		after string
		args  []string
		fails string
	}{
		"the same":              {before, nil, ""},
		"slower":                {reports(t, 5, 0.6, 1e9), nil, "1 figure is worse by more than 5.0 %"},
		"slower by little":      {reports(t, 5, 0.51, 1e9), nil, ""},
		"slower, and allowed":   {reports(t, 5, 0.6, 1e9), []string{"--worse", "0.3"}, ""},
		"faster":                {reports(t, 5, 0.4, 1.2e9), nil, ""},
		"a lower rate":          {reports(t, 5, 0.5, 0.8e9), nil, "1 figure is worse by more than 5.0 %"},
		"both":                  {reports(t, 5, 0.7, 0.5e9), nil, "2 figures are worse by more than 5.0 %"},
		"not certain enough":    {reports(t, 5, 0.6, 1e9), []string{"--alpha", "0.001"}, ""},
		"as many as are needed": {reports(t, 4, 0.6, 1e9), nil, "1 figure is worse by more than 5.0 %"},
	} {
		_, err := run(t.Context(), append([]string{"compare", before, c.after}, c.args...)...)
		mistake := text.Mistake{}
		if got := fmt.Sprint(err); c.fails == "" && err != nil || c.fails != "" && got != c.fails || errors.As(err, &mistake) {
			t.Errorf("%s: %v, want %q", name, err, c.fails)
		}
	}
	text, err := run(t.Context(), "compare", before, reports(t, 6, 0.6, 1e9), "--json", "--worse", "1")
	var rows []comparedRow
	if err != nil || json.Unmarshal([]byte(text), &rows) != nil || len(rows) != 3 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, r := range rows {
		slower := r.Case == "dag, tasks 10" && r.Figure == "us_per_task"
		if (r.Verdict == "worse") != slower || r.NA != 5 || r.NB != 6 || slower && (r.Change < 0.19 || r.Change > 0.21 || r.P > 0.01) {
			t.Errorf("%+v", r)
		}
	}
}

// A figure that the second file does not have is shown and fails the command, unless that is
// allowed.
func TestCompareMissing(t *testing.T) {
	before, after := reports(t, 5, 0.5, 1e9), reports(t, 5, 0.5, 1e9)
	src, err := os.ReadFile(after)
	if err == nil {
		err = os.WriteFile(after, []byte(strings.ReplaceAll(string(src), `"bytes_per_second"`, `"error"`)), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := run(t.Context(), "compare", before, after)
	if want := "1 figure is missing in " + after; err == nil || err.Error() != want || !strings.Contains(text, "missing") || !strings.Contains(text, "0 of 2 figures differ.") {
		t.Errorf("%v, want %s:\n%s", err, want, text)
	}
	if _, err := run(t.Context(), "compare", before, after, "--missing"); err != nil {
		t.Error(err)
	}
	if _, err := run(t.Context(), "compare", after, before); err != nil { // one more is none missing
		t.Error(err)
	}
}

// What cannot be compared is a mistake of the user's.
func TestCompareMistakes(t *testing.T) {
	good := reports(t, 5, 0.5, 1e9)
	other := filepath.Join(t.TempDir(), "other.json")
	broken := filepath.Join(t.TempDir(), "broken.json")
	for file, text := range map[string]string{other: `[{"case": "other", "seconds": 1}]`, broken: `[{"case"`} {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{good, reports(t, 3, 0.6, 1e9)}, "have 3 reports of a figure at most; the test needs 4 of each"},
		{[]string{good, other}, "have no figure in common"},
		{[]string{good, broken}, "broken.json: report 1: "},
		{[]string{good, filepath.Join(t.TempDir(), "absent")}, "absent: no such file"},
		{[]string{good, good, "--alpha", "0"}, "--alpha 0: it must be above 0 and below 1"},
		{[]string{good, good, "--worse", "-1"}, "--worse -1: it must not be negative"},
	} {
		_, err := run(t.Context(), append([]string{"compare"}, c.args...)...)
		if mistake := (text.Mistake{}); !errors.As(err, &mistake) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.args, err, c.says)
		}
	}
	if _, err := run(t.Context(), "compare", good); err == nil || !strings.Contains(err.Error(), "needs two files") {
		t.Errorf("one file: %v", err)
	}
}
