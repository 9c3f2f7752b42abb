//go:build linux || darwin

package monitor

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

func supported() error { return nil }

// owned reports whether a file is this user's.
func owned(info fs.FileInfo) bool { return int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() }

// alive reports whether there is a process of a number.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// lockWait is the longest wait for a lock, which others hold for a millisecond: one that was
// stopped meanwhile must not stop this process too.
const lockWait = 2 * time.Second

// locked calls fn while no other process of this package changes the sockets of a folder.
func locked(dir string, fn func() error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close() // which unlocks it
	for end := time.Now().Add(lockWait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			break // some file systems have no locks
		}
	}
	return fn()
}
