package arena

import (
	"runtime"
	"sync"
)

const (
	// copyPart is the number of bytes for which Copy uses one more goroutine.
	copyPart   = 512 << 10
	maxCopiers = 8
)

// Copy copies src to dst, which has as many bytes, with several cores: one alone
// reaches a fraction of what the memory can.
func Copy(dst, src []byte) {
	n := min(len(src)/copyPart, maxCopiers, runtime.GOMAXPROCS(0))
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
