package sched

// Latency makes the predicted completion as early as possible, with latencies
// and the transfer of inputs and results counted. Use it when data must travel
// to the devices: a fast device behind a slow link gets less than its rate
// promises, and a device whose latency alone is too long gets nothing.
func Latency(p Items, shares []Share) (Partition, error) {
	if err := check(p, shares); err != nil {
		return Partition{}, err
	}
	ending := func(s *Share, lo, hi int64) float64 { return s.ends(p, lo, hi) }
	ranges, _ := fill(p, shares, ending, nil) // without limits it cannot fail
	return Measured(p, shares, ranges), nil
}
