package fold

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

// Where the heat capacity has a peak, rungs of equal factors exchange least there. Moved rungs come to
// exchange equally often everywhere.
func TestEqualised(t *testing.T) {
	ladder := Config{Replicas: 12, Low: 0.6, High: 1.2}.temperatures()
	chances := func() []float64 {
		out := make([]float64, len(ladder)-1)
		for i := range out {
			at := (ladder[i] + ladder[i+1]) / 2
			c := 5 + 20*math.Exp(-math.Pow((at-0.95)/0.05, 2))
			out[i] = math.Erfc(c * math.Log(ladder[i+1]/ladder[i]))
		}
		return out
	}
	spread := func() float64 { p := chances(); return slices.Max(p) - slices.Min(p) }
	if spread() < 0.5 {
		t.Fatalf("spread %v at the beginning", spread())
	}
	for range 3 {
		ladder = equalised(ladder, chances(), chances())
	}
	if spread() > 0.02 || ladder[0] != 0.6 || ladder[11] != 1.2 || !slices.IsSorted(ladder) {
		t.Errorf("spread %v, ladder %v", spread(), ladder)
	}
	// Neighbours that never or always exchange do not end it.
	for _, p := range []float64{0, 1} {
		all := slices.Repeat([]float64{p}, 11)
		same := equalised(ladder, all, all)
		for i, v := range same {
			if !(v >= 0.6 && v <= 1.2) || i > 0 && v <= same[i-1] {
				t.Errorf("all with probability %v: %v", p, same)
			}
		}
	}
}

// A ladder is moved by what two parts of the time agree on: by nothing of what only one has, and by all of what both have.
func TestDistances(t *testing.T) {
	one, other := []float64{0.5, 0.3, 0.5, 0.3}, []float64{0.5, 0.5, 0.3, 0.3}
	if d := distances(one, other); slices.Max(d)-slices.Min(d) > 1e-12 {
		t.Errorf("parts that do not agree: %v", d)
	}
	if d := distances(one, slices.Clone(one)); math.Abs(d[0]-math.Erfcinv(0.5)) > 1e-12 || math.Abs(d[1]-math.Erfcinv(0.3)) > 1e-12 {
		t.Errorf("parts that agree: %v", d)
	}
	if d := distances([]float64{0.5, 0.3}, []float64{0.3, 0.5}); d[0] != d[1] {
		t.Errorf("parts of which one is the opposite of the other: %v", d)
	}
}

// kofke is the probability that harmonic oscillators at two temperatures, one ratio times the other, exchange:
// twice the incomplete beta function of a and a at 1/(1+ratio), where a is half their number of coordinates
// (Kofke 2002).
func kofke(a, ratio float64) float64 {
	const steps = 2000
	part := func(to float64) (sum float64) { // by Simpson's rule, of the function over its largest value
		for i := range steps + 1 {
			x := to * float64(i) / steps
			weight := float64(2 + 2*(i%2))
			if i == 0 || i == steps {
				weight = 1
			}
			sum += weight * math.Pow(4*x*(1-x), a-1) * to / steps / 3
		}
		return sum
	}
	return part(1/(1+ratio)) / part(0.5)
}

// Harmonic oscillators exchange by the ratio of temperatures alone, with a probability that is known. By their
// energies the ladder is moved to equal ratios, whatever it was.
func TestTunedHarmonic(t *testing.T) {
	const a, rounds = 60, 2000 // energies are those of 120 coordinates
	c := Config{Steps: rounds, Every: 1, Replicas: 8, Low: 0.6, High: 1.2}
	r := newSmall(t, c)
	source := rand.New(rand.NewPCG(1, 2))
	measured := func(ladder []float64) (first, second []float64) {
		for i := range rounds * c.Replicas {
			e := 0.0 // of the gamma distribution: a sum of a numbers of the exponential one
			for range a {
				e += source.ExpFloat64()
			}
			rung := (i + 3*(i/c.Replicas)) % c.Replicas // replicas do not stay on one
			r.rungs[i] = int32(rung)
			r.seen[i*seenCount+seenEnergy] = e * ladder[rung]
		}
		return r.chances(0, rounds/2, ladder), r.chances(rounds/2, rounds, ladder)
	}
	ladder := c.temperatures()
	for i := range ladder { // the last steps are the largest
		part := float64(i) / float64(len(ladder)-1)
		ladder[i] = c.Low * math.Pow(c.High/c.Low, part*(1+part)/2)
	}
	for move := range 4 {
		first, second := measured(ladder)
		chances := make([]float64, len(first))
		for i := range chances {
			p := (first[i] + second[i]) / 2
			chances[i] = p
			if want := kofke(a, ladder[i+1]/ladder[i]); math.Abs(p-want) > 0.03 { // the standard error is below 0.01
				t.Errorf("move %d: rungs %v and %v exchange with probability %v, want %v", move, ladder[i], ladder[i+1], p, want)
			}
		}
		if spread := slices.Max(chances) - slices.Min(chances); move == 0 && spread < 0.25 || move == 3 && spread > 0.06 {
			t.Errorf("move %d: they exchange with probabilities %v", move, chances)
		}
		ladder = equalised(ladder, first, second)
	}
	for i, want := range c.temperatures() {
		if math.Abs(ladder[i]/want-1) > 0.01 {
			t.Errorf("the ladder is %v, want %v", ladder, c.temperatures())
		}
	}
}

