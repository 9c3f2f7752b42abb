package fisher

import (
	"context"
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Of returns the Fisher information of a logistic regression at a caller's points, by row,
// computed on the devices of a runtime that was opened with [Funcs] among its kernels. The
// model has a number for each feature, and the points, one after another, as many each. A
// feature or a model that is not a number makes every entry that depends on it none. Sizes
// that do not fit, and more than 2²⁴ points or 4,096 features, are an error that wraps
// [workload.ErrConfig].
func Of(ctx context.Context, rt *weft.Runtime, points, model []float32) ([]float64, error) {
	d := len(model)
	if d == 0 || len(points) == 0 || len(points)%d != 0 {
		return nil, fmt.Errorf("fisher: %d numbers of points for %d of the model: %w: give each point a number per feature of the model", len(points), d, workload.ErrConfig)
	}
	c := Config{Points: len(points) / d, Features: d, Blocks: 1}
	c.Shards = min(defaultShards, c.Points)
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := &job{c: c, x: points, theta: model, f: make([]float64, d*d)}
	if _, err := workload.Call(ctx, rt, j, "fisher"); err != nil {
		return nil, err
	}
	return j.f, nil
}
