package memcopy

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Every byte is copied, and none beside them, at sizes around those at which one more goroutine copies.
func TestCopy(t *testing.T) {
	const beside = 64
	random := rand.New(rand.NewPCG(1, 2))
	for parts := range maxCopiers + 2 {
		for _, more := range []int{-1, 0, 1, 7} {
			n := max(parts*part+more, 0)
			src, dst := make([]byte, n), make([]byte, n+2*beside)
			for i := range src {
				src[i] = byte(random.Uint32() | 1) // none is what dst has
			}
			Copy(dst[beside:beside+n], src)
			want := append(append(make([]byte, beside), src...), make([]byte, beside)...)
			if !bytes.Equal(dst, want) {
				t.Fatalf("%d bytes: the copy differs from them, or is not where it should be", n)
			}
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 128<<20), make([]byte, 128<<20)
	Copy(dst, src) // which takes memory
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		Copy(dst, src)
	}
}
