package disk

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

const (
	directFlag = syscall.O_DIRECT
	readFlags  = syscall.O_NOFOLLOW | syscall.O_NONBLOCK // no link, and no pipe is waited for
)

// refusesDirect reports whether a file system does not write past the page cache.
func refusesDirect(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP)
}

// reserve makes sure that there is room for a file.
func reserve(f *os.File, size int64) error {
	for {
		switch err := syscall.Fallocate(int(f.Fd()), 0, 0, size); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS):
			return nil // it will be seen when it is written
		default:
			return err
		}
	}
}

// flush makes what was written to a file durable, without its times.
func flush(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// largePage is the size of a large page of most machines.
const largePage = 2 << 20

// preferLarge asks for large pages for memory. Those that were used before stay small until the
// system joins them. Without large pages all is the same but slower.
func preferLarge(b []byte) {
	lo := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (largePage - 1)
	if n := (uintptr(len(b)) - lo) &^ (largePage - 1); uintptr(len(b)) > lo && n > 0 {
		_ = syscall.Madvise(b[lo:lo+n], syscall.MADV_HUGEPAGE)
	}
}
