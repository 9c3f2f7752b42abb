package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Outcomes of a mutant.
const (
	killed   = "killed"
	survived = "survived"
	invalid  = "not compiled"
)

// outcome is a line of the file of results.
type outcome struct {
	mutant
	Outcome string  `json:"outcome"`
	By      string  `json:"by,omitempty"` // what killed it
	Seconds float64 `json:"seconds"`
}

// bench runs mutants.
type bench struct {
	root    string // of the module
	scratch string
	later   map[string][]string // tests of dependents, by package
	limit   time.Duration       // of one go test
}

// try runs the tests of a mutant's package, and those of dependents as long as it lives.
func (b *bench) try(ctx context.Context, m mutant) (outcome, error) {
	start := time.Now()
	out := outcome{mutant: m, Outcome: survived}
	overlay, err := b.overlay(m)
	if err != nil {
		return out, err
	}
	pkg := "./" + filepath.ToSlash(filepath.Dir(m.File))
	if text, err := b.run(ctx, "build", "-overlay", overlay, pkg); err != nil {
		out.Outcome, out.By = invalid, firstLine(text, pkg)
	} else {
		for _, args := range append([]string{pkg}, b.later[pkg]...) {
			text, err := b.run(ctx, append([]string{"test", "-overlay", overlay, "-failfast", "-vet=off", "-count=1", "-timeout", b.limit.String()}, strings.Fields(args)...)...)
			if err != nil {
				out.Outcome, out.By = killed, strings.Fields(args)[0]+": "+firstLine(text, "#")
				break
			}
		}
	}
	out.Seconds = time.Since(start).Round(time.Second / 10).Seconds()
	return out, ctx.Err()
}

// overlay writes the mutant and the file that puts it in its place.
func (b *bench) overlay(m mutant) (string, error) {
	file := filepath.Join(b.root, m.File)
	src, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed, list := filepath.Join(b.scratch, "mutant.go"), filepath.Join(b.scratch, "overlay.json")
	if err := os.WriteFile(changed, m.apply(src), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", err
	}
	return list, os.WriteFile(list, text, 0o600)
}

// patience is how long a go command may take beyond the limit of its tests: to compile.
const patience = 10 * time.Minute

func (b *bench) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit+patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	cmd.WaitDelay = 10 * time.Second // grandchildren may hold the pipe
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// firstLine is the line of a log that says why it failed, or the first that does not
// begin with what it is about.
func firstLine(text, about string) string {
	first := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return short(line)
		}
		if first == "" && line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, about) {
			first = line
		}
	}
	return short(first)
}

// load reads a file of results, by key. There may be none yet, and its last line may be
// cut.
func load(file string) (map[string]outcome, error) {
	out := make(map[string]outcome)
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var o outcome
		if json.Unmarshal(line, &o) == nil && o.Key != "" {
			out[o.Key] = o
		}
	}
	return out, nil
}

// save adds a line to a file of results.
func save(file string, o outcome) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", line)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
