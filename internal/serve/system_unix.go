//go:build linux || darwin

package serve

import (
	"math"
	"os"
	"syscall"
)

// descriptors returns how many files and connections more this process may open.
func descriptors() int {
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most); err != nil || uint64(most.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return int(most.Cur)
	}
	return int(most.Cur) - len(open)
}

// writable errs if this user cannot make files in a folder.
func writable(dir string) error {
	const write, search = 2, 1
	return syscall.Access(dir, write|search)
}
