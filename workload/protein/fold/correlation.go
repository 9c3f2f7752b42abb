package fold

const (
	correlationPoints   = 1000 // of a series, at most: of longer ones every so many are taken
	correlationReplicas = 64   // at most
	discardParts        = 20   // the first kept round is a multiple of this part of all
	discardMost         = 15   // of these parts
)

// correlation is the statistical inefficiency of series that have the same mean: how many
// successive values tell as much as one that is independent, 1 + 2 times the sum of the
// autocorrelation. The sum ends where it has five times the correlation time behind it (Madras and
// Sokal, J. Stat. Phys. 50, 109, 1988).
func correlation(series [][]float64) float64 {
	mean, n := 0.0, 0
	for _, s := range series {
		for _, v := range s {
			mean += v
			n++
		}
	}
	if n == 0 {
		return 1
	}
	mean /= float64(n)
	at := func(lag int) float64 {
		sum, n := 0.0, 0
		for _, s := range series {
			for i := lag; i < len(s); i++ {
				sum += (s[i] - mean) * (s[i-lag] - mean)
				n++
			}
		}
		return sum / float64(n)
	}
	variance := at(0)
	if !(variance > 1e-300) {
		return 1
	}
	g := 1.0
	for lag := 1; lag < len(series[0]) && float64(lag) < 2.5*g; lag++ {
		g += 2 * at(lag) / variance
	}
	return max(g, 1)
}

// kept says which rounds are of equilibrium and over how many rounds they are correlated.
type kept struct {
	from   int     // the first
	over   float64 // the statistical inefficiency of all replicas together, in rounds
	walk   float64 // that of a replica by itself
	latest int     // the largest value of from that was tried
}

// settle finds the rounds to keep, given a value of each round and replica and its rung. It drops
// as many twentieths of the time from the beginning as leaves the most independent samples
// (Chodera, J. Chem. Theory Comput. 12, 1799, 2016). The correlation used for that is of the mean
// over replicas of the value less its mean on the rung: exchanges move values between replicas and
// keep their sum, whereas a single replica may take far longer to walk.
func settle(value func(round, replica int) (v float64, rung int), rounds, replicas int) kept {
	stride, step := (rounds+correlationPoints-1)/correlationPoints, (replicas+correlationReplicas-1)/correlationReplicas
	var most float64
	var out kept
	for part := range discardMost + 1 {
		from := rounds * part / discardParts
		n := (rounds - from) / stride
		if n < 4 {
			break
		}
		sums, counts := make([]float64, replicas), make([]float64, replicas) // by rung
		for i := range n {
			for k := range replicas {
				v, rung := value(from+i*stride, k)
				sums[rung] += v
				counts[rung]++
			}
		}
		together := make([]float64, n)
		var alone [][]float64
		for k := range replicas {
			s := make([]float64, n)
			for i := range s {
				v, rung := value(from+i*stride, k)
				together[i] += v - sums[rung]/counts[rung]
				s[i] = v
			}
			if k%step == 0 {
				alone = append(alone, s)
			}
		}
		over := float64(stride) * correlation([][]float64{together})
		if left := float64(rounds-from) / over; left > most {
			most, out = left, kept{from, over, float64(stride) * correlation(alone), rounds * discardMost / discardParts}
		}
	}
	if most == 0 {
		return kept{0, float64(rounds), float64(rounds), 0}
	}
	return out
}

// equilibrium are the rounds of the run that are kept, by its native contacts. Those in which a ladder
// was tuned are not.
func (r *Run) equilibrium() kept {
	first := r.Tuned()
	k := settle(func(i, k int) (float64, int) {
		at := (first+i)*r.c.Replicas + k
		return r.seen[at*seenCount+seenQ], int(r.rungs[at])
	}, r.Rounds()-first, r.c.Replicas)
	k.from, k.latest = k.from+first, k.latest+first
	return k
}

// Discarded is the number of steps at the beginning that [Run.Heat], [Run.Profile] and
// [Run.Contacts] leave out, as they are not of equilibrium.
func (r *Run) Discarded() int { return r.equilibrium().from * r.c.Every }
