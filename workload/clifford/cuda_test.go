//go:build gpu

package clifford

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/backend/cuda"
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
	x, y, tables, out := put(b, rt, "x", j.x), put(b, rt, "y", j.y), put(b, rt, "tables", j.entries), put(b, rt, "out", j.out)
	defer func() {
		x.Release()
		y.Release()
		tables.Release()
		out.Release()
	}()
	g, err := j.Graph([]sched.Range{{Hi: int64(c.Count)}})
	if err != nil {
		b.Fatal(err)
	}
	const warm, times = 3, 10
	for range b.N {
		var took []time.Duration
		for range warm + times {
			rep, err := rt.Run(b.Context(), g, x.As("x"), y.As("y"), tables.As("tables"), out.As("out"))
			if err != nil {
				b.Fatal(err)
			}
			took = append(took, rep.Devices[0].Busy)
		}
		took = took[warm:]
		slices.Sort(took)
		b.ReportMetric(j.Whole().Work.Bytes/took[times/2].Seconds()/1e12, "TB/s")
		b.ReportMetric(0, "ns/op")
	}
	if j.out, err = out.Get(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := j.Check(); err != nil {
		b.Error(err)
	}
}

func put[T any](b *testing.B, rt *weft.Runtime, name string, xs []T) *weft.Data[T] {
	b.Helper()
	d, err := weft.Put(rt, name, xs)
	if err != nil {
		b.Fatal(err)
	}
	return d
}
