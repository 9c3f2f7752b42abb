//go:build !linux && !darwin

package monitor

import (
	"errors"
	"io/fs"
)

var errSystem = errors.New("a runtime can be watched on Linux and macOS only: elsewhere weft cannot tell who connects")

func supported() error { return errSystem }

func owned(fs.FileInfo) bool { return false }

func alive(int) bool { return false }

func peer(int) (uid int, err error) { return -1, errSystem }

func locked(_ string, fn func() error) error { return fn() }
