package main

import (
	"bytes"
	_ "embed" // for the script
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// script runs the test binaries beside it with each error of rows.txt.
//
//go:embed run.sh
var script string

// stem is the name of an error's files, by its number in the table.
func stem(i int) string { return fmt.Sprintf("%03d", i) }

// buildAll puts the PTX of every error in a CUDA kernel, test binaries and the script into a
// folder.
func buildAll(all []planted, folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	root, end, err := copied()
	if err != nil {
		return err
	}
	defer end()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	var list strings.Builder
	suites := make(map[string]bool)
	for i, p := range all {
		if p.backend != "cuda" {
			continue
		}
		file := filepath.Join(folder, stem(i)+".ptx")
		err := p.with(root, func(was map[string][]byte) (err error) {
			for f := range was {
				if has, failed := declares(f, p.kernel); has || failed != nil {
					err = errors.Join(err, failed, keep(f, was[f], file))
				}
			}
			return err
		})
		if err == nil {
			_, err = os.Stat(file) // there is none if the error changes nothing
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.line(), err)
		}
		fmt.Fprintln(&list, stem(i), p.workload(), binary(p.suite()))
		suites[p.suite()] = true
	}
	for suite := range suites {
		c := exec.Command("go", "test", "-c", "-tags=gpu", "-ldflags=-s -w", "-o", filepath.Join(folder, binary(suite)), "./"+suite)
		c.Dir, c.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return errors.Join(os.WriteFile(filepath.Join(folder, "rows.txt"), []byte(list.String()), 0o600),
		os.WriteFile(filepath.Join(folder, "run.sh"), []byte(script), 0o700))
}

// declares reports whether a file is the PTX of a kernel.
func declares(file, kernel string) (bool, error) {
	text, err := os.ReadFile(file)
	if err == nil {
		text, err = plain(text)
	}
	return bytes.Contains(text, []byte(".entry "+strings.ReplaceAll(kernel, ".", "_")+"(")), err
}

// readAll says from the logs of the script who found each error.
func readAll(all []planted, folder string) error {
	counts := map[string]int{}
	for i, p := range all {
		if p.backend != "cuda" {
			continue
		}
		out, err := os.ReadFile(filepath.Join(folder, stem(i)+".log"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the script did not get so far
		}
		if err != nil {
			return err
		}
		failed := !strings.HasSuffix(string(out), "exit 0\n")
		if strings.HasSuffix(string(out), "exit 124\n") {
			out = append(out, "panic: test timed out"...)
		}
		who, err := seen(p.backend, string(out), failed)
		if err != nil {
			who = "not tested: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		counts[who]++
		fmt.Println(p.line() + who + " |")
	}
	fmt.Println(counts)
	return nil
}
