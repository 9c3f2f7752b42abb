// Package terminal writes the output of commands for the person or program that runs them:
// tables, number formats, progress, help, mistakes, JSON. Commands and benchmarks
// call it; it knows nothing of what they compute.
package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

// Interactive reports whether w is a terminal, where a person reads.
func Interactive(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Print writes the report of a command to its output: the value as JSON, or what text
// writes. The value is JSON already if it is a []byte. The report is written whole, so
// that a failing output is reported once, and as [Printable] makes it: what is in it may
// come from files and servers of others.
func Print(c *cobra.Command, asJSON bool, value any, text func(b *bytes.Buffer) error) (err error) {
	var b bytes.Buffer
	if encoded, ok := value.([]byte); !asJSON {
		err = text(&b)
	} else if ok {
		b.Write(encoded)
	} else {
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		err = enc.Encode(value)
	}
	if err != nil {
		return err
	}
	out := []byte(Printable(b.String()))
	if asJSON {
		out = jsonPrintable(b.Bytes())
	}
	_, err = c.OutOrStdout().Write(out)
	return err
}

// Abandonable calls fn and returns its error, or that of ctx as soon as ctx ends.
// fn knows no context: after an interrupt it goes on in its goroutine until the
// process ends, so it must not touch anything that the caller uses after an error.
// A panic of fn, which is a bug in weft, becomes an error.
func Abandonable(ctx context.Context, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("internal error: %v; please report this with the command and its files", p)
			}
		}()
		done <- fn()
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
}

// FileError puts the file in front of an error about it and leaves out the system
// call.
func FileError(file string, err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", file, err)
}
