// Package memcopy copies large pieces of memory with several cores. Backends and the runtime call
// it for data; it decides nothing about whose memory that is.
package memcopy

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// part is the number of bytes that a goroutine copies at a time: they take a core about 60 µs, some
	// tens of times what a goroutine takes to begin. From 1 MiB on Go's copy goes past the caches, by which
	// a core of a Xeon copies 3.3 GB/s and not 5.5.
	part = 512 << 10
	// Cores is the largest number of goroutines: more than a few cores do not copy faster.
	Cores = 8
)

// Copy copies src to dst, which has as many bytes and shares none with it, with several cores, most of
// them at the most: one alone reaches a fraction of what the memory can. It returns when all is copied.
func Copy(dst, src []byte, most int) {
	n := len(src) / part
	if n <= 1 {
		copy(dst, src)
		return
	}
	Each(n, most, func(i int) {
		lo, hi := i*part, (i+1)*part
		if i == n-1 {
			hi = len(src)
		}
		copy(dst[lo:hi], src[lo:hi])
	})
}

// Each calls fn for 0 to n-1, each once, with several goroutines, most of them at the most, and returns
// when all calls have. What fn does should take longer than a goroutine takes to begin.
func Each(n, most int, fn func(i int)) {
	next := atomic.Int64{}
	work := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			fn(int(i))
		}
	}
	var wg sync.WaitGroup
	for range min(n, most, Cores, runtime.GOMAXPROCS(0)) - 1 {
		wg.Go(work)
	}
	work() // while the others wake up
	wg.Wait()
}
