package fusion

import (
	"context"
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Of takes a caller's records, [Floats] numbers each, through the stages with its own
// weights, on the devices of a runtime that was opened with [Funcs] among its kernels, and
// returns the records after them. What is not a number makes every number that depends on it
// none. The configuration says how; its Records and Seed are not looked at. Records that are
// not whole, or none, are an error that wraps [workload.ErrConfig].
func Of(ctx context.Context, rt *weft.Runtime, records []float32, w *Weights, c Config) ([]float32, error) {
	if w == nil {
		return nil, fmt.Errorf("fusion: no weights: %w: see NewWeights", workload.ErrConfig)
	}
	if len(records)%Floats != 0 {
		return nil, fmt.Errorf("fusion: %d numbers of records: %w: a record has %d", len(records), workload.ErrConfig, Floats)
	}
	c.Records = len(records) / Floats
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := &job{c: c.withDefaults(), w: w, weights: w.floats(), in: records, out: make([]float32, len(records))}
	if _, err := workload.Call(ctx, rt, j, "fusion"); err != nil {
		return nil, err
	}
	return j.out, nil
}
