package collective

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// wide selects the vector loops. Tests clear it to run the others.
var wide = cpu.X86.HasAVX2

// add32 and add64 add rows of 128 bytes.
//
//go:noescape
func add32(dst, a, b *float32, rows int)

//go:noescape
func add64(dst, a, b *float64, rows int)

// stream copies rows of 128 bytes past the caches. dst is a multiple of 32.
//
//go:noescape
func stream(dst, src *byte, rows int)

// addWide32 adds the first elements of two arrays and returns how many.
func addWide32(dst, a, b []float32) int {
	rows := len(dst) / 32
	if !wide || rows == 0 {
		return 0
	}
	_, _ = a[rows*32-1], b[rows*32-1]
	add32(&dst[0], &a[0], &b[0], rows)
	return rows * 32
}

// addWide64 adds the first elements of two arrays and returns how many.
func addWide64(dst, a, b []float64) int {
	rows := len(dst) / 16
	if !wide || rows == 0 {
		return 0
	}
	_, _ = a[rows*16-1], b[rows*16-1]
	add64(&dst[0], &a[0], &b[0], rows)
	return rows * 16
}

// streamWide copies the first bytes past the caches and returns how many.
func streamWide(dst, src []byte) int {
	if !wide || len(dst) < 256 {
		return 0
	}
	head := int(-uintptr(unsafe.Pointer(&dst[0])) & 31)
	copy(dst[:head], src)
	rows := (len(dst) - head) / 128
	_ = src[head+rows*128-1]
	stream(&dst[head], &src[head], rows)
	return head + rows*128
}
