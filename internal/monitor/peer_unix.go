//go:build linux || darwin

package monitor

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

func supported() error { return nil }

// owned reports whether a file is this user's.
func owned(info fs.FileInfo) bool { return int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() }

// alive reports whether there is a process of a number.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
