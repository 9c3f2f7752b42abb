package enumerative

import (
	"math/big"
	"sync"
)

// field is the integers modulo a prime below 2³¹, in Montgomery form: a is kept as a·2³² mod p.
type field struct {
	p, neg uint32 // the prime, and −1/p mod 2³²
	one    uint32 // 1 in Montgomery form
	square uint32 // 2⁶⁴ mod p, which brings numbers into that form
}

func newField(p uint32) field {
	inverse := p // of p mod 8
	for range 4 {
		inverse *= 2 - p*inverse
	}
	r := (uint64(1) << 32) % uint64(p)
	return field{p: p, neg: -inverse, one: uint32(r), square: uint32(r * r % uint64(p))}
}

func (f *field) mul(a, b uint32) uint32 {
	t := uint64(a) * uint64(b)
	u := uint32((t + uint64(uint32(t)*f.neg)*uint64(f.p)) >> 32)
	if u >= f.p {
		u -= f.p
	}
	return u
}

func (f *field) add(a, b uint32) uint32 {
	s := a + b // below 2³²
	if s >= f.p {
		s -= f.p
	}
	return s
}

func (f *field) sub(a, b uint32) uint32 {
	if a < b {
		a += f.p
	}
	return a - b
}

func (f *field) pow(a, e uint32) uint32 {
	out := f.one
	for ; e > 0; e >>= 1 {
		if e&1 != 0 {
			out = f.mul(out, a)
		}
		a = f.mul(a, a)
	}
	return out
}

func (f *field) inverse(a uint32) uint32 { return f.pow(a, f.p-2) }

// in and out bring a number into Montgomery form and back.
func (f *field) in(a int64) uint32 {
	a %= int64(f.p)
	if a < 0 {
		a += int64(f.p)
	}
	return f.mul(uint32(a), f.square)
}
func (f *field) out(a uint32) uint32 { return f.mul(a, 1) }

// known are the largest primes below 2³¹, in descending order, as many as were asked for.
var known struct {
	sync.Mutex
	primes []uint32
}

// primesFor returns the largest primes below 2³¹, as many as have a product above a bound.
func primesFor(bound *big.Int) []uint32 {
	known.Lock()
	defer known.Unlock()
	product := big.NewInt(1)
	for n := 0; ; n++ {
		if product.Cmp(bound) > 0 {
			return known.primes[:n:n]
		}
		if n == len(known.primes) {
			p := uint32(1<<31 - 1)
			if n > 0 {
				p = before(known.primes[n-1])
			}
			known.primes = append(known.primes, p)
		}
		product.Mul(product, big.NewInt(int64(known.primes[n])))
	}
}

// before is the largest prime below an odd number.
func before(p uint32) uint32 {
	for p -= 2; !big.NewInt(int64(p)).ProbablyPrime(0); p -= 2 { // which is certain below 2⁶⁴
	}
	return p
}

// join returns the number below the product of the primes that has these remainders, by
// Garner's algorithm.
func join(remainders, primes []uint32) *big.Int {
	sum, product := new(big.Int), big.NewInt(1)
	for i, p := range primes {
		prime := big.NewInt(int64(p))
		more := new(big.Int).Sub(big.NewInt(int64(remainders[i])), sum)
		more.Mul(more, new(big.Int).ModInverse(product, prime)).Mod(more, prime)
		sum.Add(sum, more.Mul(more, product))
		product.Mul(product, prime)
	}
	return sum
}
