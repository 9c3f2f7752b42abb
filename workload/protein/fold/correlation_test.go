package fold

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/protein"
)

// The statistical inefficiency of an autoregressive process of correlation a is
// (1+a)/(1-a).
func TestCorrelation(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, a := range []float64{0, 0.5, 0.9, 0.97} {
		series := make([][]float64, 16)
		for k := range series {
			v := r.NormFloat64()
			for range 1000 {
				series[k] = append(series[k], v)
				v = a*v + math.Sqrt(1-a*a)*r.NormFloat64()
			}
		}
		if got, want := correlation(series), (1+a)/(1-a); math.Abs(got-want) > 0.2*want {
			t.Errorf("a = %v: %v, want %v", a, got, want)
		}
	}
	if got := correlation([][]float64{{2, 2, 2}}); got != 1 {
		t.Errorf("a constant: %v", got)
	}
	// What never comes back is correlated over its length.
	if got := correlation([][]float64{make([]float64, 100), ones(100)}); got < 100 {
		t.Errorf("two values that stay: %v", got)
	}
}

func ones(n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = 1
	}
	return s
}

// A start that is unlike the rest is left out, and not much more.
func TestSettle(t *testing.T) {
	const rounds, replicas = 2000, 8
	r := rand.New(rand.NewPCG(5, 1))
	for _, begin := range []int{0, 300, 900, 1480} {
		values := make([]float64, rounds*replicas)
		for i := range rounds {
			for k := range replicas {
				values[i*replicas+k] = 0.8 + 0.05*r.NormFloat64()
				if i < begin {
					values[i*replicas+k] -= 0.6
				}
			}
		}
		k := settle(func(i, k int) (float64, int) { return values[i*replicas+k], (k + i) % replicas }, rounds, replicas)
		if k.from < begin || k.from > begin+rounds/discardParts || k.over > 4 {
			t.Errorf("%d rounds to leave out: %d are, correlated over %v", begin, k.from, k.over)
		}
		if k.short(rounds) != (begin > 1400) { // there may be more to leave out
			t.Errorf("%d of %d rounds to leave out: too short: %v", begin, rounds, k.short(rounds))
		}
	}
	if k := settle(func(int, int) (float64, int) { return 0, 0 }, 3, 1); k.from != 0 || !k.short(3) {
		t.Errorf("three rounds: %+v", k)
	}
}

// twoStates fills a run with samples of a chain that folds and unfolds with the given
// correlation in rounds, at the melting temperature given. It begins unfolded. Replicas exchange
// temperatures as a run's do, or are dealt out to them anew in each round.
func twoStates(r *Run, correlated, gap, melting float64, exchanging bool, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 4))
	n := r.c.Replicas
	folded, energy, rung := make([]bool, n), make([]float64, n), make([]int32, n) // by replica, or by rung
	for k := range rung {
		rung[k] = int32(k)
	}
	stay := 1 - 2/(correlated+1) // (1+a)/(1-a) is the inefficiency
	for i := range r.Rounds() {
		deal := random.Perm(n)
		for k := range n {
			t, replica := r.temperatures[rung[k]], k
			if !exchanging {
				replica = deal[k]
			}
			if random.Float64() > stay {
				folded[k] = random.Float64() < 1/(1+math.Exp(gap/melting-gap/t))
			}
			e, q := 0.0, 0.3
			for range 10 { // a well of twenty degrees of freedom
				e -= t * math.Log(1-random.Float64())
			}
			if folded[k] {
				e, q = e-gap, 0.9
			}
			at := i*n + replica
			energy[k], r.rungs[at] = e, rung[k]
			r.seen[at*seenCount+seenEnergy], r.seen[at*seenCount+seenQ] = e, q+0.02*random.NormFloat64()
		}
		if exchanging {
			exchange(rung, make([]float64, n), energy, r.temperatures, uint32(seed), i)
		}
	}
}

