package cpu

import "golang.org/x/sys/cpu"

// The loops below are in probe_amd64.s: rounds of eight operations on whole
// registers, or of sixteen for integers.

//go:noescape
func fp32x512(out *byte, rounds int)

//go:noescape
func fp64x512(out *byte, rounds int)

//go:noescape
func int32x512(out *byte, rounds int)

//go:noescape
func fp32x256(out *byte, rounds int)

//go:noescape
func fp64x256(out *byte, rounds int)

//go:noescape
func int32x256(out *byte, rounds int)

// arithmetic returns the widest loops this processor has.
func arithmetic() probeLoops {
	switch {
	case cpu.X86.HasAVX512F:
		return probeLoops{probeLoop{fp32x512, 256}, probeLoop{fp64x512, 128}, probeLoop{int32x512, 256}}
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return probeLoops{probeLoop{fp32x256, 128}, probeLoop{fp64x256, 64}, probeLoop{int32x256, 128}}
	}
	return plain
}
