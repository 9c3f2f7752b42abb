package cpu

import "golang.org/x/sys/cpu"

// simdLanes is how many 32-bit numbers a vector register holds.
func simdLanes() int {
	switch {
	case cpu.X86.HasAVX512F:
		return 16
	case cpu.X86.HasAVX2:
		return 8
	case cpu.X86.HasSSE2, cpu.ARM64.HasASIMD:
		return 4
	}
	return 1
}
