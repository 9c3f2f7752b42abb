package enumerative

// width is the number of primes of lanes.
const width = 8

// leastLanes is the number of primes from which on lanes are faster than one prime after another.
const leastLanes = 2

// lanes is [summer] for degrees modulo eight primes at a time, which have the same subsets:
// wide_amd64.s knows where its fields are.
type lanes struct {
	p, neg, one, sum [width]uint32
	x                [maxK][width]uint32
	product, total   [maxK + 1][width]uint32
}

// laneTables are the roots and weights of some primes, of each all primes together. Where there
// are fewer primes the last stands for those that are missing.
type laneTables struct {
	primes         int // that there are
	p, neg, one    [width]uint32
	roots, weights [maxN][width]uint32
}

// newLaneTables takes up to eight of a caller's tables.
func newLaneTables(p *params, tables []uint32) *laneTables {
	t := &laneTables{primes: min(width, len(tables)/p.tableLen())}
	for i := range width {
		from := tables[min(i, t.primes-1)*p.tableLen():]
		t.p[i], t.neg[i], t.one[i] = from[0], from[1], from[2]
		for c := range p.n {
			t.roots[c][i], t.weights[c][i] = from[rootsAt+c], from[rootsAt+p.n+c]
		}
	}
	return t
}

// sums adds up terms of points from a subset on, modulo each prime.
func (t *laneTables) sums(out []uint32, p *params, c []uint32, points int) {
	l := lanes{p: t.p, neg: t.neg, one: t.one}
	l.product[p.k], l.total[p.k] = t.one, [width]uint32{}
	for changed := p.k - 1; ; changed = next(c) {
		for m := changed; m >= 0; m-- {
			l.x[m] = t.roots[c[m]]
			levelAVX2(&l, m, p.k, &t.weights[c[m]])
		}
		degreeAVX2(&l, p.exponent)
		if points--; points == 0 {
			copy(out, l.sum[:t.primes])
			return
		}
	}
}
