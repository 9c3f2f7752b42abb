package workload_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/fisher"
	"github.com/weft-run/weft/workload/fusion"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/reduce"
)

// Data that makes no call is refused in one line, before anything runs, and a call ends with
// its context. Products, layers, boards and trees have tests of their own.
func TestCallsRefuse(t *testing.T) {
	rt := workloadtest.Open(t, 1, funcs())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	numbers := func(n int) []float32 { return make([]float32, n) }
	fish := func(ctx context.Context, points, model []float32) error {
		_, err := fisher.Of(ctx, rt, points, model)
		return err
	}
	fuse := func(ctx context.Context, records []float32, w *fusion.Weights, c fusion.Config) error {
		_, err := fusion.Of(ctx, rt, records, w, c)
		return err
	}
	fold := func(ctx context.Context, op string, xs []float32) error {
		_, err := reduce.Of(ctx, rt, op, xs)
		return err
	}
	turn := func(ctx context.Context, native []float64) error {
		_, err := landscape.Of(ctx, rt, native)
		return err
	}
	ctx, w := t.Context(), &fusion.Weights{}
	far, same := chain(9, 1), chain(9, 1)
	far[7] = math.Inf(1)
	copy(same[3:6], same[:3])
	for what, c := range map[string]struct{ got, want error }{
		"fisher: no points":              {fish(ctx, nil, numbers(2)), workload.ErrConfig},
		"fisher: no model":               {fish(ctx, numbers(2), nil), workload.ErrConfig},
		"fisher: nothing":                {fish(ctx, nil, nil), workload.ErrConfig},
		"fisher: half a point":           {fish(ctx, numbers(3), numbers(2)), workload.ErrConfig},
		"fisher: many features":          {fish(ctx, numbers(4097), numbers(4097)), workload.ErrConfig},
		"fisher: ended":                  {fish(ended, numbers(4), numbers(2)), context.Canceled},
		"fusion: no records":             {fuse(ctx, nil, w, fusion.Config{}), workload.ErrConfig},
		"fusion: half a record":          {fuse(ctx, numbers(16), w, fusion.Config{}), workload.ErrConfig},
		"fusion: no weights":             {fuse(ctx, numbers(32), nil, fusion.Config{}), workload.ErrConfig},
		"fusion: an unknown mode":        {fuse(ctx, numbers(32), w, fusion.Config{Mode: "x"}), workload.ErrConfig},
		"fusion: ended":                  {fuse(ended, numbers(32), w, fusion.Config{}), context.Canceled},
		"reduce: no maximum":             {fold(ctx, "max", nil), workload.ErrConfig},
		"reduce: no average":             {fold(ctx, "average", nil), workload.ErrConfig},
		"reduce: unknown":                {fold(ctx, "median", numbers(3)), workload.ErrConfig},
		"reduce: ended":                  {fold(ended, "sum", numbers(3)), context.Canceled},
		"landscape: nothing":             {turn(ctx, nil), protein.ErrStructure},
		"landscape: three beads":         {turn(ctx, chain(3, 1)), protein.ErrStructure},
		"landscape: half a bead":         {turn(ctx, chain(5, 1)[1:]), protein.ErrStructure},
		"landscape: not finite":          {turn(ctx, far), protein.ErrStructure},
		"landscape: two beads in one":    {turn(ctx, same), protein.ErrStructure},
		"landscape: more than are taken": {turn(ctx, make([]float64, 3*20_001)), workload.ErrConfig},
		"landscape: ended":               {turn(ended, chain(5, 1)), context.Canceled},
	} {
		if !errors.Is(c.got, c.want) || strings.Contains(c.got.Error(), "\n") {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}
