// Package memcopy copies large pieces of memory with several cores. Backends and the runtime call
// it for data; it decides nothing about whose memory that is.
package memcopy

import (
	"runtime"
	"sync"
)

const (
	// part is the number of bytes for which Copy uses one more goroutine: they take a core
	// about 60 µs, some tens of times what a goroutine takes to begin.
	part = 512 << 10
	// maxCopiers is the largest number of goroutines: more than a few cores do not copy faster.
	maxCopiers = 8
)

// Copy copies src to dst, which has as many bytes, with several cores: one alone
// reaches a fraction of what the memory can. It returns when all is copied.
func Copy(dst, src []byte) {
	n := min(len(src)/part, maxCopiers, runtime.GOMAXPROCS(0))
	if n <= 1 {
		copy(dst, src)
		return
	}
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		lo, hi := i*len(src)/n, (i+1)*len(src)/n
		wg.Go(func() { copy(dst[lo:hi], src[lo:hi]) })
	}
	copy(dst[:len(src)/n], src) // while the others wake up
	wg.Wait()
}
