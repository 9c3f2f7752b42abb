package simd

import "golang.org/x/sys/cpu"

// Best is the set of the fastest kernels that this machine can run.
var Best = func() Set {
	x := &cpu.X86
	switch {
	case x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512VL:
		return AVX512
	case x.HasAVX2:
		return AVX2
	}
	return Go
}()
