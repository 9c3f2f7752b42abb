//go:build linux

package proc_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
)

// BenchmarkIdle is how much of a core the program takes while its devices have nothing
// to do. What it spends its time on is to let time pass.
func BenchmarkIdle(b *testing.B) {
	start(b, proc.Options{}, engine.Options{})
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	b.ResetTimer()
	for range b.N {
		time.Sleep(100 * time.Millisecond)
	}
	b.ReportMetric(100*(used()-before).Seconds()/b.Elapsed().Seconds(), "%-of-a-core")
}
