package dashboard

// modelKey names a version of a model.
type modelKey struct{ name, version string }

// Model is a version of a model, with rates and latencies of the last seconds.
type Model struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Kind     string   `json:"kind"`
	State    string   `json:"state"`
	Reason   string   `json:"reason"`
	Devices  []string `json:"devices"`
	MaxBatch int      `json:"maxBatch"`
	Waiting  int      `json:"waiting"`
	Answered uint64   `json:"answered"`
	Failed   uint64   `json:"failed"`
	Refused  uint64   `json:"refused"`
	Expired  uint64   `json:"expired"`
	Rate     *float64 `json:"rate"`  // answers a second
	Batch    *float64 `json:"batch"` // mean
	P50      *float64 `json:"p50"`   // of the time from request to answer
	P95      *float64 `json:"p95"`
	P99      *float64 `json:"p99"`
}

// modelOf computes what is shown of a model from its counts now and those of a sample before,
// nil for none, that many seconds ago. Without requests in between there are no latencies.
func modelOf(m *ModelState, before *point, seconds float64) Model {
	out := Model{
		Name: m.Name, Version: m.Version, Kind: m.Kind, State: m.State, Reason: m.Reason, Devices: m.Devices, MaxBatch: m.MaxBatch,
		Waiting: m.Waiting, Answered: m.Succeeded, Failed: m.Failed, Refused: m.Refused, Expired: m.Expired,
	}
	if out.Devices == nil {
		out.Devices = []string{}
	}
	if before == nil {
		return out
	}
	then, ok := before.models[modelKey{m.Name, m.Version}]
	if !ok || then.Succeeded > m.Succeeded || then.Batches > m.Batches {
		return out // it was loaded, or loaded anew, since then
	}
	out.Rate = known(float64(m.Succeeded-then.Succeeded) / seconds)
	if n := m.Batches - then.Batches; n > 0 {
		out.Batch = known(float64(m.Items-then.Items) / float64(n))
	}
	counts := since(m.Total.Counts, then.Total.Counts)
	out.P50, out.P95, out.P99 = quantile(m.Total.Bounds, counts, 0.50), quantile(m.Total.Bounds, counts, 0.95), quantile(m.Total.Bounds, counts, 0.99)
	return out
}

// since returns what was counted between two times.
func since(now, then []uint64) []uint64 {
	out := make([]uint64, len(now))
	for i := range now {
		out[i] = now[i]
		if len(then) == len(now) && then[i] <= now[i] {
			out[i] -= then[i]
		}
	}
	return out
}

// quantile returns the value that a part p of what was counted does not exceed: between the
// bounds of its bucket, in proportion to the counts. Of what is above all bounds nothing is
// known but that, so it is the last bound. It is nil if nothing was counted.
func quantile(bounds []float64, counts []uint64, p float64) *float64 {
	total := uint64(0)
	for _, n := range counts {
		total += n
	}
	if total == 0 || len(counts) != len(bounds)+1 || len(bounds) == 0 {
		return nil
	}
	rank, below := p*float64(total), 0.0
	for i, n := range counts[:len(bounds)] {
		if n > 0 && below+float64(n) >= rank {
			low := 0.0
			if i > 0 {
				low = bounds[i-1]
			}
			return known(low + (bounds[i]-low)*(rank-below)/float64(n))
		}
		below += float64(n)
	}
	return known(bounds[len(bounds)-1])
}
