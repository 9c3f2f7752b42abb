package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUpToDate makes the files again and compares.
func TestUpToDate(t *testing.T) {
	const dir = "../../../bench"
	figures, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"RESULTS.md": table(figures), "history.svg": plot(figures)} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("bench/%s is not what bench/history.csv says (%v); run go run ./internal/tools/results", name, err)
		}
	}
}

// Records are results: they do not speak of how weft was developed.
func TestNoDiary(t *testing.T) {
	words := regexp.MustCompile(`(?i)\b(session|reviewers?|issue [0-9]+|not to be had|this morning|yesterday)\b`)
	files, err := filepath.Glob("../../../bench/*.*") // folders have no dot
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range append(files, "../../../CHANGELOG.md") {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(src), "\n") {
			if w := words.FindString(line); w != "" {
				t.Errorf("%s:%d: %q", name, i+1, w)
			}
		}
	}
}

func TestParse(t *testing.T) {
	const head = "date,machine,commit,what,command,figure,unit,bar,peer\n"
	for src, want := range map[string]string{
		"":                                  "line 1: the columns are",
		head + "d,2 cores,c,w,cmd,x,s,,":    `line 2: figure "x"`,
		head + "d,moon,c,w,cmd,1,s,,":       `line 2: machine "moon"`,
		head + "d,2 cores,,w,cmd,1,s,,":     "line 2: date, commit",
		head + "d,2 cores,c,w,cmd,1,s,~ 2,": `line 2: bar "~ 2": the sign`,
		head + "d,2 cores,c,w,cmd,1,s,≤,":   `line 2: bar "≤": want a sign and a number`,
		head + "d,2 cores":                  "wrong number of fields",
	} {
		if _, err := parse(strings.NewReader(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", src, err, want)
		}
	}
	f, err := parse(strings.NewReader(head + "d,2 cores,c1,w,cmd,3,s,≤ 2,\nd,2 cores,c2,w,a|b,1,s,≤ 2,PyTorch 3\nd,H200,c,v,cmd,1,s,≥ 2,\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := string(table(f))
	for _, line := range []string{"| w | 1 s | ≤ 2 | PyTorch 3 | c2 | `a\\|b` |\n", "| v | **1 s** | ≥ 2 |  | c | `cmd` |\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
	if strings.Contains(got, "c1") {
		t.Error("an older figure is shown")
	}
	if n := strings.Count(string(plot(f)), "<circle"); n != 2 {
		t.Errorf("%d points are drawn, want 2", n)
	}
}
