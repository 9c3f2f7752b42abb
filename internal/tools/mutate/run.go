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
	"sync"
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
	tests   string              // arguments of go test for the own tests of a mutant; empty is its package
	limit   time.Duration       // of one go test
	jobs    int                 // mutants tried at a time
	budget  time.Duration       // no mutant begins after this long, if it is set
}

// each tries the mutants that were not tried before, several at a time, and reports each
// as it ends. It returns the outcomes there are, in the order of the list. A mutant whose
// trial is interrupted has none.
func (b *bench) each(ctx context.Context, list []mutant, done map[string]outcome, report func(int, outcome) error) ([]outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu    sync.Mutex // guards next, first, the slices and calls of report
		next  int
		first error
		have  = make([]bool, len(list))
		out   = make([]outcome, len(list))
		start = time.Now()
		wg    sync.WaitGroup
	)
	for i, m := range list {
		out[i], have[i] = done[m.Key]
	}
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		for next < len(list) && have[next] {
			next++
		}
		next++
		return next - 1, next <= len(list) && ctx.Err() == nil && (b.budget == 0 || time.Since(start) < b.budget)
	}
	for job := range max(b.jobs, 1) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				o, err := b.try(ctx, list[i], job)
				mu.Lock()
				if err == nil {
					out[i], have[i] = o, true
					err = report(i, o)
				}
				if err != nil && ctx.Err() == nil {
					first = err
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var tried []outcome
	for i, o := range out {
		if have[i] {
			tried = append(tried, o)
		}
	}
	return tried, first
}

// sound reports tests that fail without a mutant: they would kill all that were not tried.
func (b *bench) sound(ctx context.Context, list []mutant, done map[string]outcome) error {
	seen := make(map[string]bool)
	for _, m := range list {
		if _, tried := done[m.Key]; tried {
			continue
		}
		for _, args := range b.testsOf(m) {
			if seen[args] {
				continue
			}
			seen[args] = true
			if text, err := b.test(ctx, "", args); err != nil && ctx.Err() == nil {
				return fmt.Errorf("the tests %s fail without a mutant: %w: %s", args, err, firstLine(text, "#"))
			}
		}
	}
	return nil
}

// testsOf returns the tests that a mutant is tried with, each as arguments of go test.
func (b *bench) testsOf(m mutant) []string {
	own := b.tests
	if own == "" {
		own = m.pkg()
	}
	return append([]string{own}, b.later[m.pkg()]...)
}

// test runs tests, given as arguments of go test, with a mutant in its place or without.
func (b *bench) test(ctx context.Context, overlay, args string) (string, error) {
	fixed := []string{"test", "-overlay=" + overlay, "-failfast", "-vet=off", "-count=1", "-timeout=" + b.limit.String()}
	return b.run(ctx, append(fixed, strings.Fields(args)...)...)
}

// try runs the tests of a mutant's package, and those of dependents as long as it lives.
// Each job has files of its own.
func (b *bench) try(ctx context.Context, m mutant, job int) (outcome, error) {
	start := time.Now()
	out := outcome{mutant: m, Outcome: survived}
	overlay, err := b.overlay(m, job)
	if err != nil {
		return out, err
	}
	pkg := m.pkg()
	if text, err := b.run(ctx, "build", "-overlay", overlay, pkg); err != nil {
		out.Outcome, out.By = invalid, firstLine(text, pkg)
	} else {
		for _, args := range b.testsOf(m) {
			if text, err := b.test(ctx, overlay, args); err != nil {
				out.Outcome, out.By = killed, strings.Fields(args)[0]+": "+firstLine(text, "#")
				break
			}
		}
	}
	out.Seconds = time.Since(start).Round(time.Second / 10).Seconds()
	return out, ctx.Err()
}

// overlay writes the mutant and the file that puts it in its place.
func (b *bench) overlay(m mutant, job int) (string, error) {
	file := filepath.Join(b.root, m.File)
	src, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed, list := filepath.Join(b.scratch, fmt.Sprintf("mutant%d.go", job)), filepath.Join(b.scratch, fmt.Sprintf("overlay%d.json", job))
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
