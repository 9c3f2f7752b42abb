package weft_test

import (
	"context"
	"testing"
	"time"

	"github.com/weft-run/weft"
)

// BenchmarkMapSleep maps elements that take long without using a core, so that the time
// says how many are computed at once.
func BenchmarkMapSleep(b *testing.B) {
	for _, each := range []time.Duration{100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		b.Run(each.String(), func(b *testing.B) {
			rt, err := weft.Open(context.Background(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off"})
			if err != nil {
				b.Fatal(err)
			}
			defer rt.Close()
			const n = 64
			for b.Loop() {
				if _, err := weft.Map(context.Background(), rt, make([]int, n), func(x int) int { time.Sleep(each); return x }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*each.Seconds()*float64(b.N)/b.Elapsed().Seconds(), "at-once")
		})
	}
}
