package trace

import "time"

// shortTask is the mean duration of tasks below which devices that are idle are taken to
// wait for the next task rather than for data: handing out one takes about 0.5 µs on the
// CPU and 10 µs on a GPU.
const shortTask = 10 * time.Microsecond

// Utilisation is the share of the run's time in which a device, by its ID, ran tasks of
// it, 0 to 1; on a device that runs several at a time it is the mean over its lanes.
func (r *Report) Utilisation(device int) float64 {
	lanes := 1
	if device < len(r.Lanes) {
		lanes = max(r.Lanes[device], 1)
	}
	if r.Elapsed() <= 0 {
		return 0
	}
	return min(float64(r.Devices[device].Busy)/float64(r.Elapsed())/float64(lanes), 1)
}

// Imbalance is the largest deviation of a device's utilisation from the mean over all
// devices, divided by the mean: 0 if all were as busy as one another.
func (r *Report) Imbalance() float64 {
	low, high, mean := r.spread()
	if mean == 0 {
		return 0
	}
	return max(high-mean, mean-low) / mean
}

// spread returns the lowest, highest and mean utilisation.
func (r *Report) spread() (low, high, mean float64) {
	for i := range r.Devices {
		u := r.Utilisation(i)
		if i == 0 {
			low, high = u, u
		}
		low, high, mean = min(low, u), max(high, u), mean+u/float64(len(r.Devices))
	}
	return low, high, mean
}

// Bottleneck names what kept the run from being faster, by the counts of the report. With a
// recorder, Analyze says it with more certainty, and what would help.
func (r *Report) Bottleneck() Verdict {
	_, high, mean := r.spread()
	var busy time.Duration
	for i := range r.Devices {
		busy += r.Devices[i].Busy
	}
	elapsed := float64(max(r.Elapsed(), 1))
	copying := float64(r.CopyTime) / elapsed / float64(max(len(r.Devices), 1))
	switch {
	case r.Executed == 0:
		return Underused
	case float64(r.Retries+r.Replays) >= worthwhile*float64(r.Executed):
		return Faults
	case 1-mean >= worthwhile && copying >= (1-mean)/2: // copies may explain most of the time that devices were idle
		return TransferBound
	case high-mean >= worthwhile:
		return Imbalance
	case mean >= 0.5:
		return ComputeBound
	case busy/time.Duration(r.Executed) < shortTask:
		return OverheadBound
	}
	return Underused
}
