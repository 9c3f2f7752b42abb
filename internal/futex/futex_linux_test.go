package futex_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/futex"
)

// Two goroutines hand a word to each other, many pairs at once, on stacks that grow and shrink, on
// one processor and on several, while memory is collected.
func TestWaitTurns(t *testing.T) {
	const pairs, turns, long = 16, 200, 60 * time.Second
	for _, procs := range []int{1, 2, 8} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		stop := make(chan struct{})
		var others, all sync.WaitGroup
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
				}
			}
		})
		words := make([]atomic.Uint32, pairs)
		for i := range words {
			for side := range uint32(2) {
				all.Go(func() {
					for n := side; n < turns; n += 2 {
						waitDeep(&words[i], n, int(n)%64, long)
						words[i].Store(n + 1)
						futex.Wake(&words[i])
					}
				})
			}
		}
		all.Wait()
		close(stop)
		others.Wait()
		for i := range words {
			if n := words[i].Load(); n != turns {
				t.Errorf("%d processors: pair %d made %d turns of %d", procs, i, n, turns)
			}
		}
	}
}

// waitDeep waits until a word is n, some calls of a kilobyte each deeper in the stack.
func waitDeep(word *atomic.Uint32, n uint32, depth int, d time.Duration) byte {
	var room [1 << 10]byte
	room[int(n)%len(room)] = 1
	if depth > 0 {
		return waitDeep(word, n, depth-1, d) + room[depth]
	}
	for {
		at := word.Load()
		if at == n {
			return room[0]
		}
		futex.Wait(word, at, d)
	}
}

// Wait returns at once if the word has another value, and otherwise when its time is up.
func TestWaitEnds(t *testing.T) {
	var word atomic.Uint32
	word.Store(7)
	began := time.Now()
	futex.Wait(&word, 8, 60*time.Second)
	if took := time.Since(began); took >= 60*time.Second {
		t.Errorf("it waited %v on another value", took)
	}
	began = time.Now()
	for time.Since(began) < 20*time.Millisecond {
		futex.Wait(&word, 7, 20*time.Millisecond)
	}
}

// Two goroutines hand a word to each other: an operation is one of them waiting and being woken.
func BenchmarkWait(b *testing.B) {
	var word atomic.Uint32
	var other sync.WaitGroup
	turn := func(side uint32) {
		for n := side; n < uint32(b.N); n += 2 {
			for at := word.Load(); at != n; at = word.Load() {
				futex.Wait(&word, at, time.Minute)
			}
			word.Store(n + 1)
			futex.Wake(&word)
		}
	}
	other.Go(func() { turn(1) })
	turn(0)
	other.Wait()
}
