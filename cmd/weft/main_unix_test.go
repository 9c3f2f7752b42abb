//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/text"
)

// The exit status after a signal is 128 and its number.
func TestSignals(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated} {
		file := filepath.Join(t.TempDir(), "trace.json") // a pipe, opened when signals are handled
		if err := syscall.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		c := exec.CommandContext(t.Context(), os.Args[0], "run", "gemm", "--size", "64", "--repeat", "2000000000", "--calibrate", "off", "--trace", file)
		c.Env = append(os.Environ(), "WEFT_TEST_MAIN=1")
		c.Stderr = &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(time.Minute, func() {
			c.Process.Kill()
			if pipe, err := os.OpenFile(file, os.O_RDWR, 0); err == nil { // ends the wait for the command
				pipe.Close()
			}
		})
		begun := make(chan error, 1)
		go func() {
			pipe, err := os.Open(file) // returns when the command has opened it
			begun <- err
			if err == nil {
				io.Copy(io.Discard, pipe)
				pipe.Close()
			}
		}()
		if err := <-begun; err != nil {
			t.Fatal(err)
		}
		if err := c.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		c.Wait()
		late.Stop()
		if got := c.ProcessState.ExitCode(); got != want {
			t.Errorf("after %v the status is %d, want %d; %s", sig, got, want, stderr.String())
		}
	}
}

// A named pipe as an output that no process reads is waited for until the first signal, and written
// when one does.
func TestPipeWithoutReader(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cobra.Command{}
	ctx, cancel := context.WithCancelCause(t.Context())
	c.SetContext(ctx)
	cancel(signalled{syscall.SIGTERM})
	var usage text.Mistake
	if _, err := terminal.OpenOutput(c, pipe); !errors.Is(err, context.Canceled) || errors.As(err, &usage) {
		t.Errorf("ended by a signal: %v", err)
	}
	c.SetContext(t.Context())
	read := make(chan string)
	go func() {
		b, err := os.ReadFile(pipe)
		read <- fmt.Sprint(string(b), err)
	}()
	o, err := terminal.OpenOutput(c, pipe)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Replace(func(w io.Writer) error { _, err := io.WriteString(w, "all of it "); return err }); err != nil {
		t.Error(err)
	}
	if got := <-read; got != "all of it <nil>" {
		t.Errorf("read %q", got)
	}
}
