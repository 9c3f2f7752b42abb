package machine

import (
	"cmp"
	"math"
	"slices"
)

// exactRing is the largest ring Ring tries all orders of: 8 devices have 5,040,
// a few tens of microseconds.
const exactRing = 8

// ringStarts is the number of greedy tours from which larger rings are sought.
const ringStarts = 16

// Ring orders devices so that the narrowest hop of the ring they form, closing
// hop included, is as wide as possible, and of such orders one with a low total
// latency. It is exact up to 8 devices; beyond, the order given and some greedy
// tours are improved by exchanging pairs of hops (2-opt), and the best is taken.
// The first device stays first.
func (m *Machine) Ring(devs []DeviceID) []DeviceID {
	n := len(devs)
	if n <= 3 { // all orders are the same ring
		return slices.Clone(devs)
	}
	r := newRoutes(m)
	t := tour{n: n, hops: make([]hop, n*n)}
	for i, a := range devs {
		for j, b := range devs {
			p := r.path(a, b)
			t.hops[i*n+j] = hop{bps: p.bps, latencyNS: p.latencyNS}
		}
	}
	var order []int
	if n <= exactRing {
		order = t.exact()
	} else {
		order = t.search()
	}
	out := make([]DeviceID, n)
	for i, k := range order {
		out[i] = devs[k]
	}
	return out
}

// tour looks for rings over n points with a hop between any two.
type tour struct {
	n    int
	hops []hop
}

func (t *tour) hop(i, j int) hop { return t.hops[i*t.n+j] }

// exact tries all orders that start at 0, leaving those whose narrowest hop is
// already narrower than the best ring's.
func (t *tour) exact() []int {
	order := make([]int, 1, t.n)
	used := make([]bool, t.n)
	var best []int
	var bestHop hop // narrowest width and total latency
	var extend func(last int, so hop)
	extend = func(last int, so hop) {
		step := func(to int) hop {
			h := t.hop(last, to)
			return hop{bps: math.Min(so.bps, h.bps), latencyNS: so.latencyNS + h.latencyNS}
		}
		if len(order) == t.n {
			if ring := step(0); best == nil || ring.wider(bestHop) {
				best, bestHop = slices.Clone(order), ring
			}
			return
		}
		for to := 1; to < t.n; to++ {
			next := step(to)
			if used[to] || (best != nil && !next.wider(bestHop)) {
				continue
			}
			used[to] = true
			order = append(order, to)
			extend(to, next)
			order = order[:len(order)-1]
			used[to] = false
		}
	}
	extend(0, hop{bps: math.Inf(1)})
	return best
}

// search improves several tours and returns the best, turned to begin with 0.
func (t *tour) search() []int {
	best := make([]int, t.n)
	for i := range best {
		best[i] = i
	}
	t.improve(best)
	bestHop := t.total(best)
	for start := range min(ringStarts, t.n) {
		order := t.greedy(start)
		t.improve(order)
		if h := t.total(order); h.wider(bestHop) {
			best, bestHop = order, h
		}
	}
	first := slices.Index(best, 0)
	return slices.Concat(best[first:], best[:first])
}

// total returns the narrowest width and the whole latency of a ring.
func (t *tour) total(order []int) hop {
	sum := hop{bps: math.Inf(1)}
	for i, from := range order {
		h := t.hop(from, order[(i+1)%t.n])
		sum = hop{bps: math.Min(sum.bps, h.bps), latencyNS: sum.latencyNS + h.latencyNS}
	}
	return sum
}

// greedy goes from start to the nearest point not visited yet, over and over.
func (t *tour) greedy(start int) []int {
	order := make([]int, 0, t.n)
	order = append(order, start)
	used := make([]bool, t.n)
	used[start] = true
	for len(order) < t.n {
		last, next := order[len(order)-1], -1
		for to := range t.n {
			if !used[to] && (next < 0 || t.hop(last, to).wider(t.hop(last, next))) {
				next = to
			}
		}
		used[next] = true
		order = append(order, next)
	}
	return order
}

// improve replaces two hops of the ring by two better ones, turning round what
// lies between, and moves single points to better places, until neither helps.
// Every change raises the sorted list of widths or lowers the latency at equal
// widths, so it ends; the bound on passes is for latencies so uneven that sums
// round.
func (t *tour) improve(order []int) {
	n := t.n
	again := true
	for pass := 0; again && pass < n; pass++ {
		again = false
		for i := 0; i < n-2; i++ {
			for j := i + 2; j < n; j++ {
				a, b, c, d := order[i], order[i+1], order[j], order[(j+1)%n]
				if a != d && better([]hop{t.hop(a, c), t.hop(b, d)}, []hop{t.hop(a, b), t.hop(c, d)}) {
					slices.Reverse(order[i+1 : j+1])
					again = true
				}
			}
		}
		for i := range n {
			for j := range n {
				at := func(k int) int { return order[(k+n)%n] }
				a, b, c, d, e := at(i-1), at(i), at(i+1), at(j), at(j+1)
				if d == b || e == b {
					continue
				}
				if better([]hop{t.hop(a, c), t.hop(d, b), t.hop(b, e)}, []hop{t.hop(a, b), t.hop(b, c), t.hop(d, e)}) {
					move(order, i, slices.Index(order, d))
					again = true
				}
			}
		}
	}
}

// move takes the point at i out and puts it behind the one at j.
func move(order []int, i, j int) {
	b := order[i]
	if i < j {
		copy(order[i:], order[i+1:j+1])
		order[j] = b
		return
	}
	copy(order[j+2:], order[j+1:i])
	order[j+1] = b
}

// better compares as many hops with others, narrowest first, then by the
// latency of all. It sorts both.
func better(a, b []hop) bool {
	byWidth := func(x, y hop) int { return cmp.Compare(x.bps, y.bps) }
	slices.SortFunc(a, byWidth)
	slices.SortFunc(b, byWidth)
	var sumA, sumB float64
	for i := range a {
		if a[i].bps != b[i].bps {
			return a[i].bps > b[i].bps
		}
		sumA += a[i].latencyNS
		sumB += b[i].latencyNS
	}
	return sumA < sumB
}
