package merkle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
)

// counted returns n leaves; leaf i is i as a big-endian word and 28 zero bytes.
func counted(n int) []byte {
	leaves := make([]byte, n*Size)
	for i := range n {
		binary.BigEndian.PutUint32(leaves[i*Size:], uint32(i))
	}
	return leaves
}

// scrambled returns n leaves without any pattern.
func scrambled(n int) []byte {
	leaves := make([]byte, 0, n*Size)
	for i := range n {
		hash := sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		leaves = append(leaves, hash[:]...)
	}
	return leaves
}

// cutRoot computes a root as devices do: the leaves in chunks for a number of parts, each
// in its own memory, then the nodes of the chunks.
func cutRoot(mode Mode, leaves []byte, parts int) [Size]byte {
	n := len(leaves) / Size
	h, chunks := chunksOf(n, parts)
	top := make([]byte, 0, chunks*Size)
	for c := range chunks {
		lo, hi := c<<h, min((c+1)<<h, n)
		part := bytes.Clone(leaves[lo*Size : hi*Size])
		if mode == RFC6962 {
			hashLeaves(part, part, 0, hi-lo)
		}
		reduceNodes(mode, part, hi-lo, h)
		top = append(top, part[:Size]...)
	}
	reduceNodes(mode, top, chunks, heightOf(chunks))
	return [Size]byte(top)
}

// everyKernel runs a test with each kernel this machine has.
func everyKernel(t *testing.T, test func(t *testing.T)) {
	had := wide
	defer func() { wide = had }()
	for _, wide = range []bool{false, had} {
		t.Run(fmt.Sprintf("wide=%v", wide), test)
	}
}

func TestVectors(t *testing.T) {
	var four []byte
	for i := range 4 {
		four = append(four, bytes.Repeat([]byte{byte(i + 1)}, Size)...)
	}
	for _, c := range []struct {
		mode   Mode
		leaves []byte
		want   string
	}{
		{Dup, counted(5), "da6f7f6db719c1b4e2e7b6c132fe8f52f905487e5502bf568f9219edb8bf7bde"},
		{RFC6962, counted(5), "3f35561797baf07cd5bb2f67b799f12a67d641ea89c61d6aee54217690dca7af"},
		{Dup, four, "2c0c4083be2badf7c9f9046d8730d21e034c1ce50f519c166d7605848b17b0d5"},
	} {
		if got := referenceRoot(c.mode, c.leaves); hex.EncodeToString(got[:]) != c.want {
			t.Errorf("mode %d: reference %x, want %s", c.mode, got, c.want)
		}
		if got := cutRoot(c.mode, c.leaves, 1); hex.EncodeToString(got[:]) != c.want {
			t.Errorf("mode %d: kernel %x, want %s", c.mode, got, c.want)
		}
	}
}

// Every cut of every small tree, and of some large ones, has the root of the
// definition.
func TestCutsDoNotChangeRoot(t *testing.T) {
	everyKernel(t, func(t *testing.T) {
		all := scrambled(10_001)
		sizes := []int{255, 256, 257, 1000, 4097, 10_000, 10_001}
		for n := range 130 {
			sizes = append(sizes, n+1)
		}
		for _, n := range sizes {
			for _, mode := range []Mode{RFC6962, Dup} {
				want := referenceRoot(mode, all[:n*Size])
				for parts := 1; parts <= 8; parts++ {
					if got := cutRoot(mode, all[:n*Size], parts); got != want {
						t.Fatalf("mode %d, %d leaves, %d parts: %x, want %x", mode, n, parts, got, want)
					}
				}
			}
		}
	})
}

