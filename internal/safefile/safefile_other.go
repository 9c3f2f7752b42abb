//go:build !unix

package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const noWait = 0 // pipes are no files here

func openFile(path string, access int, _ bool) (*os.File, error) {
	return os.OpenFile(path, access, 0)
}

// own knows no owners here: a user's folders are private by default.
func own(fs.FileInfo) error { return nil }

// secret knows no owners here.
func secret(fs.FileInfo) error { return nil }

// Trusted knows no owners here.
func Trusted(path string) error {
	_, err := os.Lstat(path)
	return err
}

// SyncFolder has nothing to do here: names go to the disk by themselves.
func SyncFolder(*os.File) error { return nil }

// Lock makes a file that must not be there, and removes it when it is closed. A process that is
// killed leaves it.
func Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, &fs.PathError{Op: "lock", Path: path, Err: fmt.Errorf("%w; if none is running, remove it", ErrLocked)}
	}
	if err != nil {
		return nil, err
	}
	return lockFile{f}, nil
}

type lockFile struct{ *os.File }

func (l lockFile) Close() error {
	err := l.File.Close()
	if e := os.Remove(l.Name()); err == nil {
		err = e
	}
	return err
}
