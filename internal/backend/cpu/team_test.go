package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// A launch that has all processors lets others run between its chunks.
func TestWorkYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const chunks = 10
	var done, seen atomic.Int32
	seen.Store(chunks)
	j := &teamLaunch{call: &driver.Call{}, items: chunks, chunk: 1, fn: func(*driver.Call, int, int) {
		for start := time.Now(); time.Since(start) < 2*yieldEvery; {
		}
		done.Add(1)
	}}
	over := make(chan struct{})
	go func() {
		seen.Store(done.Load())
		close(over)
	}()
	j.work(nil)
	if n := seen.Load(); n == chunks {
		t.Error("another goroutine did not run before the last chunk ended")
	}
	<-over
}
