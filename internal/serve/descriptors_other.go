//go:build !unix

package serve

import "math"

// descriptors returns how many files and connections more this process may open: no number is known.
func descriptors() int { return math.MaxInt32 }
