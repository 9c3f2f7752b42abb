package sched

// leastSpare is the part of its rate that a fully used device is assumed to have to
// spare: other programs share it with this work, and may end.
const leastSpare = 0.05

// Dynamic shares work by what the devices have to spare right now: rate ×
// (1 − utilisation), and for one that is fully used a twentieth of its rate. Use
// it when other work runs on the same devices. When all are fully used it shares
// by rate.
func Dynamic(p Items, shares []Share) (Partition, error) {
	weights := make([]float64, len(shares))
	spare := false
	for k := range shares {
		s := &shares[k]
		weights[k] = max(s.Rate, 0) * (1 - min(max(s.Util, 0), 1))
		spare = spare || weights[k] > 0
	}
	if !spare {
		return Proportional(p, shares)
	}
	for k := range shares {
		if weights[k] == 0 {
			weights[k] = max(shares[k].Rate, 0) * leastSpare
		}
	}
	return byWeight(p, shares, weights)
}
