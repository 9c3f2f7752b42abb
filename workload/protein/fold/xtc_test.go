package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

// unpackXTC reads the coordinates of a frame, in angstrom, and returns what is behind them. It
// knows atoms that are written by themselves.
func unpackXTC(t *testing.T, b []byte, atoms int) (x []float64, rest []byte) {
	t.Helper()
	word := func(i int) int32 { return int32(binary.BigEndian.Uint32(b[4*i:])) }
	precision := float64(math.Float32frombits(uint32(word(0))))
	count := int(word(8))
	stream, at := b[36:36+count], 0
	bit := func() uint64 {
		v := stream[at/8] >> (7 - at%8) & 1
		at++
		return uint64(v)
	}
	read := func(n int) (v uint64) {
		for range n {
			v = v<<1 | bit()
		}
		return v
	}
	var size [3]*big.Int
	whole, large := big.NewInt(1), false
	for c := range size {
		size[c] = big.NewInt(int64(word(4+c)) - int64(word(1+c)) + 1)
		whole.Mul(whole, size[c])
		large = large || size[c].Int64() > 0xffffff
	}
	for range atoms {
		var v [3]int64
		if large {
			for c := range v {
				v[c] = int64(read(bits.Len64(size[c].Uint64())))
			}
		} else {
			number := new(big.Int)
			for done := 0; done < whole.BitLen(); done += 8 {
				part := new(big.Int).SetUint64(read(min(8, whole.BitLen()-done)))
				number.Or(number, part.Lsh(part, uint(done)))
			}
			for c := 2; c > 0; c-- {
				rem := new(big.Int)
				number.DivMod(number, size[c], rem)
				v[c] = rem.Int64()
			}
			v[0] = number.Int64()
		}
		for c := range v {
			x = append(x, 10*float64(v[c]+int64(word(1+c)))/precision)
		}
		if bit() != 0 {
			t.Fatal("small differences")
		}
	}
	if (at+7)/8 != count {
		t.Errorf("%d bits in %d bytes", at, count)
	}
	return x, b[36+(count+3)/4*4:]
}

// Coordinates of any range are read back to half a hundredth of an angstrom.
func TestPackXTC(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 2))
	for _, spread := range [][3]float64{{0, 0, 0}, {1, 0, 30}, {50, 60, 70}, {1e5, 1e5, 1e5}, {3e6, 10, 10}, {4e6, 4e6, 4e6}} {
		x := make([]float64, 3*40)
		for k := range x {
			x[k] = (r.Float64()-0.3)*spread[k%3] + 5
		}
		b, err := packXTC(nil, x)
		if err != nil {
			t.Fatal(err)
		}
		got, rest := unpackXTC(t, b, 40)
		for k := range x {
			if math.Abs(got[k]-x[k]) > 0.00500001 {
				t.Fatalf("spread %v: coordinate %d is %v, want %v", spread, k, got[k], x[k])
			}
		}
		if len(rest) != 0 {
			t.Errorf("spread %v: %d bytes are left", spread, len(rest))
		}
	}
	for _, bad := range []float64{1e9, math.NaN(), math.Inf(-1)} {
		if _, err := packXTC(nil, []float64{0, bad, 0}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), ".dcd") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// The frames of an XTC file are those of a DCD file.
func TestWriteXTC(t *testing.T) {
	r := newSmall(t, small)
	do(t, workloadtest.Open(t, 1, Funcs()), r)
	var xtc, dcd bytes.Buffer
	if err := errors.Join(r.Write(&xtc, "xtc"), r.Write(&dcd, "dcd")); err != nil {
		t.Fatal(err)
	}
	b := xtc.Bytes()
	for i, frame := range readDCD(t, dcd.Bytes(), 46) {
		word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
		step := r.Lowest(i).Step
		if word(0) != 1995 || word(1) != 46 || word(2) != uint32(step) || math.Float32frombits(word(3)) != float32(float64(step)*0.005) || word(13) != 46 {
			t.Fatalf("frame %d begins with % x", i, b[:56])
		}
		var x []float64
		x, b = unpackXTC(t, b[56:], 46)
		for k := range x {
			if math.Abs(x[k]-float64(frame[k])) > 0.0051 {
				t.Fatalf("frame %d: coordinate %d is %v, want %v", i, k, x[k], frame[k])
			}
		}
	}
	if len(b) != 0 {
		t.Errorf("%d bytes behind the last frame", len(b))
	}
}
