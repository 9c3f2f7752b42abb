package panel

import (
	"math"

	"golang.org/x/sys/cpu"
)

// The tiles below are in tile_amd64.s. A tile of r × n accumulates r rows of n
// columns; c and a have their rows ldc and lda floats apart, and row p of b
// begins at b[off[p]]. off must not be empty. They check no bounds. Memory is fetched
// into the cache from next on, going on by step bytes for every offset.

//go:noescape
func sumProduct12x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func sumProduct8x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func sumProduct4x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func sumProduct6x16(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func maxPlus12x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func maxPlus8x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func maxPlus4x32(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func maxPlus6x16(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

func sumProductSIMD() (kernels []*Kernel) {
	if cpu.X86.HasAVX512F {
		kernels = append(kernels, newKernel("avx512", 32, true, 0,
			tile{12, sumProduct12x32}, tile{8, sumProduct8x32}, tile{4, sumProduct4x32}))
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		kernels = append(kernels, newKernel("avx2", 16, true, 0, tile{6, sumProduct6x16}))
	}
	return kernels
}

func maxPlusSIMD() (kernels []*Kernel) {
	lowest := float32(math.Inf(-1))
	if cpu.X86.HasAVX512F {
		kernels = append(kernels, newKernel("avx512", 32, false, lowest,
			tile{12, maxPlus12x32}, tile{8, maxPlus8x32}, tile{4, maxPlus4x32}))
	}
	if cpu.X86.HasAVX2 {
		kernels = append(kernels, newKernel("avx2", 16, false, lowest, tile{6, maxPlus6x16}))
	}
	return kernels
}
