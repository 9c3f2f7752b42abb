//go:build !unix

package safefile

import (
	"errors"
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

// syncFolder has nothing to do here: names go to the disk by themselves.
func syncFolder(string) error { return nil }

// Lock is not there.
func Lock(path string) (*os.File, error) {
	return nil, &fs.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
}
