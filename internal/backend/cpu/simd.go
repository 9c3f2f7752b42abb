package cpu

import "golang.org/x/sys/cpu"

// simdLanes returns the number of 32-bit numbers in a vector register.
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
