package panel

import "math"

// The tiles below are in tile_arm64.s. A tile of r × n accumulates r rows of n
// columns; c and a have their rows ldc and lda floats apart, and row p of b
// begins at b[off[p]]. off must not be empty. They check no bounds, and leave
// fetching what comes next to the processor.

//go:noescape
func sumProduct8x8(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func sumProduct4x8(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func maxPlus8x8(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

//go:noescape
func maxPlus4x8(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)

// Every arm64 processor that Go runs on has NEON.

func sumProductSIMD() []*Kernel {
	return []*Kernel{newKernel("neon", 8, true, 0, tile{8, sumProduct8x8}, tile{4, sumProduct4x8})}
}

func maxPlusSIMD() []*Kernel {
	return []*Kernel{newKernel("neon", 8, false, float32(math.Inf(-1)), tile{8, maxPlus8x8}, tile{4, maxPlus4x8})}
}
