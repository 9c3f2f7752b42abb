//go:build !unix

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// lock makes a file that must not be there. A process that is killed leaves it.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w; if none is running, remove %s", locked(path), path)
	}
	if err != nil {
		return nil, err
	}
	return func() {
		_ = f.Close()
		_ = os.Remove(path) // or the next one says so
	}, nil
}

// syncFolder does nothing: names are durable here once they are made.
func syncFolder(*os.Root) error { return nil }
