package dashboard

// modelKey names a version of a model.
type modelKey struct{ name, version string }

// pageModel is a version of a model, with rates and latencies of the last seconds.
type pageModel struct {
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
func modelOf(m *ModelState, before *point, seconds float64) pageModel {
	out := pageModel{
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
	if m.Total == nil {
		return out
	}
	for q, to := range map[float64]**float64{0.50: &out.P50, 0.95: &out.P95, 0.99: &out.P99} {
		if x, ok := m.Total.Quantile(q, then.Total); ok {
			*to = known(x)
		}
	}
	return out
}
