package fold

import (
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/internal/philox"
)

// checkExchanges decides every exchange again, from the energies, the temperatures and the random
// numbers, and compares the rungs of all rounds, the counts of exchanges, and with which temperature and
// factor for the velocities the last launch began. It shares nothing with exchange but the generator of
// random numbers, which has known answers.
func (r *Run) checkExchanges() error {
	n, rounds := r.c.Replicas, r.Rounds()
	if err := r.checkLadders(); err != nil {
		return err
	}
	rung := make([]int32, n)
	for k := range rung {
		rung[k] = int32(k)
	}
	asked, done := make([]int, n), make([]int, n)
	for i := range rounds {
		if !slices.Equal(rung, r.rungs[i*n:(i+1)*n]) {
			return fmt.Errorf("fold: replicas are on rungs %v in round %d, by the exchanges before it %v: %w", r.rungs[i*n:(i+1)*n], i, rung, errWrong)
		}
		if i+1 == rounds || !r.c.exchanges() {
			continue
		}
		pairs, made := r.decide(i, rung)
		for _, low := range pairs {
			if i < r.Tuned() {
				break
			}
			asked[low]++
			if slices.Contains(made, low) {
				done[low]++
			}
		}
	}
	if !slices.Equal(rung, r.rung) {
		return fmt.Errorf("fold: replicas are on rungs %v at the end, by the exchanges %v: %w", r.rung, rung, errWrong)
	}
	all, swaps := 0, 0
	by := r.Acceptances()
	for low := range n - 1 {
		all, swaps = all+asked[low], swaps+done[low]
		if share := float64(done[low]) / float64(asked[low]); by[low] != share && !(math.IsNaN(share) && math.IsNaN(by[low])) {
			return fmt.Errorf("fold: rungs %d and %d exchange at a share of %v, want %d of %d: %w", low, low+1, by[low], done[low], asked[low], errWrong)
		}
	}
	if a, d := r.Exchanges(); a != all || d != swaps {
		return fmt.Errorf("fold: %d exchanges of %d, want %d of %d: %w", d, a, swaps, all, errWrong)
	}
	return r.checkRungs()
}

// decide lets neighbours exchange rungs after a round, and returns the lower rungs of the pairs
// that were asked and of the pairs that exchanged. A pair exchanges if the logarithm of its
// random number is below the difference of inverse temperatures times the difference of energies.
// Where these two are equal up to rounding, either is right, and the pair does as the run did.
func (r *Run) decide(round int, rung []int32) (asked, made []int) {
	n, temperature := len(rung), r.at(round)
	on := make([]int, n)
	for k, t := range rung {
		on[t] = k
	}
	after := r.rungs[(round+1)*n : (round+2)*n]
	for low := round & 1; low < n-1; low += 2 {
		asked = append(asked, low)
		cold, warm := on[low], on[low+1]
		energy := func(k int) float64 { return r.Frame(round, k).Energy }
		word := philox.Block([4]uint32{uint32(round), 0, uint32(low), 0}, [2]uint32{r.c.Seed, 4})[0]
		chance := math.Log(math.Ldexp(float64(word)+0.5, -32))
		gain := (energy(cold) - energy(warm)) * (temperature[low+1] - temperature[low]) / (temperature[low] * temperature[low+1])
		size := (math.Abs(energy(cold)) + math.Abs(energy(warm))) / temperature[low]
		exchanges := !(chance >= gain) // also if energies are infinite, and gain is not a number
		if !math.IsInf(size, 0) && math.Abs(chance-gain) <= 1e-12*(1+size) {
			exchanges = after[cold] != int32(low)
		}
		if exchanges {
			made = append(made, low)
			rung[cold], rung[warm] = int32(low+1), int32(low)
		}
	}
	return asked, made
}

// checkLadders compares the first ladder with its definition: the logarithms of temperatures are equally
// far apart. A tuned ladder keeps its ends and its order.
func (r *Run) checkLadders() error {
	n := r.c.Replicas
	first := r.at(0)
	for k, t := range first {
		share := 0.0
		if n > 1 {
			share = float64(k) / float64(n-1)
		}
		if want := math.Exp((1-share)*math.Log(r.c.Low) + share*math.Log(r.c.High)); !(math.Abs(t-want) <= 1e-12*want) {
			return fmt.Errorf("fold: rung %d has temperature %v, want %v: %w", k, t, want, errWrong)
		}
	}
	for i := range r.Rounds() {
		ladder := r.at(i)
		if len(ladder) != n || ladder[0] != first[0] || ladder[n-1] != first[n-1] || !slices.IsSorted(ladder) {
			return fmt.Errorf("fold: the ladder of round %d is %v, of the first %v: %w", i, ladder, first, errWrong)
		}
	}
	return nil
}

// checkRungs compares what the last launch began with. Only the first launch of a round scales
// velocities, by the root of the ratio of the temperatures of its round and the one before.
func (r *Run) checkRungs() error {
	last, n := r.Rounds()-1, r.c.Replicas
	step := r.c.Steps - r.tail()
	for k := range n {
		now, scale := r.Frame(last, k).Temperature, 1.0
		if last > 0 && step == last*r.c.Every {
			scale = math.Sqrt(now / r.Frame(last-1, k).Temperature)
		}
		l := &r.ladder[k/lanes]
		t, s, at := l[rungTemperature][k%lanes], l[rungScale][k%lanes], l[rungStep][k%lanes]
		if t != now || !(math.Abs(s-scale) <= 1e-12*scale) || at != float64(step) {
			return fmt.Errorf("fold: replica %d has temperature %v, velocities times %v at step %v; want %v, %v and %d: %w", k, t, s, at, now, scale, step, errWrong)
		}
	}
	return nil
}
