package plan

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// searches is the number of searches, every second one with a price on time: some instances
	// are solved well with one, some without.
	searches = 4
	// roundsPerJob is the number of times that a search removes jobs and puts them back, per job.
	roundsPerJob = 500
	// mostRemoved is the number of jobs put back at once: more take longer by their square and
	// rarely find better places.
	mostRemoved = 12
	// Of the mean cost of a job, the excess cost that is accepted now and then at the
	// beginning of a search, and what is left of it at the end.
	firstHeat, lastHeat = 0.3, 0.003
)

// search returns the best packing that it finds.
func (s *sharing) search(rng *rand.Rand) *packing {
	empty := packing{units: make([][][]int, len(s.machines))}
	for k, n := range s.units {
		empty.units[k] = make([][]int, n)
	}
	for j := range s.order {
		empty.left = append(empty.left, j)
	}
	s.fill(&empty, s.seen(nil, false))
	best := empty.clone()
	for i := range searches {
		s.anneal(empty.clone(), &best, rng, i%2 == 1, -1, roundsPerJob)
	}
	// Machines of a kind that is started for many jobs stay, though another kind would be
	// cheaper: no few jobs gain by it alone. So each such kind is tried without.
	for k := range s.machines {
		if s.fixed[k] > 0 && slices.ContainsFunc(best.units[k], func(jobs []int) bool { return len(jobs) > 0 }) {
			without := best.clone()
			for u := range without.units[k] {
				for n := len(without.units[k][u]); n > 0; n-- {
					without.left = append(without.left, s.take(&without, k, u, n-1))
				}
			}
			v := s.seen(nil, false)
			v.barred = k
			s.fill(&without, v)
			s.anneal(without, &best, rng, true, k, roundsPerJob/2)
		}
	}
	return &best
}

// anneal changes a packing step by step and keeps the best one. No machine of the kind
// barred is started, unless a job has no other place; -1 bars none.
func (s *sharing) anneal(now packing, best *packing, rng *rand.Rand, priced bool, barred, perJob int) {
	rounds := perJob * len(s.order)
	for i := range rounds {
		next := now.clone()
		shut := s.ruin(&next, rng)
		v := s.seen(rng, priced)
		v.shut, v.barred = shut, barred
		s.fill(&next, v)
		heat := now.cost / float64(len(s.order)) * firstHeat * math.Pow(lastHeat/firstHeat, float64(i)/float64(rounds))
		worse := next.cost - now.cost
		if len(next.left) < len(now.left) || len(next.left) == len(now.left) && (worse <= 0 || rng.Float64() < math.Exp(-worse/max(heat, 1e-300))) {
			now = next
		}
		if now.better(best) {
			*best = now.clone()
		}
	}
}

// ruin takes some jobs from their machines: all of one machine, or a few of any. It
// returns the kind of a machine that is to stay empty if possible, or -1.
func (s *sharing) ruin(p *packing, rng *rand.Rand) (shut int) {
	type unit struct{ k, u int }
	var used []unit
	for k, units := range p.units {
		for u, jobs := range units {
			if len(jobs) > 0 {
				used = append(used, unit{k, u})
			}
		}
	}
	shut = -1
	if len(used) == 0 {
		return shut
	}
	most := 1 + rng.IntN(mostRemoved)
	if rng.IntN(3) == 0 {
		x := used[rng.IntN(len(used))]
		for n := len(p.units[x.k][x.u]); n > 0; n-- {
			p.left = append(p.left, s.take(p, x.k, x.u, n-1))
		}
		if rng.IntN(2) == 0 {
			shut = x.k
		}
	}
	for ; most > 0; most-- {
		x := used[rng.IntN(len(used))]
		if n := len(p.units[x.k][x.u]); n > 0 {
			p.left = append(p.left, s.take(p, x.k, x.u, rng.IntN(n)))
		}
	}
	return shut
}

// view is the distorted costs by which jobs are put back, so that the same jobs do not always
// come back to the same places.
type view struct {
	noise []float64 // factor of costs by kind
	price []float64 // of a second, beside its cost, by kind
	fixed []float64 // part of the fixed cost that is seen, by kind
	// shut and barred are kinds of which no other machine is started, or -1: shut for as long
	// as anything else can be found, barred as long as there is any other place.
	shut, barred int
	rng          *rand.Rand // nil for a view that is right
}

// seen draws a view. If it is priced, time on some kinds of machines gets a price, as it
// has where many jobs want the same cheap machine: those go there that save most by the
// second. That a machine must be started is overlooked now and then: it may be
// worth it for several jobs where it is not for the first.
func (s *sharing) seen(rng *rand.Rand, priced bool) view {
	v := view{noise: make([]float64, len(s.machines)), price: make([]float64, len(s.machines)), fixed: make([]float64, len(s.machines)), shut: -1, barred: -1, rng: rng}
	for k := range v.noise {
		v.noise[k], v.fixed[k] = 1, 1
		if rng != nil {
			v.noise[k] += 0.15 * (rng.Float64() - 0.5)
			if priced && rng.IntN(2) == 0 {
				v.price[k] = s.dearest / 3600 * rng.Float64() * rng.Float64()
			}
			v.fixed[k] = []float64{1, 1, 0.3, 0}[rng.IntN(4)]
		}
	}
	return v
}

