package sched

// Dynamic shares work by what the devices have to spare right now: rate ×
// (1 − utilisation). Use it when other work runs on the same devices. When all
// are fully used it shares by rate.
func Dynamic(p Pieces, shares []Share) (Partition, error) {
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
	return byWeight(p, shares, weights)
}
