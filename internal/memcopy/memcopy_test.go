package memcopy

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

// Every byte is copied, and none beside them, at sizes around those at which one more goroutine copies.
func TestCopy(t *testing.T) {
	const beside = 64
	random := rand.New(rand.NewPCG(1, 2))
	for parts := range Cores + 2 {
		for _, more := range []int{-1, 0, 1, 7} {
			n := max(parts*part+more, 0)
			src, dst := make([]byte, n), make([]byte, n+2*beside)
			for i := range src {
				src[i] = byte(random.Uint32() | 1) // none is what dst has
			}
			Copy(dst[beside:beside+n], src, Cores)
			want := append(append(make([]byte, beside), src...), make([]byte, beside)...)
			if !bytes.Equal(dst, want) {
				t.Fatalf("%d bytes: the copy differs from them, or is not where it should be", n)
			}
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 128<<20), make([]byte, 128<<20)
	Copy(dst, src, Cores) // which takes memory
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		Copy(dst, src, Cores)
	}
}

// Each number is called once, by no more goroutines at a time than are allowed.
func TestEach(t *testing.T) {
	for _, most := range []int{0, 1, 2, 100} {
		const n = 1000
		var calls [n]atomic.Int32
		var now, peak atomic.Int32
		Each(n, most, func(i int) {
			if k := now.Add(1); k > peak.Load() {
				peak.Store(k)
			}
			runtime.Gosched()
			calls[i].Add(1)
			now.Add(-1)
		})
		for i := range calls {
			if k := calls[i].Load(); k != 1 {
				t.Fatalf("at most %d: number %d was called %d times", most, i, k)
			}
		}
		if int(peak.Load()) > max(most, 1) {
			t.Errorf("at most %d: %d at a time", most, peak.Load())
		}
	}
	Each(0, 2, func(int) { t.Error("a call of none") })
}