// The Certificate Transparency library agrees.
func TestTransparencyDev(t *testing.T) {
	factory := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	r := factory.NewEmptyRange(0)
	const n = 3000
	leaves := scrambled(n)
	for i := range n {
		leaf := leaves[i*Size : (i+1)*Size]
		if err := r.Append(rfc6962.DefaultHasher.HashLeaf(leaf), nil); err != nil {
			t.Fatal(err)
		}
		if i > 300 && i%97 != 0 {
			continue
		}
		want, err := r.GetRootHash(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := cutRoot(RFC6962, leaves[:(i+1)*Size], 3); !bytes.Equal(got[:], want) {
			t.Fatalf("%d leaves: %x, want %x", i+1, got, want)
		}
	}
}

// Ranges of a level in any order and size give the level.
func TestLevelRanges(t *testing.T) {
	everyKernel(t, func(t *testing.T) {
		for _, n := range []int{1, 2, 31, 32, 33, 64, 501} {
			src := scrambled(n)
			for _, mode := range []Mode{RFC6962, Dup} {
				above := (n + 1) / 2
				want := make([]byte, above*Size)
				for i := range above {
					hashLevel(mode, want, src, n, i, i+1)
				}
				for _, width := range []int{1, 7, 16, 17, 40, above} {
					got := make([]byte, above*Size)
					for lo := (above - 1) / width * width; lo >= 0; lo -= width {
						hashLevel(mode, got, src, n, lo, min(lo+width, above))
					}
					if !bytes.Equal(got, want) {
						t.Errorf("mode %d, %d nodes: ranges of %d differ from single nodes", mode, n, width)
					}
				}
			}
		}
	})
}

func TestChunks(t *testing.T) {
	for n := 1; n < 200; n++ {
		for parts := 1; parts < 20; parts++ {
			h, chunks := chunksOf(n, parts)
			if chunks<<h < n || (chunks-1)<<h >= n {
				t.Fatalf("%d leaves in %d parts: %d chunks of 2^%d do not cover them", n, parts, chunks, h)
			}
			if chunks < min(parts, n) {
				t.Fatalf("%d leaves in %d parts: only %d chunks", n, parts, chunks)
			}
		}
	}
}

// The trees of n leaves take the hashes that Ops counts in compressions.
func TestOps(t *testing.T) {
	if got := ops(Dup, 1<<20); got != 2*(1<<20-1) {
		t.Errorf("dup: %v", got)
	}
	if got := ops(RFC6962, 1<<20); got != 2*(1<<20-1)+1<<20 {
		t.Errorf("rfc6962: %v", got)
	}
}

func TestKernelsDoNotAllocate(t *testing.T) {
	nodes := scrambled(100)
	everyKernel(t, func(t *testing.T) {
		if n := testing.AllocsPerRun(10, func() {
			hashLeaves(nodes, nodes, 0, 100)
			reduceNodes(RFC6962, nodes, 100, heightOf(100))
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// FuzzRoot compares both kernels with the definition on arbitrary leaves.
func FuzzRoot(f *testing.F) {
	f.Add([]byte("seed"), uint16(33), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, n uint16, parts uint8) {
		leaves := make([]byte, (int(n%600)+1)*Size)
		for i := 0; len(data) > 0 && i < len(leaves); i += len(data) {
			copy(leaves[i:], data)
		}
		for _, mode := range []Mode{RFC6962, Dup} {
			want := referenceRoot(mode, leaves)
			if got := cutRoot(mode, leaves, int(parts%16)+1); got != want {
				t.Errorf("mode %d: %x, want %x", mode, got, want)
			}
		}
	})
}

// BenchmarkTree builds a tree of 2^20 leaves on one core. The peer is a plain
// loop of crypto/sha256 over the same levels.
func BenchmarkTree(b *testing.B) {
	const n = 1 << 20
	leaves := counted(n)
	work := make([]byte, len(leaves))
	want := referenceRoot(RFC6962, leaves)
	report := func(b *testing.B) {
		if [Size]byte(work) != want {
			b.Fatal("wrong root")
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mleaf/s")
	}
	b.Run("peer=crypto/sha256", func(b *testing.B) {
		for range b.N {
			var message [1 + 2*Size]byte
			for i := range n {
				copy(message[1:], leaves[i*Size:(i+1)*Size])
				hash := sha256.Sum256(message[:1+Size])
				copy(work[i*Size:], hash[:])
			}
			message[0] = 1
			for m := n / 2; m >= 1; m /= 2 {
				for i := range m {
					copy(message[1:], work[2*i*Size:(2*i+2)*Size])
					hash := sha256.Sum256(message[:])
					copy(work[i*Size:], hash[:])
				}
			}
		}
		report(b)
	})
	had := wide
	defer func() { wide = had }()
	for _, wide = range []bool{false, had} {
		b.Run(fmt.Sprintf("wide=%v", wide), func(b *testing.B) {
			for range b.N {
				hashLeaves(work, leaves, 0, n)
				reduceNodes(RFC6962, work, n, heightOf(n))
			}
			report(b)
		})
	}
}

// A tree of nothing has the root that RFC 6962 gives it, the hash of nothing, or zeros.
// The definition allocates nothing however often it is computed: see rootRFC6962.
func TestRootAllocates(t *testing.T) {
	leaves := make([]byte, 1000*Size)
	if n := testing.AllocsPerRun(10, func() { referenceRoot(RFC6962, leaves) }); n > 0 {
		t.Errorf("%v allocations for a root", n)
	}
}

func TestRootOfNothing(t *testing.T) {
	if got, want := referenceRoot(RFC6962, nil), sha256.Sum256(nil); got != want {
		t.Errorf("rfc6962: %x, want %x", got, want)
	}
	if got := referenceRoot(Dup, nil); got != [Size]byte{} {
		t.Errorf("dup: %x, want zeros", got)
	}
}
