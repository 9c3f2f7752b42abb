package fold

import (
	"math"
	"slices"
)

// A tuned ladder is moved when an eighth, a quarter and half of all rounds have passed, by the later half
// of the rounds up to then: chains begin straight and find their native structure late, and what they are
// like before says little of what they are like after. From then on it stays, so that exchanges keep
// detailed balance.
const (
	tuneMoves = 3
	tuneLeast = 4 << (tuneMoves + 1) // rounds, so that the first move is by four
)

// moveAt is the number of rounds before a move of the ladder.
func (r *Run) moveAt(move int) int { return r.Rounds() >> (tuneMoves - move) }

// Tuned is the number of rounds at the beginning in which the ladder was moved. Rounds from there on
// have the temperatures that Temperatures returns.
func (r *Run) Tuned() int {
	if !r.c.Tuned {
		return 0
	}
	return r.moveAt(tuneMoves - 1)
}

// at is the ladder of a round, for which all rounds before it must be noted.
func (r *Run) at(round int) []float64 {
	now := r.temperatures
	for move := 0; r.c.Tuned && move < tuneMoves && r.moveAt(move) <= round; move++ {
		if len(r.moved) == move {
			to := r.moveAt(move)
			from := to / 2
			middle := (from + to) / 2
			r.moved = append(r.moved, equalised(now, r.chances(from, middle, now), r.chances(middle, to, now)))
		}
		now = r.moved[move]
	}
	return now
}

// chances are the mean probabilities with which neighbours on a ladder would exchange after the rounds
// of a range.
func (r *Run) chances(from, to int, ladder []float64) []float64 {
	n := r.c.Replicas
	out, energy := make([]float64, n-1), make([]float64, n)
	for i := from; i < to; i++ {
		for k := range n {
			energy[r.rungs[i*n+k]] = r.seen[(i*n+k)*seenCount+seenEnergy]
		}
		for t := range out {
			out[t] += min(1, math.Exp((1/ladder[t]-1/ladder[t+1])*(energy[t]-energy[t+1]))) / float64(to-from)
		}
	}
	return out
}

// equalised moves the rungs of a ladder between its ends so that neighbours exchange equally often, by
// the probabilities with which they did in two parts of the time.
func equalised(ladder, first, second []float64) []float64 {
	n := len(ladder)
	sums := make([]float64, n) // up to each rung
	for t, d := range distances(first, second) {
		sums[t+1] = sums[t] + d
	}
	out := slices.Clone(ladder)
	for t, at := 1, 0; t < n-1; t++ {
		want := sums[n-1] * float64(t) / float64(n-1)
		for sums[at+1] < want {
			at++
		}
		share := (want - sums[at]) / (sums[at+1] - sums[at])
		out[t] = ladder[at] * math.Pow(ladder[at+1]/ladder[at], share)
	}
	return out
}

// distances returns the distances of neighbours on a ladder: c·d, where the
// probability that rungs exchange that are d apart in the logarithm of temperature
// is about erfc(c·d), and c is assumed to be constant around a temperature.
// Deviations from the mean count only as far as two parts of the time agree on
// them; the rest is chance.
func distances(first, second []float64) []float64 {
	n := float64(len(first))
	parts, means := [2][]float64{}, [2]float64{}
	for k, chances := range [][]float64{first, second} {
		for _, p := range chances {
			d := math.Erfcinv(min(max(p, 0.005), 0.95))
			parts[k], means[k] = append(parts[k], d), means[k]+d/n
		}
	}
	both, all := 0.0, 0.0 // the covariance of the parts, and the variance of their mean
	for t := range first {
		a, b := parts[0][t]-means[0], parts[1][t]-means[1]
		both, all = both+a*b, all+(a+b)*(a+b)/4
	}
	share, mean := 0.0, (means[0]+means[1])/2
	if all > 0 {
		share = min(max(both/all, 0), 1)
	}
	out := make([]float64, len(first))
	for t := range out {
		out[t] = mean + share*((parts[0][t]+parts[1][t])/2-mean)
	}
	return out
}

// Acceptances are, for each rung but the last, the share of exchanges with the next that were made of
// those asked for, after the rounds in which the ladder was moved. It is NaN where none was asked for.
func (r *Run) Acceptances() []float64 {
	n := r.c.Replicas
	out := make([]float64, n-1)
	done, asked := make([]int, n), make([]int, n)
	for i := r.Tuned(); i+1 < r.Rounds() && r.c.exchanges(); i++ {
		for t := i % 2; t+1 < n; t += 2 {
			asked[t]++
		}
		for k := range n {
			if now := r.rungs[i*n+k]; r.rungs[(i+1)*n+k] == now+1 {
				done[now]++
			}
		}
	}
	for t := range out {
		out[t] = float64(done[t]) / float64(asked[t])
	}
	return out
}
