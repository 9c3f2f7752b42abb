package collective

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// nearest returns the value of a 16-bit format that is nearest to x, of two the
// even one, by looking at all of them.
func nearest(x float64, widen func(uint16) float32, infinity uint16) uint16 {
	best, least := uint16(0), math.Inf(1)
	for b := range infinity + 1 {
		v := float64(widen(b))
		if b == infinity { // as far as the next step would be
			v = 2*float64(widen(b-1)) - float64(widen(b-2))
		}
		if d := math.Abs(v - math.Abs(x)); d < least || d == least && b%2 == 0 {
			best, least = b, d
		}
	}
	if math.Signbit(x) {
		best |= 0x8000
	}
	return best
}

// All 16-bit numbers are what their definition says, and survive a round trip.
func TestHalvesMeanWhatTheyShould(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		exp, frac := int(h>>10&31), float64(h&1023)
		want := math.Ldexp(1024+frac, exp-25)
		switch {
		case exp == 0:
			want = math.Ldexp(frac, -24)
		case exp == 31 && frac == 0:
			want = math.Inf(1)
		case exp == 31:
			want = math.NaN()
		}
		if h>>15 == 1 {
			want = -want
		}
		got := float64(Half(h).Float32())
		if math.Float64bits(got) != math.Float64bits(want) && !(got != got && want != want) {
			t.Fatalf("half %#x is %v, want %v", h, got, want)
		}
		if back := NewHalf(float32(got)); got == got && uint16(back) != h {
			t.Fatalf("half %#x comes back as %#x", h, back)
		}
		b := BFloat(h)
		if x := b.Float32(); x == x && NewBFloat(x) != b {
			t.Fatalf("bfloat %#x comes back as %#x", h, NewBFloat(x))
		}
	}
}

func TestHalvesRound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	xs := []float32{0, float32(math.Copysign(0, -1)), 65504, 65519.996, 65520, 1e9, 0x1p-24, 0x1p-25, 0x1.8p-25, 0x1p-14, 1, 1 + 0x1p-11, 1 + 0x3p-11, -3.14159}
	for range 200 {
		xs = append(xs, math.Float32frombits(r.Uint32()&^(0xff<<23)|(127-26+r.Uint32N(44))<<23))
	}
	for _, x := range xs {
		if got, want := uint16(NewHalf(x)), nearest(float64(x), f16.widen, 0x7c00); got != want {
			t.Errorf("%v rounds to half %#x, want %#x", x, got, want)
		}
		if got, want := uint16(NewBFloat(x)), nearest(float64(x), bf16.widen, 0x7f80); got != want {
			t.Errorf("%v rounds to bfloat %#x, want %#x", x, got, want)
		}
	}
	nan := float32(math.NaN())
	if x := NewHalf(nan).Float32(); x == x {
		t.Error("a NaN became a number as a half")
	}
	if x := NewBFloat(math.Float32frombits(0x7f800001)).Float32(); x == x {
		t.Error("a NaN became a number as a bfloat")
	}
}

// element reads element i as a big number; want writes one.
func element(t Type, b []byte, i int) *big.Float {
	x := new(big.Float).SetPrec(400)
	switch t {
	case F32:
		return x.SetFloat64(float64(view[float32](b)[i]))
	case F64:
		return x.SetFloat64(view[float64](b)[i])
	case F16:
		return x.SetFloat64(float64(Half(view[uint16](b)[i]).Float32()))
	case BF16:
		return x.SetFloat64(float64(BFloat(view[uint16](b)[i]).Float32()))
	case I32:
		return x.SetInt64(int64(view[int32](b)[i]))
	}
	return x.SetInt64(view[int64](b)[i])
}

// reference folds big numbers, rounded after each step as the type would.
func reference(o Fold, t Type, ins [][]byte, divisor, i int) *big.Float {
	round := func(x *big.Float) *big.Float {
		f, _ := x.Float64()
		switch t {
		case F32:
			f32, _ := x.Float32()
			f = float64(f32)
		case F16:
			f = float64(f16.widen(nearest(f, f16.widen, 0x7c00)))
		case BF16:
			f = float64(bf16.widen(nearest(f, bf16.widen, 0x7f80)))
		case I32, I64:
			n, _ := x.Int(nil)
			return new(big.Float).SetPrec(400).SetInt(n)
		}
		return new(big.Float).SetPrec(400).SetFloat64(f)
	}
	acc := element(t, ins[0], i)
	for _, in := range ins[1:] {
		x := element(t, in, i)
		switch o {
		case Sum, Average:
			acc = round(acc.Add(acc, x))
		case Product:
			acc = round(acc.Mul(acc, x))
		case Max:
			if x.Cmp(acc) > 0 {
				acc = x
			}
		case Min:
			if x.Cmp(acc) < 0 {
				acc = x
			}
		}
	}
	if divisor > 1 {
		acc = round(acc.Quo(acc, new(big.Float).SetInt64(int64(divisor))))
	}
	return acc
}

