package reservoir

import (
	"syscall"
	"testing"
	"unsafe"
)

// guarded returns n numbers behind which memory cannot be read.
func guarded(t *testing.T, n int) []float32 {
	t.Helper()
	page := syscall.Getpagesize()
	size := (4*n + page - 1) / page * page
	b, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	if err := syscall.Mprotect(b[size:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[size-4*n])), n)
}

// Kernels that use a part of a vector touch nothing behind states and inputs: a fault ends
// the process.
func TestUpdateStaysWithin(t *testing.T) {
	everyKernel(t, func(t *testing.T) {
		p := tinyParams()
		p.Size, p.Connectivity = 22, 1
		w := mustNew(t, p)
		for batch := 1; batch <= 70; batch++ {
			next, x, u := guarded(t, p.Size*batch), guarded(t, p.Size*batch), guarded(t, p.Inputs*batch)
			w.Update(next, x, u, Tick{Batch: batch}, Span{0, p.Size}, Span{0, batch})
			runAll(t, w, callOf(w, batch, batch, 1), u, x, func(n int) []float32 { return guarded(t, n) })
		}
	})
}
