package exec

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// A measurement is repeated while there is time, and made once after its first run
// however late it is.
func TestSamples(t *testing.T) {
	for _, c := range []struct {
		until time.Duration
		want  int
	}{{time.Hour, probeSamples + 1}, {-time.Hour, 2}} {
		m := &meter{ctx: context.Background(), board: driver.NewBoard(1), until: c.until}
		n := 0
		mid := m.sample(false, func() (float64, error) { n++; return float64(n), nil })
		if want := float64(2+c.want) / 2; n != c.want || mid != want {
			t.Errorf("until %v: %d runs, median %v; want %d, %v", c.until, n, mid, c.want, want)
		}
	}
}

// A device that fails is counted out once, however often it fails, and not again if it
// hung, for which giveUp counts.
func TestFailedMeterCountsOnce(t *testing.T) {
	var left atomic.Int32
	left.Store(5)
	for _, err := range []error{errors.New("broken"), errHung} {
		m := &meter{left: &left}
		for range 2 {
			if err := m.fail(err); err == nil {
				t.Error("no error")
			}
		}
	}
	if n := left.Load(); n != 4 {
		t.Errorf("%d devices are left of 5", n)
	}
}
