//go:build gpu

package relativity

import (
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
)

// BenchmarkCUDA has the rate of boosts whose events and results stay on a GPU.
func BenchmarkCUDA(b *testing.B) {
	rt, err := weft.Open(b.Context(), weft.Options{
		Drivers: []driver.Driver{cuda.New(cuda.Options{Devices: []int{0}})}, NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close()
	b.Run("boosts", func(b *testing.B) {
		j := newBoosts(Config{Problem: Boosts, Count: 1 << 24, Seed: 1})
		g, err := j.Graph([]sched.Range{{Hi: int64(j.c.Count)}})
		if err != nil {
			b.Fatal(err)
		}
		x, y, v := workloadtest.Put(b, rt, "x", j.x), workloadtest.Put(b, rt, "y", j.y), workloadtest.Put(b, rt, "velocities", j.v)
		boosted, products := workloadtest.Put(b, rt, "boosted", j.out), workloadtest.Put(b, rt, "products", j.products)
		for range b.N {
			busy := workloadtest.Busy(b, rt, g, x.As("x"), y.As("y"), v.As("velocities"), boosted.As("boosted"), products.As("products"))
			b.ReportMetric(j.Whole().Work.Bytes/busy.Seconds()/1e12, "TB/s")
			b.ReportMetric(0, "ns/op")
		}
		if j.out, err = boosted.Get(b.Context()); err != nil {
			b.Fatal(err)
		}
		if j.products, err = products.Get(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := j.Check(); err != nil {
			b.Error(err)
		}
	})
}
