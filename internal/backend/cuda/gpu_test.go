//go:build gpu

package cuda

import (
	"syscall"
	"testing"
)

// libraryPath is empty: the libraries of this machine are meant.
func libraryPath(testing.TB) []string { return nil }

func closeFD(fd int) { _ = syscall.Close(fd) }
