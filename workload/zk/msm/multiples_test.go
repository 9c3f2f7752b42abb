package msm

import (
	"math/big"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft/machine"
)

// A table has the multiples of each point by powers of 2 that a scalar is cut at.
func TestTable(t *testing.T) {
	points, _ := Draw[bn254.G1Affine](1, 300)
	seconds, _ := Draw[bn254.G2Affine](1, 3)
	points[7] = bn254.G1Affine{}
	for k := 1; k <= mostMultiples; k *= 2 {
		if bits := k * span(k); bits < scalarBits+1 || bits >= scalarBits+1+k {
			t.Errorf("%d multiples take %d bits", k, bits)
		}
		all, some := table(t.Context(), points, k), table(t.Context(), seconds, k)
		for j := range k {
			by := new(big.Int).Lsh(big.NewInt(1), uint(j*span(k)))
			for _, i := range []int{0, 7, 299} {
				if want := new(bn254.G1Affine).ScalarMultiplication(&points[i], by); all[i*k+j] != *want {
					t.Errorf("multiple %d of %d of point %d is another", j, k, i)
				}
			}
			if want := new(bn254.G2Affine).ScalarMultiplication(&seconds[2], by); some[2*k+j] != *want {
				t.Errorf("multiple %d of %d in G2 is another", j, k)
			}
		}
		for bits := 4; bits <= 16; bits++ {
			width, count, last := cutWindows(bits, k)
			if width > bits || last < 1 || last > width || k > 1 && (count-1)*width+last != span(k) || k == 1 && count*width <= scalarBits {
				t.Errorf("windows of %d bits with %d multiples: %d of %d, the last of %d", bits, k, count, width, last)
			}
		}
	}
}

// Multiples are for GPUs with room for them, and for sums that they make shorter.
func TestMultiples(t *testing.T) {
	gpu := func(bytes int64) *machine.Machine {
		return &machine.Machine{Devices: []machine.Device{{Kind: machine.CPU, HostMemory: true, MemBytes: 1 << 30}, {Kind: machine.Discrete, MemBytes: bytes}}}
	}
	for _, c := range []struct {
		m           *machine.Machine
		n           int
		least, most int
	}{
		{&machine.Machine{Devices: gpu(0).Devices[:1]}, 5000, 1, 1},
		{gpu(128 << 30), 5000, 4, mostMultiples},
		{gpu(128 << 30), 1 << 17, 2, mostMultiples},
		{gpu(128 << 30), 1<<17 + 1, 1, 1},
		{gpu(tablePart * 2 * 5000 * 64), 5000, 2, 2},
		{gpu(tablePart*2*5000*64 - 1), 5000, 1, 1},
	} {
		if k := Multiples[bn254.G1Affine](c.m, c.n); k < c.least || k > c.most {
			t.Errorf("%d multiples of %d points, want %d to %d", k, c.n, c.least, c.most)
		}
	}
}
