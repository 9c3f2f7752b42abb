//go:build !linux

package cuda

import (
	"errors"
	"time"
)

// errPlatform is why no library opens: GPU workers need Linux.
var errPlatform = errors.New("the cuda backend needs Linux")

func dlopen(string) (uintptr, error) { return 0, errPlatform }

func absent(string, error) bool { return true }

func dlsym(uintptr, string) uintptr { return 0 }

func nap(d time.Duration) { time.Sleep(d) }

func sharpen() {}

func numaNode(string) int { return 0 }
