// Package safefile reads and writes files that another user may have put where they
// are. It never waits for a pipe, never reads more than the caller allows, never
// follows a link out of a cache, and says whether another user could change a file
// before its contents are trusted.
//
// Checks are made on the open descriptor, so a file cannot be exchanged between the
// check and the read.
package safefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrUnsafe says that another user could have written a file, or could replace it.
	ErrUnsafe = errors.New("not safe to use")
	// ErrKind says that a file is no regular file.
	ErrKind = errors.New("not a regular file")
	// ErrSize says that a file is larger than its reader allows.
	ErrSize = errors.New("too large")
	// ErrLocked says that another process holds a lock.
	ErrLocked = errors.New("another process holds it")
)

// ReadOwn returns the contents of a file that this user alone can have written: a
// regular file and no link, of this user, not writable by others, of at most limit
// bytes. It is for caches.
func ReadOwn(path string, limit int64) ([]byte, error) {
	return readChecked(path, false, limit, regular, own)
}

// OpenOwn opens a file for reading and writing that this user alone can have written: a regular file
// and no link, of this user, not writable by others.
func OpenOwn(path string) (*os.File, error) {
	f, err := openFile(path, os.O_RDWR, false)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	for _, check := range []func(fs.FileInfo) error{regular, own} {
		if err == nil {
			if err = check(info); err != nil {
				err = about(path, err)
			}
		}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// ReadNamed returns the contents of a regular file of at most limit bytes, which the
// user named: it may be a link, and another user's.
func ReadNamed(path string, limit int64) ([]byte, error) {
	return readChecked(path, true, limit, regular)
}

// ReadSecret returns the contents of a regular file of at most limit bytes that holds a
// secret: it is this user's or root's, and no other may read or write it. It may be a link.
func ReadSecret(path string, limit int64) ([]byte, error) {
	return readChecked(path, true, limit, regular, secret)
}

// readChecked returns the contents of a file that passes all checks once it is open.
// follow lets it be a link.
func readChecked(path string, follow bool, limit int64, checks ...func(fs.FileInfo) error) ([]byte, error) {
	f, err := openFile(path, os.O_RDONLY, follow)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for _, check := range checks {
		if err := check(info); err != nil {
			return nil, about(path, err)
		}
	}
	return read(f, path, info, limit)
}

// ReadInput returns at most limit bytes that the user named as the input of a command:
// a regular file, or a pipe or device such as /dev/stdin and what a shell puts in
// place of <(command). A pipe without a writer is empty and not waited for.
func ReadInput(path string, limit int64) ([]byte, error) {
	f, err := OpenInput(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return read(f, path, info, limit)
}

// OpenInput opens what ReadInput reads, for inputs too large to be held in memory.
func OpenInput(path string) (*os.File, error) {
	f, err := openFile(path, os.O_RDONLY, true)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = about(path, regular(info))
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// OpenWithin opens a regular file below a folder, by a path with slashes that another
// person may have written: it has no part that is "." or "..", and leads over no link. The
// folder itself is the user's choice and may be a link.
func OpenWithin(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	local, err := filepath.Localize(name)
	if err != nil || name == "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: &kindError{"no path below the folder; write it without .. and a slash in front"}}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var seen fs.FileInfo // of the file, once the loop has ended
	for end := range len(local) + 1 {
		if end < len(local) && !os.IsPathSeparator(local[end]) {
			continue
		}
		if seen, err = root.Lstat(local[:end]); err != nil {
			return nil, about(path, cause(err))
		}
		if folder := end < len(local); !folder || !seen.IsDir() {
			if err := regular(seen); err != nil {
				return nil, about(path, err)
			}
		}
	}
	f, err := root.OpenFile(local, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, about(path, cause(err))
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(seen, info) {
		err = about(path, &kindError{"another file was put in its place meanwhile"})
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// cause is an error without the system call and the path that package os put before it.
func cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// read reads an open file. A regular file that is too large is not begun.
func read(f io.Reader, path string, info fs.FileInfo, limit int64) ([]byte, error) {
	if info.Mode().IsRegular() && info.Size() > limit {
		return nil, about(path, fmt.Errorf("%w: %d bytes, and %d are the most", ErrSize, info.Size(), limit))
	}
	// The file may grow while it is read, and a device has no size.
	var b bytes.Buffer
	if info.Mode().IsRegular() {
		b.Grow(int(info.Size()) + bytes.MinRead) // the buffer looks for the end in so much room
	}
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, about(path, fmt.Errorf("%w: more than %d bytes", ErrSize, limit))
	}
	return b.Bytes(), nil
}

// about puts the file in front of what is wrong with it, as package os does.
func about(path string, err error) error { return &fs.PathError{Op: "read", Path: path, Err: err} }

// kindError says what a file is that should have been a regular one.
type kindError struct{ what string }

func (e *kindError) Error() string        { return e.what }
func (e *kindError) Is(target error) bool { return target == ErrKind }

// regular returns an error that says what a file is if it is not a regular one.
func regular(info fs.FileInfo) error {
	switch m := info.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		return &kindError{"is a directory"}
	case m&fs.ModeNamedPipe != 0:
		return &kindError{"is a pipe; give a regular file"}
	case m&fs.ModeSocket != 0:
		return &kindError{"is a socket; give a regular file"}
	case m&fs.ModeDevice != 0:
		return &kindError{"is a device; give a regular file"}
	case m&fs.ModeSymlink != 0:
		return &kindError{"is a link; give the file itself"}
	}
	return ErrKind
}

// staleAfter is the age at which a temporary file counts as left behind by a process
// that was killed. Writing takes milliseconds; an hour leaves room for clocks of file
// servers that are off.
const staleAfter = time.Hour

// Write replaces a file by data, whole or not at all, for this user's eyes only. The
// folder is made if there is none. Temporary files that earlier processes left beside
// it go.
//
// The temporary file is called by the stem of the file's name, up to the first hyphen,
// a number and .tmp.
func Write(path string, data []byte) error {
	dir, stem := filepath.Dir(path), stemOf(path)
	if err := MakeFolder(dir); err != nil {
		return err
	}
	sweep(dir, stem, time.Now().Add(-staleAfter))
	f, err := os.CreateTemp(dir, stem+"*.tmp") // O_EXCL, mode 0600
	if err != nil {
		return err
	}
	return replace(f, data, false, func() error { return os.Rename(f.Name(), path) }, func() error { return os.Remove(f.Name()) })
}

// WriteDurable replaces a file of a folder by data, whole or not at all, for this user's eyes only, so
// that it outlasts a loss of power: when it returns nil, the file and its name are on the disk. A
// folder that was removed is not made again, which is an error. The temporary file is called as that
// of Write; one that a process leaves that is killed stays.
func WriteDurable(dir *os.Root, name string, data []byte) error {
	temporary := stemOf(name) + strconv.FormatUint(rand.Uint64(), 10) + ".tmp"
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := replace(f, data, true, func() error { return dir.Rename(temporary, name) }, func() error { return dir.Remove(temporary) }); err != nil {
		return err
	}
	folder, err := dir.Open(".")
	if err != nil {
		return err
	}
	err = SyncFolder(folder)
	if e := folder.Close(); err == nil {
		err = e
	}
	return err
}

// replace writes a new file and gives it its name, or removes it.
func replace(f *os.File, data []byte, durable bool, rename, remove func() error) error {
	_, err := f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = rename()
	}
	if err != nil {
		_ = remove() // the first error says more
	}
	return err
}

// MakeFolder makes a folder, and those that it is in, for this user alone, where there is none.
// The names of those it makes are on the disk when it returns nil, but for one in a folder that
// this user may not read.
func MakeFolder(path string) error { return makeFolder(path, syncFolder) }

func makeFolder(path string, sync func(dir string) error) error {
	var parents []string // of folders that are not there, the innermost first
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		parents = append(parents, filepath.Dir(at))
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, dir := range slices.Backward(parents) {
		if err := sync(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// syncFolder puts the names in a folder on the disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = SyncFolder(f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// stemOf is the beginning of a file's name up to and with the first hyphen.
func stemOf(path string) string {
	stem, _, _ := strings.Cut(filepath.Base(path), "-")
	return stem + "-"
}

// maxSwept is how many entries of a folder are looked at: others may have filled it.
const maxSwept = 4096

// sweep removes temporary files of a stem that were last written before a time and are
// this user's. What it cannot remove stays.
func sweep(dir, stem string, before time.Time) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxSwept) // what was read is good, whatever ended it
	for _, e := range entries {
		if !temporary(e.Name(), stem) {
			continue
		}
		info, err := e.Info() // of a link, not of what it leads to
		if err == nil && info.Mode().IsRegular() && info.ModTime().Before(before) && own(info) == nil {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// temporary reports whether a name is one that Write gives: a stem, digits and .tmp.
func temporary(name, stem string) bool {
	middle, ok := strings.CutPrefix(name, stem)
	if !ok {
		return false
	}
	middle, ok = strings.CutSuffix(middle, ".tmp")
	return ok && middle != "" && strings.Trim(middle, "0123456789") == ""
}
