package task_test

import (
	"context"
	"slices"
	"testing"

	"github.com/weft-run/weft/task"
)

// BenchmarkFamily has a million elements that take a nanosecond each, so that the time of one
// is what the call adds to it; for Stream, a thousand.
func BenchmarkFamily(b *testing.B) {
	xs := make([]float64, 1_000_000)
	ctx := context.Background()
	double := func(_ context.Context, x float64) (float64, error) { return 2 * x, nil }
	add := func(_ context.Context, x, y float64) (float64, error) { return x + y, nil }
	for name, call := range map[string]func() (int, error){
		"map":    func() (int, error) { _, err := task.Map(ctx, xs, double); return len(xs), err },
		"reduce": func() (int, error) { _, err := task.Reduce(ctx, xs, add); return len(xs), err },
		"stream": func() (int, error) {
			for _, err := range task.Stream(ctx, slices.Values(xs[:1000]), double) {
				if err != nil {
					return 0, err
				}
			}
			return 1000, nil
		},
		"few": func() (int, error) { _, err := task.Map(ctx, xs[:4], double); return 4, err },
	} {
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				k, err := call()
				if err != nil {
					b.Fatal(err)
				}
				n += k
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/element")
		})
	}
}
