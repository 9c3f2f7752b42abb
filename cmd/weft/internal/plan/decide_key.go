package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Key returns a hash of all that a decision depends on: the request, the day by which prices
// are stale, the catalogue, and what the predictor knows. Equal keys mean equal decisions.
func (r *Request) Key(c *Catalogue, knows ...any) (string, error) {
	asked := *r
	asked.At = r.At.UTC().Truncate(24 * time.Hour)
	h := sha256.New()
	e := json.NewEncoder(h)
	for _, x := range append([]any{asked, c.GPUs, c.Instances}, knows...) {
		if err := e.Encode(x); err != nil {
			return "", fmt.Errorf("plan: hash of the request: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Decided returns the decision of a record with that key, marked as such; nil if there is none.
func Decided(records []Record, key string) *Decision {
	for i := len(records) - 1; i >= 0; i-- {
		if d := records[i].Decision; key != "" && d.Key == key {
			d.Again = true
			return &d
		}
	}
	return nil
}

// Outcomes returns the records of which it is known what happened: those that correct later
// predictions.
func Outcomes(records []Record) (out []Record) {
	for i := range records {
		if records[i].Took > 0 {
			out = append(out, records[i])
		}
	}
	return out
}
