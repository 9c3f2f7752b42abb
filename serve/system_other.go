//go:build !linux && !darwin

package serve

import (
	"math"
	"net"
)

// descriptors returns how many files and connections more this process may open: no number is known.
func descriptors() int { return math.MaxInt32 }

// writable errs if this user cannot make files in a folder. It is not known before one is made.
func writable(string) error { return nil }

// unread is not known here.
func unread(net.Conn) bool { return false }