// overlooks reports whether a place is not looked at this time, one of twelve.
func (v view) overlooks() bool { return v.rng != nil && v.rng.IntN(12) == 0 }

// fill puts jobs that are left on machines, the one first that would lose most if its
// best place were taken (regret).
func (s *sharing) fill(p *packing, v view) {
	var stuck []int
	for len(p.left) > 0 {
		pick, pickK, pickU, most := -1, 0, 0, math.Inf(-1)
		for i, j := range p.left {
			k, u, regret := s.place(p, j, v)
			if k >= 0 && regret > most {
				pick, pickK, pickU, most = i, k, u, regret
			}
		}
		if pick < 0 {
			if v.rng != nil { // perhaps it was overlooked
				v.rng, v.shut = nil, -1
				continue
			}
			if v.barred >= 0 {
				v.barred = -1
				continue
			}
			stuck = append(stuck, p.left...)
			break
		}
		s.put(p, pickK, pickU, p.left[pick])
		p.left = slices.Delete(p.left, pick, pick+1)
	}
	p.left = stuck
}

// place returns the cheapest machine for a job and how much dearer the second is; k is
// negative if no machine can take it.
func (s *sharing) place(p *packing, j int, v view) (k, u int, regret float64) {
	k = -1
	first, second := math.Inf(1), math.Inf(1)
	for kind, units := range p.units {
		if math.IsInf(s.cost[j][kind], 1) {
			continue
		}
		fresh := false // an empty machine of this kind was looked at; others are the same
		for unit, jobs := range units {
			c := s.cost[j][kind]*v.noise[kind] + v.price[kind]*s.seconds[j][kind]
			if len(jobs) == 0 {
				if fresh || kind == v.shut || kind == v.barred {
					continue
				}
				fresh = true
				c += s.fixed[kind] * v.fixed[kind]
			}
			if c >= second || v.overlooks() || !s.accepts(kind, jobs, j) {
				continue
			}
			if c < first {
				first, second, k, u = c, first, kind, unit
			} else {
				second = c
			}
		}
	}
	if math.IsInf(second, 1) {
		return k, u, math.MaxFloat64 // the last place there is
	}
	return k, u, second - first
}

// bound returns a cost that no assignment is below, by Lagrangian relaxation: time on the
// machines of a kind gets a price, every job goes to the kind that is cheapest for it alone, and
// subgradients move the prices, in Polyak's steps towards the cost of a known assignment. A
// started machine's fixed cost is spread over the longest time it can be used, which charges no
// assignment too much.
func (s *sharing) bound(known float64) float64 {
	kinds := len(s.machines)
	horizon, room := make([]float64, kinds), make([]float64, kinds) // longest use of one machine, and of all of a kind
	last := 0.0
	for _, d := range s.deadline {
		last = max(last, d)
	}
	for k, m := range s.machines {
		horizon[k] = max(last-m.Start, 0)
		room[k] = horizon[k] * float64(m.Count)
	}
	price := make([]float64, kinds)
	best, step, since := 0.0, 1.0, 0
	for range boundRounds {
		value, used := s.relaxed(price, horizon)
		norm := 0.0
		for k := range price {
			if math.IsInf(horizon[k], 1) {
				continue // there is room for everything, and time has no price
			}
			value -= price[k] * room[k]
			if over := used[k] - room[k]; over > 0 || price[k] > 0 {
				norm += over * over
			}
		}
		if since++; value > best {
			best, since = value, 0
		}
		if since == boundPatience {
			step, since = step/2, 0
		}
		if norm == 0 || known <= value {
			break // no prices are better
		}
		for k := range price {
			if !math.IsInf(horizon[k], 1) {
				price[k] = max(price[k]+step*(known-value)/norm*(used[k]-room[k]), 0)
			}
		}
	}
	return best
}

const (
	// boundRounds is the number of times that prices are moved. Ten times as many raised the mean
	// of the bounds of TestBoundBelow by less than a tenth of a percent.
	boundRounds = 400
	// boundPatience is the number of rounds without a better bound before the steps are halved.
	boundPatience = 10
)

// relaxed is the cost if every job takes the machine that is cheapest for it alone, with a
// price on time, and the time that is used of each kind.
func (s *sharing) relaxed(price, horizon []float64) (value float64, used []float64) {
	used = make([]float64, len(price))
	for j := range s.order {
		at, least := -1, math.Inf(1)
		for k, t := range s.seconds[j] {
			if math.IsInf(t, 1) {
				continue
			}
			c := s.cost[j][k] + price[k]*t
			if horizon[k] > 0 && !math.IsInf(horizon[k], 1) {
				c += s.fixed[k] * t / horizon[k]
			}
			if c < least {
				at, least = k, c
			}
		}
		value += least
		used[at] += s.seconds[j][at]
	}
	return value, used
}
