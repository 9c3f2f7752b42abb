//go:build linux || darwin

package serve

import (
	"math"
	"net"
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

// unread reports whether something of a connection waits to be read. Connections of Go's do not block.
func unread(c net.Conn) (is bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) { // one that is closed has nothing
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		is = n > 0 && err == nil
	})
	return is
}
