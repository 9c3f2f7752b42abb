//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
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
