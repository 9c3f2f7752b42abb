//go:build !gpu && (stub || cgo)

package cuda

import (
	"slices"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/machine"
)

// GPUs that can reach each other are let into each other's memory, which the stub
// insists on, and others copy all the same; the links say which is which.
func TestPeers(t *testing.T) {
	rigs := openRigs(t, Options{})
	const n = 5000
	kinds := map[int]machine.LinkKind{0 + 1: machine.NVLink, 1 + 2: machine.HostLink} // by both numbers
	for i, to := range rigs {
		for k, from := range rigs {
			if i == k {
				continue
			}
			src, dst := make([]uint32, n), make([]uint32, n)
			for j := range src {
				src[j] = uint32(j * (i + 3*k + 1))
			}
			x, y := from.alloc(4*n), to.alloc(4*n)
			w := to.send(to.in(), driver.Op{Kind: driver.Copy, Bytes: 4 * n, From: from.dev, Src: x, Dst: y}, from.copyIn(x, bytesOf(src)))
			to.must(to.copyOut(bytesOf(dst), y, w))
			if !slices.Equal(src, dst) {
				t.Errorf("from %d to %d: not what was there", k, i)
			}
			l, err := to.dev.(driver.PeerCopier).LinkTo(from.dev)
			if want, told := kinds[i+k]; err != nil || told && l.Kind != want {
				t.Errorf("the link from %d to %d is %+v, %v; want %v", k, i, l, err, want)
			}
		}
	}
}
