package philox

import (
	"math"
	"testing"
)

// The known answers of the authors' Random123 library, file kat_vectors.
func TestKnownAnswers(t *testing.T) {
	const f = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{f, f, f, f}, [2]uint32{f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := Block(c.counter, c.key); got != c.want {
			t.Errorf("Block(%08x, %08x) = %08x, want %08x", c.counter, c.key, got, c.want)
		}
	}
}

func TestSourceLayout(t *testing.T) {
	s := Source{Seed: 7, Stream: 9}
	const item = 5<<32 | 3
	for lane := range uint32(12) {
		want := Block([4]uint32{3, 5, 11, lane / 4}, [2]uint32{7, 9})[lane%4]
		if got := s.Uint32(item, 11, lane); got != want {
			t.Errorf("lane %d: %08x, want %08x", lane, got, want)
		}
	}
}

func TestIntervals(t *testing.T) {
	for _, w := range []uint32{0, 1, 511, 512, 1<<31 - 1, 1 << 31, math.MaxUint32} {
		if u := Unit(w); u <= 0 || u >= 1 || u+Unit(^w) != 1 {
			t.Errorf("Unit(%08x) = %v", w, u)
		}
		if v := Symmetric(w); v <= -1 || v >= 1 || v != -Symmetric(^w) {
			t.Errorf("Symmetric(%08x) = %v", w, v)
		}
		if v := Symmetric32(w); v <= -1 || v >= 1 || v != -Symmetric32(^w) || math.Abs(float64(v)-Symmetric(w)) > 1.0/(1<<22) {
			t.Errorf("Symmetric32(%08x) = %v", w, v)
		}
	}
}

// Mean, variance and lag correlation of a million draws lie within five
// standard errors of those of the uniform distribution.
func TestMoments(t *testing.T) {
	s := Source{Seed: 1}
	const n = 1 << 20
	var sum, square, lag, last float64
	for i := range uint64(n) {
		v := Symmetric(s.Uint32(i/64, uint32(i/8%8), uint32(i%8)))
		sum += v
		square += v * v
		lag += v * last
		last = v
	}
	root := math.Sqrt(n)
	if m := sum / n; math.Abs(m) > 5*math.Sqrt(1.0/3)/root {
		t.Errorf("mean %v", m)
	}
	if v := square / n; math.Abs(v-1.0/3) > 5*math.Sqrt(4.0/45)/root {
		t.Errorf("variance %v, want 1/3", v)
	}
	if c := lag / n; math.Abs(c) > 5.0/3/root {
		t.Errorf("lag correlation %v", c)
	}
}

var sink uint32

func BenchmarkBlock(b *testing.B) {
	s := Source{Seed: 1}
	b.SetBytes(16)
	for i := range b.N {
		sink += s.Block(uint64(i), 0, 0)[0]
	}
}
