package sched

// Equal gives every share with a rate the same number of items, one more or
// less. Use it on equal devices when all items cost the same; it is also the
// baseline: on work whose cost varies along the extent it leaves devices idle.
func Equal(p Items, shares []Share) (Partition, error) {
	if err := check(p, shares); err != nil {
		return Partition{}, err
	}
	weights := make([]float64, len(shares))
	for k := range shares {
		if shares[k].Rate > 0 {
			weights[k] = 1
		}
	}
	return Measured(p, shares, laid(p, apportion(p.blocks(), weights))), nil
}