var tuned = Config{Steps: 128 * 30, Every: 30, Replicas: 9, Low: 0.5, High: 1.7, Tuned: true, Seed: 4}

// A tuned ladder is moved in the first half of the rounds and then stays. Replicas have its
// temperatures and velocities that go with them, and the same bytes on any number of devices.
func TestTuned(t *testing.T) {
	var want []byte
	most := 3
	if testing.Short() {
		most = 2
	}
	for parts := 1; parts <= most; parts++ {
		r := newSmall(t, tuned)
		do(t, workloadtest.Open(t, parts, Funcs()), r)
		if got := r.result(); want == nil {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Errorf("%d devices: other bytes than on one", parts)
		}
		if err := r.Check(); err != nil {
			t.Error(err)
		}
		if parts == 1 {
			testTuned(t, r)
		}
	}
}

func testTuned(t *testing.T, r *Run) {
	t.Helper()
	if r.Tuned() != 64 {
		t.Fatalf("tuned in %d rounds", r.Tuned())
	}
	last, first := r.Temperatures(), tuned.temperatures()
	if last[0] != tuned.Low || last[8] != tuned.High || slices.Equal(last, first) || !slices.IsSorted(last) {
		t.Errorf("the ladder is %v, at first %v", last, first)
	}
	for i := range r.Rounds() {
		var now []float64
		for k := range r.c.Replicas {
			now = append(now, r.Frame(i, k).Temperature)
		}
		slices.Sort(now)
		if i < 16 && !slices.Equal(now, first) || i >= 64 && !slices.Equal(now, last) {
			t.Errorf("round %d has temperatures %v", i, now)
		}
	}
	asked, done := r.Exchanges()
	if by := r.Acceptances(); asked != 63*4 || done < 1 || len(by) != 8 || slices.Max(by) > 1 || slices.Min(by) < 0 {
		t.Errorf("%d of %d exchanges, by neighbours %v", done, asked, by)
	}
	if k := r.equilibrium(); k.from < 64 {
		t.Errorf("rounds from %d on are kept", k.from)
	}
}

// A ladder goes on as it was when a run is resumed: within the rounds in which it is tuned, when it has
// just been moved, and after them.
func TestTunedResume(t *testing.T) {
	ends := []int{15, 20, 63}
	if testing.Short() {
		ends = ends[1:2]
	}
	for _, ends := range ends {
		testResume(t, tuned, ends)
	}
}

// When the ladder is moved, velocities are scaled to the temperatures that replicas then have, beside
// what exchanges do.
func TestTunedVelocities(t *testing.T) {
	r := newSmall(t, tuned)
	rt := workloadtest.Open(t, 1, Funcs())
	moves := 0
	if err := r.Do(t.Context(), rt, func(round int) {
		if round+1 == r.Rounds() {
			return
		}
		before, after := r.at(round), r.at(round+1)
		if &before[0] != &after[0] {
			moves++
		}
		for k := range r.c.Replicas {
			was, is := before[r.rungs[round*r.c.Replicas+k]], after[r.rung[k]]
			l := r.ladder[k/lanes]
			if l[rungTemperature][k%lanes] != is || math.Abs(l[rungScale][k%lanes]-math.Sqrt(is/was)) > 1e-12 {
				t.Errorf("after round %d replica %d goes from temperature %v to %v: it is given %v, and its velocities are scaled by %v", round, k, was, is, l[rungTemperature][k%lanes], l[rungScale][k%lanes])
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if moves != 3 {
		t.Errorf("the ladder was moved %d times", moves)
	}
}

// Each move of a ladder is by the energies of the later half of the rounds up to then, by all of them, and
// by those that made the ladder before it.
func TestTunedRounds(t *testing.T) {
	r := newSmall(t, tuned)
	source := rand.New(rand.NewPCG(5, 6))
	draw := func(round int) { // in the middle of the ladder, neighbours differ more
		level := 0.0
		for rung := range r.c.Replicas {
			k := round*r.c.Replicas + rung
			r.rungs[k] = int32(rung)
			r.seen[k*seenCount+seenEnergy] = level + source.Float64()
			level++
			if rung == 3 || rung == 4 {
				level += 4
			}
		}
	}
	for round := range r.Rounds() {
		draw(round)
	}
	ladders := func() [][]float64 {
		r.moved = nil
		r.at(r.Rounds() - 1)
		return r.moved
	}
	was := ladders()
	for round := range r.Rounds() {
		draw(round)
		is := ladders()
		for move, from := range []int{8, 16, 32} { // the last is of rounds 32 to 63
			if same := slices.Equal(is[move], was[move]); same != (round < 8 || round >= 2*from) {
				t.Errorf("other energies in round %d: move %d has the same ladder: %v", round, move, same)
			}
		}
		was = is
	}
}
