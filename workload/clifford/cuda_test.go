//go:build gpu

package clifford

import (
	"fmt"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
)

// BenchmarkCUDA has the rate of products whose factors and results stay on a GPU, by the time of the
// task, which a launch and waiting for its end are part of.
func BenchmarkCUDA(b *testing.B) {
	rt, err := weft.Open(b.Context(), weft.Options{
		Drivers: []driver.Driver{cuda.New(cuda.Options{Devices: []int{0}})}, NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close()
	for _, c := range []Config{{P: 3, Count: 1 << 24}, {P: 1, Q: 3, Count: 1 << 23}, {P: 4, Q: 1, Count: 1 << 22}} {
		c.Op, c.Seed = Product, 1
		b.Run(fmt.Sprintf("Cl(%d,%d)", c.P, c.Q), func(b *testing.B) { benchmarkResident(b, rt, c) })
	}
}

func benchmarkResident(b *testing.B, rt *weft.Runtime, c Config) {
	j, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	x, y, tables, out := workloadtest.Put(b, rt, "x", j.x), workloadtest.Put(b, rt, "y", j.y), workloadtest.Put(b, rt, "tables", j.entries), workloadtest.Put(b, rt, "out", j.out)
	g, err := j.Graph([]sched.Range{{Hi: int64(c.Count)}})
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		busy := workloadtest.Busy(b, rt, g, x.As("x"), y.As("y"), tables.As("tables"), out.As("out"))
		b.ReportMetric(j.Whole().Work.Bytes/busy.Seconds()/1e12, "TB/s")
		b.ReportMetric(0, "ns/op")
	}
	if j.out, err = out.Get(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := j.Check(); err != nil {
		b.Error(err)
	}
}
