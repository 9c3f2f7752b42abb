package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/test/poll"
)

// asProgram has the test binary be the program.
const asProgram = "HEAT_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	weft.Worker(funcs)
	os.Exit(m.Run())
}

func Example() {
	os.Args = []string{"heat", "-size", "16", "-steps", "40"}
	main()
	// Output: after 40 steps the plate holds 4986.613
}

// The program ends with the same heat when it is killed again and again.
func TestKilled(t *testing.T) {
	program := func(dir string) (*exec.Cmd, *bytes.Buffer) {
		c := exec.CommandContext(t.Context(), os.Args[0], "-dir", dir, "-size", "128", "-steps", "1500", "-every", "20ms")
		c.Env = append(os.Environ(), asProgram+"=1", "XDG_CACHE_HOME="+t.TempDir())
		out := &bytes.Buffer{}
		c.Stdout = out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c, out
	}
	c, want := program(filepath.Join(t.TempDir(), "whole"))
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "killed")
	newest := func() string {
		all, _ := filepath.Glob(filepath.Join(dir, "heat", "checkpoint-*"))
		return strings.Join(all, " ")
	}
	for range 3 {
		before := newest()
		c, _ := program(dir)
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }() // with what a killed process ends with
		poll.True(t, "there is a checkpoint", func() bool { return newest() != before || len(ended) > 0 })
		_ = c.Process.Kill() // it may have ended
		<-ended
	}
	c, got := program(dir)
	if err := c.Wait(); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%v, %s; undisturbed %s", err, got, want)
	}
}
