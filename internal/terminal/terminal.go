// Package terminal is how a command talks to the person or program that runs it:
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
	"path/filepath"

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

// Output is a file that a command writes at its end, or standard output.
type Output struct {
	w    io.Writer // standard output; nil for a file
	file *os.File
	// empty says that the file has nothing in it that is worth keeping: it was not there
	// before, or what was in it is dropped and what replaces it not yet written.
	empty  bool
	closed bool
}

// OpenOutput opens a file that a command writes at its end by [Output.Replace], so that
// a file that cannot be written is reported before anything is computed. Its content
// stays until then: a command that is interrupted or fails destroys no earlier result.
// The name "-" is standard output, which has nothing else then: the report of the
// command goes to standard error. The caller calls Close.
func OpenOutput(c *cobra.Command, file string) (*Output, error) {
	if file == "-" {
		o := &Output{w: c.OutOrStdout()}
		c.SetOut(c.ErrOrStderr())
		return o, nil
	}
	_, err := os.Lstat(file)
	o := &Output{empty: errors.Is(err, fs.ErrNotExist)}
	if o.file, err = os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
		return nil, FileError(file, err)
	}
	return o, nil
}

// Replace writes the output in place of what is in the file, and closes it. What was there
// stays until all of the output is in a temporary file beside it, which takes its place; where
// none can be made, and for pipes and devices, the output is written into the file itself.
func (o *Output) Replace(write func(w io.Writer) error) error {
	if o.w != nil {
		return write(o.w)
	}
	err := o.replace(write)
	if closed := o.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return FileError(o.file.Name(), err)
	}
	return nil
}

func (o *Output) replace(write func(w io.Writer) error) error {
	info, err := o.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return write(o.file)
	}
	path, err := filepath.EvalSymlinks(o.file.Name()) // a link stays one
	if err != nil {
		path = o.file.Name() // it was removed since, and is made again
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		o.empty = true
		if err = o.file.Truncate(0); err == nil {
			err = write(o.file)
		}
		o.empty = err != nil
		return err
	}
	if err = temp.Chmod(info.Mode().Perm()); err == nil {
		err = write(temp)
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // the first error says more
		return err
	}
	o.empty = false
	return nil
}

// Close closes the file and removes it if there is nothing in it that is worth keeping.
// Closing it again does nothing.
func (o *Output) Close() error {
	if o.w != nil || o.closed {
		return nil
	}
	o.closed = true
	err := o.file.Close()
	if info, e := os.Lstat(o.file.Name()); o.empty && e == nil && info.Mode().IsRegular() { // not /dev/full
		os.Remove(o.file.Name())
	}
	return err
}
