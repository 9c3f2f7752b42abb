package task_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A program that imports package task has the standard library in it, and four packages of weft.
func TestDependencies(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const weft = "github.com/weft-run/weft"
	want := []string{weft + "/fault", weft + "/task", weft + "/task/internal/gate", weft + "/task/internal/pool"}
	if got := slices.Sorted(strings.FieldsSeq(string(out))); !slices.Equal(got, want) {
		t.Errorf("package task brings in %v, want %v", got, want)
	}
}