// The error of the melting temperature is what it varies by from one set of samples to the
// next, however long they are correlated, and a run that is too short for that says so.
func TestHeatError(t *testing.T) {
	const gap, melting = 30.0, 0.9
	sets, lengths := 24, []float64{1, 10, 30}
	if testing.Short() { // it computes on one core
		sets, lengths = 8, lengths[1:2]
	}
	peak, most := 0.0, 0.0 // of the heat capacity, a little below
	for at := 0.8; at < 1; at += 1e-5 {
		p := 1 / (1 + math.Exp(gap/melting-gap/at))
		if c := gap * gap * p * (1 - p) / (at * at); c > most {
			peak, most = at, c
		}
	}
	for _, correlated := range lengths {
		spread, errors, over := 0.0, 0.0, 0.0
		for seed := range uint64(sets) {
			r := newSmall(t, Config{Steps: 1500 * 10, Every: 10, Replicas: 6, Low: 0.8, High: 1})
			twoStates(r, correlated, gap, melting, false, seed)
			h, err := r.Heat()
			if err != nil || h.Short || h.Edge {
				t.Fatalf("short %v, edge %v, %v", h.Short, h.Edge, err)
			}
			spread += (h.Melting - peak) * (h.Melting - peak) / float64(sets)
			errors += h.Error * h.Error / float64(sets)
			over += float64(h.Correlated) / 10 / float64(sets)
		}
		if ratio := math.Sqrt(errors / spread); ratio < 0.7 || ratio > 1.5 {
			t.Errorf("correlated over %v rounds: it is off by %v, the error is %v", correlated, math.Sqrt(spread), math.Sqrt(errors))
		}
		if over < 0.8*correlated || over > 1.6*correlated+1 {
			t.Errorf("correlated over %v rounds, found %v", correlated, over)
		}
	}
	// Replicas that fold and unfold a few times in all, and walk through temperatures meanwhile.
	spread, errors, short := 0.0, 0.0, 0
	for seed := range uint64(sets) {
		r := newSmall(t, Config{Steps: 1000 * 10, Every: 10, Replicas: 8, Low: 0.8, High: 1})
		twoStates(r, 500, gap, melting, true, seed)
		h, err := r.Heat()
		if err != nil {
			t.Fatal(err)
		}
		if h.Short {
			short++
		}
		spread += (h.Melting - peak) * (h.Melting - peak) / float64(sets)
		errors += h.Error * h.Error / float64(sets)
	}
	if ratio := math.Sqrt(errors / spread); ratio < 0.5 || ratio > 2 || short < sets*9/10 {
		t.Errorf("slow replicas: it is off by %v, the error is %v, and %d of %d are too short", math.Sqrt(spread), math.Sqrt(errors), short, sets)
	}
	r := newSmall(t, Config{Steps: 400 * 10, Every: 10, Replicas: 6, Low: 0.8, High: 1})
	twoStates(r, 100, gap, melting, false, 1)
	if h, err := r.Heat(); err != nil || !h.Short {
		t.Errorf("%v: correlated over %d steps, too short, and it does not say so", err, h.Correlated)
	}
}

// The free energy of two states differs by the gap and their entropy, at any temperature of the
// ladder, and by nothing where they melt.
func TestProfile(t *testing.T) {
	const gap, melting = 12.0, 0.9
	r := newSmall(t, Config{Steps: 4000 * 10, Every: 10, Replicas: 8, Low: 0.7, High: 1.1})
	twoStates(r, 1, gap, melting, true, 3)
	for _, at := range []float64{0.75, 0.9, 1.05} {
		p, err := r.Profile(at)
		if err != nil {
			t.Fatal(err)
		}
		weight := map[bool]float64{} // of the folded and the unfolded side
		lowest := math.Inf(1)
		for i, q := range p.Q {
			weight[q > 0.6] += math.Exp(-p.Free[i] / at)
			lowest = min(lowest, p.Free[i])
		}
		if got, want := math.Log(weight[true]/weight[false]), gap/at-gap/melting; lowest != 0 || math.Abs(got-want) > 0.1 {
			t.Errorf("temperature %v: logarithm of folded over unfolded %v, want %v; the lowest is %v", at, got, want, lowest)
		}
	}
	for _, at := range []float64{0.6, 1.2, math.NaN()} {
		if _, err := r.Profile(at); err == nil {
			t.Errorf("temperature %v: no error", at)
		}
	}
}

// The best frame that is kept is the one with the lowest RMSD, and the contacts are those of
// the frames at the lowest temperature.
func TestReached(t *testing.T) {
	r := newSmall(t, small)
	if r.BestPositions() != nil {
		t.Error("a best frame before the first round")
	}
	do(t, workloadtest.Open(t, 1, Funcs()), r)
	if got, want := protein.RMSD(r.BestPositions(), r.model.Native), r.Best(r.Rounds()).RMSD; math.Abs(got-want) > 1e-9 {
		t.Errorf("RMSD %v of the best frame, want %v", got, want)
	}
	n := 3 * r.model.Beads()
	for i := range r.Rounds() { // native, but for two beads in half of the frames
		for k, v := range r.model.Native {
			r.trace[i*n+k] = float32(v)
		}
		if i%2 == 1 {
			r.trace[i*n] += 100
		}
	}
	from := r.equilibrium().from
	away := 0
	for i := from; i < r.Rounds(); i++ {
		away += i % 2
	}
	here := 1 - float64(away)/float64(r.Rounds()-from)
	contacts := r.Contacts()
	if len(contacts) != len(r.model.Contacts) {
		t.Fatalf("%d contacts, want %d", len(contacts), len(r.model.Contacts))
	}
	for i, c := range contacts {
		want := 1.0
		if c.I == 0 {
			want = here
		}
		if c.I != r.model.Contacts[i].I || c.J != r.model.Contacts[i].J || !c.Native || math.Abs(c.Share-want) > 1e-12 {
			t.Errorf("%+v, want a share of %v", c, want)
		}
	}
	for i := range r.Rounds() { // the first bead beside the last, which it does not touch natively
		copy(r.trace[i*n:], r.trace[(i+1)*n-3:(i+1)*n])
		r.trace[i*n] += 2
	}
	found := false
	for _, c := range r.Contacts() {
		found = found || c.I == 0 && c.J == r.model.Beads()-1 && !c.Native && c.Share == 1
	}
	if !found {
		t.Error("a contact that is not native is not listed")
	}
}
