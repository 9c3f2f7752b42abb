package weft

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompared counts the lines of the programs in docs/COMPARED.md and of examples/, and
// holds the table there to it.
func TestCompared(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "COMPARED.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, sections, _ := strings.Cut(string(text), "\n## ")
	found := 0
	for _, s := range strings.Split(sections, "\n## ") {
		name, rest, _ := strings.Cut(s, "\n")
		_, block, _ := strings.Cut(rest, "```")
		_, block, _ = strings.Cut(block, "\n") // the language
		block, _, closed := strings.Cut(block, "\n```")
		program, err := os.ReadFile(filepath.Join("examples", name, "main.go"))
		if err != nil || !closed {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found++
		ours, theirs := linesOf(string(program)), linesOf(block)
		ratio := float64(ours) / float64(theirs)
		if ratio > 1.3 {
			t.Errorf("%s has %d lines, more than 1.3 times %d", name, ours, theirs)
		}
		row := ""
		for line := range strings.Lines(table) {
			if strings.HasPrefix(line, "| `"+name+"` |") {
				row = line
			}
		}
		if want := fmt.Sprintf("| %d | %d | %.2f |", ours, theirs, ratio); !strings.Contains(row, want) {
			t.Errorf("the row of %s does not have %s: %s", name, want, row)
		}
	}
	if found != 5 {
		t.Errorf("found %d programs, want 5", found)
	}
}

// linesOf counts lines that are neither blank nor comments.
func linesOf(program string) (n int) {
	for line := range strings.Lines(program) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}
