package exec

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// A device is warmed up for as long as it becomes faster, for a while in any case
// and not for ever.
func TestWarmUp(t *testing.T) {
	for _, c := range []struct {
		name string
		took func(i int) time.Duration
		runs int
	}{
		{"steady", func(int) time.Duration { return 10 * time.Millisecond }, 8},
		{"waking", func(i int) time.Duration { return time.Duration(max(40-10*i, 10)) * time.Millisecond }, 5}, // 40 30 20 10 10
		{"ever faster", func(i int) time.Duration { return 100 * time.Millisecond >> i }, 0},
		{"faster until the end", func(i int) time.Duration { return time.Duration(70-10*i) * time.Millisecond }, 5}, // 250 ms
		{"hardly faster", func(i int) time.Duration { return []time.Duration{50e6, 49.5e6, 40e6, 40e6}[i] }, 2},
		{"slow", func(int) time.Duration { return 300 * time.Millisecond }, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &meter{ctx: t.Context(), board: driver.NewBoard(1)}
			n := 0
			m.warmUp(func() (float64, error) {
				took := c.took(n)
				time.Sleep(took) // by the clock of the bubble, which takes no time
				n++
				return took.Seconds(), nil
			})
			if c.runs > 0 && n != c.runs || n > 64 {
				t.Errorf("%s: warmed up by %d launches, want %d", c.name, n, c.runs)
			}
		})
	}
}
