package ntt

import (
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"
)

const (
	// logLocal is the log of the longest transform of a pass: 2⁹ elements of 32 bytes are the
	// shared memory that every Vulkan device has.
	logLocal = 9
	locals   = 1 << (logLocal - 1) // roots of such a transform
)

// tables returns the powers that kernels need for a transform of 2^log elements: the roots of a
// transform of 2⁹; the powers of the root w from 0 on and those of w^(2^low), with which any
// power of w is a product of two; and likewise the powers of the factor by which elements are
// scaled. For an inverse, w is inverted, and the second powers of the factor are divided by the
// number of elements.
func tables(log int, t Transform) []fr.Element {
	low := lowBits(log)
	out := make([]fr.Element, tableLen(log))
	powers(out[:locals], root(logLocal), fr.One())
	at := out[locals:]
	w, factor, first := root(log), fft.GeneratorFullMultiplicativeGroup(), fr.One()
	if !t.Coset {
		factor.SetOne()
	}
	if t.Inverse {
		w.Inverse(&w)
		factor.Inverse(&factor)
		first.SetUint64(1 << log).Inverse(&first)
	}
	one := fr.One()
	powers(at[:1<<low], w, one)
	powers(at[1<<low:][:1<<(log-low)], squares(w, low), one)
	at = at[1<<low+1<<(log-low):]
	powers(at[:1<<low], factor, one)
	powers(at[1<<low:], squares(factor, low), first)
	return out
}

// lowBits returns the number of low bits of an exponent, which index the first table of a pair.
func lowBits(log int) int { return (log + 1) / 2 }

// tableLen is the number of elements of tables.
func tableLen(log int) int { return locals + 2*(1<<lowBits(log)+1<<(log-lowBits(log))) }

// root is the root of unity of gnark-crypto for 2^log elements.
func root(log int) fr.Element {
	w, err := fr.Generator(1 << log)
	if err != nil {
		panic(err) // there is one for each log up to 28
	}
	return w
}

// squares is x squared n times.
func squares(x fr.Element, n int) fr.Element {
	for range n {
		x.Square(&x)
	}
	return x
}

// powers are first times the powers of x.
func powers(out []fr.Element, x, first fr.Element) {
	for i := range out {
		out[i] = first
		first.Mul(&first, &x)
	}
}

// exponents looks powers up in one of the pairs of tables.
type exponents struct {
	low, high []fr.Element
	bits      int
}

// pair returns the powers of the root, or of the factor, from tables.
func pair(all []fr.Element, log int, factor bool) exponents {
	low := lowBits(log)
	n := 1<<low + 1<<(log-low)
	at := all[locals:]
	if factor {
		at = at[n:]
	}
	return exponents{at[:1<<low], at[1<<low : n], low}
}

// at is the power with an exponent below 2^log.
func (e *exponents) at(exponent int) (out fr.Element) {
	out.Mul(&e.low[exponent&(1<<e.bits-1)], &e.high[exponent>>e.bits])
	return out
}

// domains are gnark-crypto's for short transforms, by the logarithm of the size; each is made when it is
// used for the first time.
var domains [logLocal + 1]struct {
	once sync.Once
	made *fft.Domain
}

// domainOf returns the domain of a size.
func domainOf(log int) *fft.Domain {
	d := &domains[log]
	d.once.Do(func() { d.made = fft.NewDomain(1 << log) })
	return d.made
}
