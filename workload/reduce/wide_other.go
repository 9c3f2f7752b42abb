//go:build !amd64 && !arm64

package reduce

// wide is false where there are no vector kernels.
var wide = false

// sumWide does nothing: the calling function does all the work.
func sumWide[T Float](sum *[lanes]T, src []T) bool { return false }

// extremaWide returns the first element: the calling functions do the rest of
// the work.
func extremaWide[T Float](src []T) (most, least T, done int) { return src[0], src[0], 1 }
