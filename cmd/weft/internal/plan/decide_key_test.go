package plan

import (
	"testing"
	"time"
)

// Whatever a decision depends on changes the key, and nothing else does.
func TestKey(t *testing.T) {
	key := func(change func(r *Request, c *Catalogue), knows ...any) string {
		t.Helper()
		r, c := job(), Shipped()
		if change != nil {
			change(&r, c)
		}
		k, err := r.Key(c, knows...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	same := key(nil)
	if key(nil) != same || key(func(r *Request, _ *Catalogue) { r.At = r.At.Add(5 * time.Hour) }) != same {
		t.Error("an equal request has another key")
	}
	for name, change := range map[string]func(r *Request, c *Catalogue){
		"need":       func(r *Request, _ *Catalogue) { r.Need.Flops *= 1.01 },
		"deadline":   func(r *Request, _ *Catalogue) { r.Deadline = time.Hour },
		"budget":     func(r *Request, _ *Catalogue) { r.Budget = 1 },
		"objective":  func(r *Request, _ *Catalogue) { r.Objective = Fastest },
		"here":       func(r *Request, _ *Catalogue) { r.Here[0].Watts++ },
		"estimate":   func(r *Request, _ *Catalogue) { r.Here[0].Estimate = &Estimate{Median: 1} },
		"assumption": func(r *Request, _ *Catalogue) { r.Assume.Spot = 1 },
		"day":        func(r *Request, _ *Catalogue) { r.At = r.At.AddDate(0, 0, 1) },
		"rent":       func(r *Request, _ *Catalogue) { r.Rent = false },
		"price":      func(_ *Request, c *Catalogue) { c.Instances[3].OnDemand *= 1.01 },
		"GPU":        func(_ *Request, c *Catalogue) { c.GPUs[3].FP32 *= 1.01 },
	} {
		if key(change) == same {
			t.Errorf("%s does not change the key", name)
		}
	}
	if key(nil, "a recording") == same {
		t.Error("what the predictor knows does not change the key")
	}
	records := []Record{{Decision: Decision{Key: "a"}}, {Decision: Decision{}}, {Decision: Decision{Key: "b"}, Took: 1}}
	if d := Decided(records, "a"); d == nil || !d.Again || records[0].Decision.Again {
		t.Errorf("%+v", d)
	}
	if Decided(records, "c") != nil || Decided(records, "") != nil || len(Outcomes(records)) != 1 {
		t.Error("found what is not there")
	}
}
