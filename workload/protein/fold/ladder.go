package fold

import (
	"math"
	"slices"
)

// A tuned ladder is moved at the ends of the second to the last of four equal parts of the first
// quarter of all rounds, by the rounds of the part: the first one brings chains that begin straight to
// their temperatures. From then on it stays, so that exchanges keep detailed balance.
const (
	tuneShare = 4
	tuneParts = 4
	tuneLeast = 4 // rounds of a part
)

// tunePart is the number of rounds of such a part, zero for a ladder that is not tuned.
func (r *Run) tunePart() int {
	if !r.c.Tuned {
		return 0
	}
	return r.Rounds() / (tuneShare * tuneParts)
}

// Tuned is the number of rounds at the beginning in which the ladder was moved. Rounds from there on
// have the temperatures that Temperatures returns.
func (r *Run) Tuned() int { return tuneParts * r.tunePart() }

// at is the ladder of a round, for which all rounds before it must be noted.
func (r *Run) at(round int) []float64 {
	part := r.tunePart()
	if part == 0 {
		return r.temperatures
	}
	which := min(max(round/part-1, 0), tuneParts-1)
	for len(r.moved) < which {
		last := r.temperatures
		if n := len(r.moved); n > 0 {
			last = r.moved[n-1]
		}
		from := (len(r.moved) + 1) * part
		r.moved = append(r.moved, equalised(last, r.chances(from, from+part, last)))
	}
	if which == 0 {
		return r.temperatures
	}
	return r.moved[which-1]
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
// the probabilities with which they did. That of rungs d apart, in the logarithm of temperature, is
// about erfc(c·d), and c is taken to stay what it is at a temperature.
func equalised(ladder, chances []float64) []float64 {
	n := len(ladder)
	sums := make([]float64, n) // of c·d, up to each rung
	for t, p := range chances {
		sums[t+1] = sums[t] + math.Erfcinv(min(max(p, 0.005), 0.95))
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
