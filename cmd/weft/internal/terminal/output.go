package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Output is a file that a command writes at its end, or standard output.
type Output struct {
	name string
	path string      // the regular file that is written, links resolved
	mode fs.FileMode // its permissions
	// stream is standard output, a pipe or a device, which is written directly; nil for a regular file.
	stream io.Writer
	opened *os.File // the pipe or device, or a file that is written as the command goes, until Close
}

// OpenOutput checks that a command can write a file at its end, by [Output.Replace], so that a file that
// cannot be written is reported before anything is computed. Until then a regular file stays as it is, and
// one that is not there is not made: a command that fails, is interrupted or killed leaves no empty file
// and destroys no earlier result. The name "-" is standard output, which has nothing else then: the report
// of the command goes to standard error. The caller calls Close.
//
// A name under which nothing can be written is a [text.Mistake]; one that fails while it is written is none.
func OpenOutput(c *cobra.Command, file string) (*Output, error) {
	if file == "-" {
		o := &Output{name: file, path: file, stream: c.OutOrStdout()}
		c.SetOut(c.ErrOrStderr())
		return o, nil
	}
	return openOutput(c, file)
}

// Writable checks what [OpenOutput] does of a file that a command writes as it goes.
func Writable(c *cobra.Command, file string) error {
	o, err := openOutput(c, file)
	if err != nil {
		return err
	}
	if err := o.Close(); err != nil {
		return Usage(err)
	}
	return nil
}

func openOutput(c *cobra.Command, file string) (*Output, error) {
	ctx := c.Context()
	if ctx == nil { // of a command that is not executed
		ctx = context.Background()
	}
	o, err := writable(ctx, file)
	if err != nil && ctx.Err() == nil {
		err = Usage(err)
	}
	return o, err
}

// readerWait is the time between two tries to open a named pipe that no process reads yet.
const readerWait = 20 * time.Millisecond

// openPipe opens a named pipe when a process reads it. To wait for that in open itself, a signal could
// not end.
func openPipe(ctx context.Context, file string) (*os.File, error) {
	for {
		probe, err := os.OpenFile(file, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil { // there is a reader: it is written by a file that waits for it when it is slow
			defer probe.Close()
			return os.OpenFile(file, os.O_WRONLY, 0)
		}
		if !errors.Is(err, syscall.ENXIO) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(readerWait):
		}
	}
}

func writable(ctx context.Context, file string) (*Output, error) {
	o := &Output{name: file, path: file}
	there, err := os.Stat(file)
	missing := errors.Is(err, fs.ErrNotExist)
	if err == nil && there.IsDir() {
		return nil, fmt.Errorf("%s is a folder: name a file", OneLine(file))
	}
	var f *os.File
	if err == nil && there.Mode()&fs.ModeNamedPipe != 0 {
		f, err = openPipe(ctx, file)
	} else {
		f, err = os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666)
	}
	if ctx.Err() != nil && f == nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, FileError(file, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		o.stream, o.opened = f, f
		return o, nil
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, FileError(file, err)
	}
	o.mode = info.Mode().Perm()
	o.path = resolved(file) // a link stays one
	if missing {
		_ = os.Remove(o.path) // an empty file at worst
	}
	return o, nil
}

// Path returns the one name of a regular file: absolute, and that of the file which a link leads to.
func (o *Output) Path() string { return o.path }

// resolved returns the one name of a file, which need not be there.
func resolved(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// Distinct errs where two outputs are one file, of which one would be lost, or an output is another file that
// the command uses: whatever names and links lead there.
func Distinct(outputs []*Output, others ...string) error {
	for i, o := range outputs {
		if o.opened != nil {
			continue // a pipe or device takes one after the other
		}
		for _, other := range outputs[:i] {
			if o.path == other.path {
				return Usagef("%s would be written over %s: name another file", OneLine(o.name), OneLine(other.name))
			}
		}
		for _, name := range others {
			if resolved(name) == o.path {
				return Usagef("%s would be written over %s, which the command uses: name another file", OneLine(o.name), OneLine(name))
			}
		}
	}
	return nil
}

// Replace writes the output in place of the file's content, and closes it. The old content stays until all
// of the output is on the disk in a temporary file beside it, which takes its place; where none can be made,
// the output is written into the file itself. Pipes and devices are written directly.
func (o *Output) Replace(write func(w io.Writer) error) error {
	var err error
	if o.stream != nil {
		err = write(o.stream)
	} else if temp, e := os.CreateTemp(filepath.Dir(o.path), filepath.Base(o.path)+".*.tmp"); e == nil {
		err = o.save(temp, write)
	} else if f, e := os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666); e == nil {
		err = o.save(f, write)
	} else {
		err = e
	}
	if closed := o.Close(); err == nil {
		err = closed
	}
	if err != nil && o.name != "-" {
		return FileError(o.name, err)
	}
	return err
}

// save writes the output to an open file and closes it. A temporary file takes the place of the output; after
// an error the file is removed.
func (o *Output) save(f *os.File, write func(w io.Writer) error) error {
	var err error
	temporary := f.Name() != o.path
	if temporary {
		err = f.Chmod(o.mode)
	}
	if err == nil {
		err = write(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && temporary {
		err = os.Rename(f.Name(), o.path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error says more
	}
	return err
}

// Stream returns standard output, a pipe or a device, which can only be appended to, and nil for a regular file.
func (o *Output) Stream() io.Writer { return o.stream }

// ReadAt reads a regular file that is written as the command goes. It is opened, or made, when it is used first, and
// is what it was before until WriteAt or Truncate changes it.
func (o *Output) ReadAt(p []byte, at int64) (n int, err error) {
	if err = o.open(); err == nil {
		n, err = o.opened.ReadAt(p, at)
	}
	return n, err
}

// WriteAt writes to a regular file in place, as ReadAt reads it.
func (o *Output) WriteAt(p []byte, at int64) (n int, err error) {
	if err = o.open(); err == nil {
		n, err = o.opened.WriteAt(p, at)
	}
	return n, o.fileError(err)
}

// Truncate sets the length of a regular file, as ReadAt reads it.
func (o *Output) Truncate(size int64) error {
	err := o.open()
	if err == nil {
		err = o.opened.Truncate(size)
	}
	return o.fileError(err)
}

func (o *Output) open() (err error) {
	if o.opened == nil {
		o.opened, err = os.OpenFile(o.path, os.O_RDWR|os.O_CREATE, 0o666)
	}
	return o.fileError(err)
}

// fileError puts the name of the file in front of an error about it.
func (o *Output) fileError(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return FileError(o.name, err)
	}
	return err
}

// Close closes what is open. Closing it again does nothing.
func (o *Output) Close() error {
	f := o.opened
	if f == nil {
		return nil
	}
	o.opened = nil
	return f.Close()
}