// fill makes small numbers of either sign.
func fill(t Type, n int, r *rand.Rand) []byte {
	switch t {
	case F32:
		return bytesOf(drawn(n, func() float32 { return float32(r.NormFloat64()) }))
	case F64:
		return bytesOf(drawn(n, r.NormFloat64))
	case F16:
		return bytesOf(drawn(n, func() Half { return NewHalf(float32(r.NormFloat64())) }))
	case BF16:
		return bytesOf(drawn(n, func() BFloat { return NewBFloat(float32(r.NormFloat64())) }))
	case I32:
		return bytesOf(drawn(n, func() int32 { return r.Int32N(41) - 20 }))
	}
	return bytesOf(drawn(n, func() int64 { return r.Int64N(2001) - 1000 }))
}

func drawn[T any](n int, draw func() T) []T {
	xs := make([]T, n)
	for i := range xs {
		xs[i] = draw()
	}
	return xs
}

func TestInto(t *testing.T) {
	defer func(w bool) { wide = w }(wide)
	r := rand.New(rand.NewPCG(3, 4))
	const n = 5003 // some blocks of the widest type and a rest
	for o := range Fold(numFolds) {
		for typ := range Type(numTypes) {
			for _, k := range []int{1, 2, 5} {
				var ins, outs [][]byte
				for range k {
					ins = append(ins, fill(typ, n, r))
				}
				for range 2 {
					outs = append(outs, make([]byte, len(ins[0])))
				}
				divisor := 1
				if o == Average {
					divisor = k
				}
				for _, way := range []struct{ wide, stream bool }{{wide, false}, {wide, true}, {false, false}} {
					name := fmt.Sprint(o, " ", typ, " of ", k, way)
					wide = way.wide
					foldInto(o, typ, outs, ins, divisor, way.stream)
					for i := 0; i < n; i += 97 {
						if got, want := element(typ, outs[0], i), reference(o, typ, ins, divisor, i); got.Cmp(want) != 0 {
							t.Fatalf("%s: element %d is %v, want %v", name, i, got, want)
						}
					}
					if !bytes.Equal(outs[0], outs[1]) {
						t.Fatalf("%s: the results differ", name)
					}
					clear(outs[0])
					clear(outs[1])
				}
			}
		}
	}
}

// All at once, two at a time and in place give the same bits.
func TestOrderIsLeftToRight(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 3001
	for typ := range Type(numTypes) {
		ins := [][]byte{fill(typ, n, r), fill(typ, n, r), fill(typ, n, r), fill(typ, n, r)}
		once := make([]byte, len(ins[0]))
		foldInto(Average, typ, [][]byte{once}, ins, 4, true)
		acc := bytes.Clone(ins[0])
		for k := 1; k < 4; k++ {
			divisor := 1
			if k == 3 {
				divisor = 4
			}
			foldInto(Average, typ, [][]byte{acc}, [][]byte{acc, ins[k]}, divisor, false)
		}
		if !bytes.Equal(once, acc) {
			t.Errorf("%v: folding two at a time differs", typ)
		}
	}
}

func TestCopyAtAnyPlace(t *testing.T) {
	src := make([]byte, 700)
	for i := range src {
		src[i] = byte(i*7 + 1)
	}
	for at := range 40 {
		for _, n := range []int{0, 1, 127, 255, 256, 300, 600} {
			dst := make([]byte, 700)
			copyBytes(dst[at:at+n], src[at/2:at/2+n], true)
			if !bytes.Equal(dst[at:at+n], src[at/2:at/2+n]) || bytes.ContainsFunc(dst[:at], nonzero) || bytes.ContainsFunc(dst[at+n:], nonzero) {
				t.Fatalf("copying %d bytes to %d went wrong", n, at)
			}
		}
	}
}

func nonzero(r rune) bool { return r != 0 }

func TestAverageOfIntegersTruncates(t *testing.T) {
	out := make([]int32, 3)
	foldInto(Average, I32, [][]byte{bytesOf(out)}, [][]byte{bytesOf([]int32{-3, 3, math.MaxInt32}), bytesOf([]int32{-4, 4, 1})}, 2, false)
	if out[0] != -3 || out[1] != 3 || out[2] != math.MinInt32/2 {
		t.Errorf("averages are %v, want -3 3 and what wraps around", out)
	}
}
