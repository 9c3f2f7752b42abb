// Package disk is the folder on a disk that checkpoints are written to. It writes large
// files past the page cache where the file system lets it, so that a gigabyte of
// checkpoint neither costs a copy nor fills the cache with pages that others then wait
// for, and reserves their room before it writes. It knows nothing of what is in the files.
package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unsafe"

	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/safefile"
)

// Folder is a folder of checkpoints.
type Folder struct{ root *os.Root }

// ErrLink says that there is a link where a folder should be: nothing is read, written or
// removed where it leads.
var ErrLink = errors.New("is a link or no folder; remove it, or name another folder")

// Open opens the folder of that name in dir, or makes it where create says so, for this user
// alone. It must be a folder and no link; dir may be a link.
func Open(dir, name string, create bool) (*Folder, error) {
	if create {
		if err := safefile.MakeFolder(dir); err != nil {
			return nil, err
		}
	}
	parent, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if create {
		if err := parent.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		// Its name must be on the disk, also where who made it was killed before that.
		if err := (&Folder{parent}).Sync(); err != nil {
			return nil, err
		}
	}
	info, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s %w", filepath.Join(dir, name), ErrLink)
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		_ = root.Close() // nothing was written
		return nil, fmt.Errorf("%s %w", filepath.Join(dir, name), cmp.Or(err, ErrLink))
	}
	return &Folder{root}, nil
}

// Remove removes the folder of that name in dir with its content, or a link in its place. A
// missing folder is no error. dir may be a link.
func Remove(dir, name string) error {
	parent, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.RemoveAll(name)
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Create makes a file; see [checkpoint.FS].
func (f *Folder) Create(name string, size int64) (checkpoint.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if size == 0 {
		out, err := f.root.OpenFile(name, flags, 0o600)
		if err != nil {
			return nil, room(err)
		}
		return &file{File: out}, nil
	}
	out, err := f.root.OpenFile(name, flags|directFlag, 0o600)
	direct := err == nil && directFlag != 0
	if err != nil && directFlag != 0 && refusesDirect(err) {
		// Linux makes the file before it refuses to open it so.
		_ = f.root.Remove(name) // the next line says what matters
		out, err = f.root.OpenFile(name, flags, 0o600)
	}
	if err != nil {
		return nil, room(err)
	}
	if err := reserve(out, size); err != nil {
		_ = out.Close()
		_ = f.root.Remove(name) // the first error says more
		return nil, room(err)
	}
	return &file{File: out, direct: direct}, nil
}

// bounceBytes is the number of bytes written at a time from memory that is not aligned, and the
// number after which a file in the page cache is synced: other writers may have to wait for that
// many.
const bounceBytes = 8 << 20

// file is a file that is written.
type file struct {
	*os.File
	direct bool
	bounce []byte // aligned
	dirty  int    // bytes in the page cache
}

// Write writes p, whose length is a multiple of AlignBytes if the file is large.
func (f *file) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		part := p[n:]
		aligned := uintptr(unsafe.Pointer(&part[0]))%checkpoint.AlignBytes == 0
		if !f.direct || !aligned {
			part = part[:min(len(part), bounceBytes)]
		}
		if f.direct && !aligned {
			if f.bounce == nil {
				f.bounce = Aligned(bounceBytes)
			}
			part = f.bounce[:copy(f.bounce, part)]
		}
		var k int
		k, err = f.File.Write(part)
		n += k
		if f.dirty += k; err == nil && !f.direct && f.dirty >= bounceBytes {
			f.dirty = 0
			err = flush(f.File)
		}
	}
	return n, room(err)
}

// Sync makes what was written durable.
func (f *file) Sync() error { return room(f.File.Sync()) }

// Close closes the file. Some file systems say only then that there is no room.
func (f *file) Close() error { return room(f.File.Close()) }

// room makes the errors of a disk or a quota that is full ErrFull.
func room(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", checkpoint.ErrFull, err)
	}
	return err
}

// Aligned returns memory of a length that begins at a multiple of AlignBytes. It has large pages
// where there are any: to compute checksums of it and write it then takes half the processor time.
func Aligned(n int64) []byte {
	b := make([]byte, n+checkpoint.AlignBytes)
	at := -int64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (checkpoint.AlignBytes - 1)
	preferLarge(b)
	return b[at : at+n : at+n]
}

// Open opens a regular file for reading.
func (f *Folder) Open(name string) (checkpoint.Reader, int64, error) {
	in, err := f.root.OpenFile(name, os.O_RDONLY|readFlags, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is no regular file")
	}
	if err != nil {
		_ = in.Close() // nothing was written
		return nil, 0, err
	}
	return in, info.Size(), nil
}

// Rename gives a file another name.
func (f *Folder) Rename(from, to string) error { return room(f.root.Rename(from, to)) }

// Remove removes a file.
func (f *Folder) Remove(name string) error { return f.root.Remove(name) }

// List returns the names of all files.
func (f *Folder) List() ([]string, error) {
	d, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// Sync makes the names of the folder durable.
func (f *Folder) Sync() error {
	d, err := f.root.Open(".")
	if err != nil {
		return err
	}
	err = safefile.SyncFolder(d)
	if e := d.Close(); err == nil {
		err = e
	}
	return room(err)
}

// Folders returns the names of the folders in a folder, sorted.
func Folders(path string) (names []string, err error) {
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// LockName is the file by which a folder is locked.
const LockName = "lock"

// Lock makes the folder this process's until unlock is called or the process ends. It makes
// the folder where create says so. If another process has it, the error wraps
// [safefile.ErrLocked].
func Lock(path string, create bool) (unlock func(), err error) {
	if create {
		if err := safefile.MakeFolder(path); err != nil {
			return nil, err
		}
	}
	lock, err := safefile.Lock(filepath.Join(path, LockName))
	if errors.Is(err, safefile.ErrLocked) {
		return nil, fmt.Errorf("%s is in use: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil // or the next one says so
}
