package fisher

import (
	"errors"
	"fmt"
	"math"

	"github.com/weft-run/weft/workload"
)

// ErrDivergence is returned by [divergenceJob.Check] for numbers that are not the divergences.
var ErrDivergence = errors.New("not the divergences")

// Check compares every divergence with the remainder of Taylor's formula of order one, which
// it is: (p − q)² ∫ (1 − u) φ″(q + u(p − q)) du over u from 0 to 1, by Gauss's rule, or where p
// and q are far apart with its definition. No term is below zero, so that a sum is off by as many
// roundings as it has terms, relative to itself.
func (j *divergenceJob) Check() error {
	within := 0x1p-53 * float64(j.c.Dim+64)
	return workload.Sweep(j.c.Pairs, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			want := 0.
			for k := i * j.c.Dim; k < (i+1)*j.c.Dim; k++ {
				want += remainder(j.c.Function, j.p[k], j.q[k])
			}
			got := j.out[i]
			same := got == want
			switch {
			case math.IsNaN(want):
				same = got != got
			case !math.IsInf(want, 1):
				same = math.Abs(got-want) <= within*want+float64(j.c.Dim)*0x1p-1021
			}
			if !same {
				return fmt.Errorf("%s: divergence %d is %v, want %v ± %.2g: %w", j.Name(), i, got, want, within*want, ErrDivergence)
			}
		}
		return nil
	})
}

// Misses is nothing: every number is compared.
func (j *divergenceJob) Misses() []workload.Miss {
	return []workload.Miss{{What: "one number off by more than its rounding", Chance: 0}}
}

// legendre are the points and weights of Gauss's rule from 0 to 1, which is exact to more than
// 16 digits where neither p nor q is more than four times the other.
var legendre = func() (rule [20]struct{ u, w float64 }) {
	n := len(rule)
	for i := range rule {
		x := math.Cos(math.Pi * (float64(i) + 0.75) / (float64(n) + 0.5))
		slope := 0.
		for range 8 { // of Newton's method for a root of the polynomial of degree n
			before, at := 1., x
			for k := 2; k <= n; k++ {
				before, at = at, (float64(2*k-1)*x*at-float64(k-1)*before)/float64(k)
			}
			slope = float64(n) * (x*at - before) / (x*x - 1)
			x -= at / slope
		}
		rule[i].u, rule[i].w = (1-x)/2, 1/((1-x*x)*slope*slope)
	}
	return rule
}()

// remainder is the contribution of two numbers to a divergence.
func remainder(function string, p, q float64) float64 {
	low := 0.
	if function == Squares {
		low = -largest
	}
	switch {
	case !(p >= low && q >= low && p <= largest && q <= largest):
		return math.NaN()
	case p == q:
		return 0
	case function != Squares && q == 0 || function == Burg && p == 0:
		return math.Inf(1)
	}
	if function != Squares && (p < q/4 || p > 4*q) {
		x, i := math.Frexp(p)
		y, k := math.Frexp(q)
		log := math.Log(x/y) + float64(i-k)*math.Ln2
		switch {
		case function == Burg:
			return (p-q)/q - log
		case p == 0:
			return q
		}
		return q + p*(log-1)
	}
	sum, d := 0., p-q
	for _, g := range legendre {
		second := 2. // of the function, at a point between
		switch x := q + g.u*d; function {
		case Entropy:
			second = q / x // times q, so that nothing is too large
		case Burg:
			second = q / x * (q / x) // times q²
		}
		sum += g.w * (1 - g.u) * second
	}
	switch function {
	case Entropy:
		return sum * d * (d / q)
	case Burg:
		return sum * (d / q) * (d / q)
	}
	return sum * d * d
}
