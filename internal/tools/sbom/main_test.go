package main

import (
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// Every module of a program is listed with its version and sum; one that was replaced, as what replaces it.
func TestDocument(t *testing.T) {
	d := documentOf(&debug.BuildInfo{
		GoVersion: "go1.26.8",
		Path:      "example.org/m/cmd/p",
		Main:      debug.Module{Path: "example.org/m", Version: "v1.2.3"},
		Settings:  []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "-trimpath", Value: "true"}, {Key: "vcs.revision", Value: "abc"}},
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v0.1.0", Sum: "h1:one="},
			{Path: "example.org/b", Version: "v0.2.0", Replace: &debug.Module{Path: "example.org/c", Version: "v0.3.0", Sum: "h1:two="}},
		},
	})
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,"metadata":{"component":{"type":"application","name":"example.org/m/cmd/p",` +
		`"version":"v1.2.3","purl":"pkg:golang/example.org/m@v1.2.3","properties":[{"name":"go:GOOS","value":"linux"},{"name":"go:vcs.revision","value":"abc"}]}},` +
		`"components":[{"type":"library","name":"std","version":"go1.26.8","purl":"pkg:golang/std@go1.26.8"},` +
		`{"type":"library","name":"example.org/a","version":"v0.1.0","purl":"pkg:golang/example.org/a@v0.1.0","properties":[{"name":"go:sum","value":"h1:one="}]},` +
		`{"type":"library","name":"example.org/c","version":"v0.3.0","purl":"pkg:golang/example.org/c@v0.3.0","properties":[{"name":"go:sum","value":"h1:two="}]}]}`
	if string(b) != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}

// A program is read as the go command built it, this one here; a file that is none is an error.
func TestRun(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := run(program, "v1", &b); err != nil || !strings.Contains(b.String(), `"version": "`+runtime.Version()+`"`) || !strings.Contains(b.String(), "internal/tools/sbom") {
		t.Errorf("%v: %s", err, b.String())
	}
	if err := run("main.go", "v1", &b); err == nil {
		t.Error("a text is taken for a program")
	}
}
