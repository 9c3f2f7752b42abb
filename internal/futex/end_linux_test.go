package futex_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/futex"
)

var word atomic.Uint32

// The first thread of a process does not end with a goroutine: it is kept for main.
func init() { runtime.LockOSThread() }

// Who sleeps on a word is woken when a thread ends that said so.
func TestClearAtEnd(t *testing.T) {
	const value, long = 3, 60 * time.Second
	word.Store(value)
	end, ready := make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		futex.ClearAtEnd(&word)
		close(ready)
		<-end
	}()
	<-ready
	began := time.Now()
	time.AfterFunc(10*time.Millisecond, func() { close(end) })
	for word.Load() == value && time.Since(began) < long {
		futex.Wait(&word, value, long)
	}
	if took := time.Since(began); took >= long || word.Load() != 0 {
		t.Errorf("after %v the word is %d", took, word.Load())
	}
}
