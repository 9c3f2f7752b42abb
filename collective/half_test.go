package collective_test

import (
	"math"
	"testing"

	"github.com/weft-run/weft/collective"
)

// rounds checks that a number format of 16 bits rounds to nearest even: every finite
// number is itself, what lies between two is the nearer one, the middle is the even one,
// and a NaN is a NaN. infinity is its pattern.
func rounds(t *testing.T, infinity uint16, number func(bits uint16) float32, round func(x float32) uint16) {
	t.Helper()
	check := func(x float64, want uint16) {
		t.Helper()
		for sign, x := range []float32{float32(x), -float32(x)} {
			if got, want := round(x), want|uint16(sign)<<15; got != want {
				t.Errorf("%v rounds to %#x, want %#x", x, got, want)
			}
		}
	}
	for h := range infinity {
		x, next := float64(number(h)), float64(number(h+1))
		if h+1 == infinity {
			next = x + (x - float64(number(h-1))) // where the number after it would be
		}
		middle := x + (next-x)/2
		check(x, h)
		check(float64(math.Nextafter32(float32(middle), 0)), h)
		check(middle, h+h&1)
		if after := math.Nextafter32(float32(middle), math.MaxFloat32); after > float32(middle) {
			check(float64(after), h+1)
		}
	}
	check(math.Inf(1), infinity)
	for _, bits := range []uint32{0x7f800001, 0x7f80ffff, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff} {
		if got := round(math.Float32frombits(bits)); got&0x7fff <= infinity || got>>15 != uint16(bits>>31) {
			t.Errorf("the NaN %#x rounds to %#x", bits, got)
		}
	}
}

func TestHalfRounds(t *testing.T) {
	rounds(t, 0x7c00,
		func(h uint16) float32 { return collective.Half(h).Float32() },
		func(x float32) uint16 { return uint16(collective.NewHalf(x)) })
}

func TestBFloatRounds(t *testing.T) {
	rounds(t, 0x7f80,
		func(h uint16) float32 { return collective.BFloat(h).Float32() },
		func(x float32) uint16 { return uint16(collective.NewBFloat(x)) })
}
