//go:build !amd64

package collective

// wide is false where there are no vector loops.
var wide = false

// addWide32 adds nothing: the calling function does all the work.
func addWide32(dst, a, b []float32) int { return 0 }

// addWide64 adds nothing: the calling function does all the work.
func addWide64(dst, a, b []float64) int { return 0 }

// streamWide copies nothing: the calling function does all the work.
func streamWide(dst, src []byte) int { return 0 }
