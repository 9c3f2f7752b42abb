package enumerative

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync/atomic"

	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for a number that is not the integral.
var errWrong = errors.New("not the integral")

// Check compares the integral with a formula where there is one: Schubert's for degrees, and
// for lines the coefficient of a polynomial. Any other is compared modulo one more prime, with
// the sum over fixed points as it is written, with other weights, on which no integral depends.
func (j *job) Check() error {
	got := j.Result()
	j.misses = []workload.Miss{{What: "a wrong number", Chance: 0}}
	var want *big.Int
	switch {
	case j.c.Problem == Degree:
		want = DegreeOf(j.c.K, j.c.N)
	case j.c.Problem == Hypersurface && j.c.K == 2:
		want = lines(j.c.N, j.c.Degree)
	default:
		// A number that is wrong is right modulo one of bits/30 primes of 2³⁰ to 2³¹ at most, of
		// which there are 5·10⁷.
		j.misses[0].Chance = float64(j.c.bound().BitLen()) / 30 / 5e7
		f, sum := j.other()
		if mod := new(big.Int).Mod(got, big.NewInt(int64(f))); mod.Uint64() != sum {
			return fmt.Errorf("%s: %v, which is %v modulo %d, want %d: %w", j.Name(), got, mod, f, sum, errWrong)
		}
		return nil
	}
	if got.Cmp(want) != 0 {
		return fmt.Errorf("%s: %v, want %v: %w", j.Name(), got, want, errWrong)
	}
	return nil
}

// Misses says what the last Check may have missed.
func (j *job) Misses() []workload.Miss { return j.misses }

// DegreeOf is the degree of Gr(k,n) by Schubert's formula, (k(n−k))! Π_{i<k} i! ÷ (n−k+i)!.
func DegreeOf(k, n int) *big.Int {
	num, den := new(big.Int).MulRange(1, int64(k*(n-k))), big.NewInt(1)
	for i := range k {
		num.Mul(num, new(big.Int).MulRange(1, int64(i)))
		den.Mul(den, new(big.Int).MulRange(1, int64(n-k+i)))
	}
	return num.Div(num, den)
}

// lines is the number of lines on a hypersurface of degree d in a space of dimension n−1: the
// coefficient of x^(n−1) y^(n−2) in (x − y) Π_a (a x + (d−a) y).
func lines(n, d int) *big.Int {
	p := []*big.Int{big.NewInt(-1), big.NewInt(1)} // by the power of x
	for a := range d + 1 {
		next := make([]*big.Int, len(p)+1)
		for i := range next {
			next[i] = new(big.Int)
			if i > 0 {
				next[i].Add(next[i], new(big.Int).Mul(p[i-1], big.NewInt(int64(a))))
			}
			if i < len(p) {
				next[i].Add(next[i], new(big.Int).Mul(p[i], big.NewInt(int64(d-a))))
			}
		}
		p = next
	}
	return p[n-1]
}

// other is the integral modulo a prime that the job does not use, by the sum as it is
// written: with random weights, products over both kinds of coordinates, and Schur
// polynomials as ratios of alternants.
func (j *job) other() (prime, sum uint64) {
	random := rand.New(rand.NewPCG(uint64(j.p.count), uint64(j.c.Degree)))
	low := j.primes[len(j.primes)-1]
	prime = uint64(before(1<<30 | random.Uint32N(low-1<<30) | 1))
	r := reference{c: &j.c, p: prime, x: make([]uint64, j.c.N)}
	for i, at := range random.Perm(1 << 12)[:j.c.N] { // distinct
		r.x[i] = uint64(at+1) * (prime / (1 << 13))
	}
	var total atomic.Uint64
	table := binomials(j.c.N, j.c.K)
	_ = workload.Sweep(int(chunks(int64(j.p.count))), func(lo, hi int) error {
		sum, c := uint64(0), make([]uint32, j.c.K)
		for i := lo * chunk; i < min(hi*chunk, j.p.count); i++ {
			unrank(c, uint32(i), j.c.N, table)
			sum = (sum + r.term(c)) % prime
		}
		total.Add(sum) // of 64 numbers below 2³¹
		return nil
	})
	return prime, total.Load() % prime
}

// reference computes terms modulo a prime with a division for every step.
type reference struct {
	c *Config
	p uint64
	x []uint64 // roots of all coordinates
}

func (r *reference) sub(a, b uint64) uint64 { return (a + r.p - b) % r.p }

func (r *reference) pow(a, e uint64) uint64 {
	out := uint64(1)
	for ; e > 0; e >>= 1 {
		if e&1 != 0 {
			out = out * a % r.p
		}
		a = a * a % r.p
	}
	return out
}

// term is f ÷ Π (x_i − x_j) for i in the subset and j not.
func (r *reference) term(subset []uint32) uint64 {
	in := make([]bool, r.c.N)
	var x []uint64
	for _, i := range subset {
		in[i] = true
		x = append(x, r.x[i])
	}
	below := uint64(1)
	for _, xi := range x {
		for j, xj := range r.x {
			if !in[j] {
				below = below * r.sub(xi, xj) % r.p
			}
		}
	}
	f := uint64(1)
	switch r.c.Problem {
	case Hypersurface:
		r.monomials(x, r.c.Degree, 0, func(form uint64) { f = f * form % r.p })
	case Schubert:
		for _, parts := range r.c.Classes {
			exponents, staircase := make([]int, r.c.K), make([]int, r.c.K)
			for i := range exponents {
				staircase[i] = r.c.K - 1 - i
				exponents[i] = staircase[i]
				if i < len(parts) {
					exponents[i] += parts[i]
				}
			}
			f = f * r.alternant(x, exponents) % r.p
			below = below * r.alternant(x, staircase) % r.p
		}
	}
	return f * r.pow(below, r.p-2) % r.p
}

// monomials calls do with sum + Σ a_m x_m for all a that add up to d.
func (r *reference) monomials(x []uint64, d int, sum uint64, do func(uint64)) {
	if len(x) == 1 {
		do((sum + uint64(d)*x[0]) % r.p)
		return
	}
	for a := range d + 1 {
		r.monomials(x[1:], d-a, (sum+uint64(a)*x[0])%r.p, do)
	}
}

// alternant is the determinant of x_i to the power e_j.
func (r *reference) alternant(x []uint64, e []int) uint64 {
	m := make([][]uint64, len(x))
	for i := range m {
		for _, power := range e {
			m[i] = append(m[i], r.pow(x[i], uint64(power)))
		}
	}
	det := uint64(1)
	for c := range m {
		pivot := c
		for pivot < len(m) && m[pivot][c] == 0 {
			pivot++
		}
		if pivot == len(m) {
			return 0
		}
		if pivot != c {
			m[pivot], m[c] = m[c], m[pivot]
			det = r.sub(0, det)
		}
		det = det * m[c][c] % r.p
		inverse := r.pow(m[c][c], r.p-2)
		for _, row := range m[c+1:] {
			by := row[c] * inverse % r.p
			for k := c; k < len(row); k++ {
				row[k] = r.sub(row[k], by*m[c][k]%r.p)
			}
		}
	}
	return det
}
