package machine

import (
	"math"
	"testing"
	"time"
)

const mib = 1 << 20

// Copies to memory that is touched for the first time take many times longer than the next
// ones. Where copies of a size are always such, because later runs are cut otherwise, copies
// of about the size say what it takes: these are the copies of several processes, in the
// first run of which parts of 16 MiB were copied, and 32 MiB in those after it.
func TestHistoryFreshMemory(t *testing.T) {
	h := newHistory(t, "h200")
	for range 8 {
		h.ObserveCopy(16*mib, 0, Host, 2400*time.Microsecond)
		h.ObserveCopy(32*mib, 0, Host, 19870*time.Microsecond)
		h.ObserveCopy(16*mib, 0, Host, 2000*time.Microsecond)
		for range 14 {
			h.ObserveCopy(32*mib, 0, Host, 900*time.Microsecond)
		}
		for _, c := range []struct {
			bytes int64
			want  time.Duration
		}{{8 * mib, 225 * time.Microsecond}, {16 * mib, 450 * time.Microsecond}, {32 * mib, 900 * time.Microsecond}, {64 * mib, 1800 * time.Microsecond}} {
			if got := h.Copy(c.bytes, 0, Host); math.Abs(ratio(got.Median, c.want)-1) > 0.03 || got.Low > got.Median || got.High < got.Median {
				t.Errorf("%d MiB take %+v, want about %v", c.bytes/mib, got, c.want)
			}
		}
	}
	if h.Changed() {
		t.Error("copies to fresh memory count as a change of the device")
	}
}

// A path that has become slower or faster is believed when most of its last copies say so, and
// copies of sizes far apart have times of their own.
func TestHistoryPathChanges(t *testing.T) {
	h := newHistory(t, "h200")
	took := map[int64]time.Duration{64 << 10: 200 * time.Microsecond, 32 * mib: time.Millisecond}
	learn := func(times int, factor float64) {
		for range times {
			for bytes, d := range took {
				h.ObserveCopy(bytes, Host, 0, time.Duration(float64(d)*factor))
			}
		}
	}
	want := func(factor float64) {
		t.Helper()
		for bytes, d := range took {
			if got := h.Copy(bytes, Host, 0).Median; math.Abs(ratio(got, d)/factor-1) > 0.01 {
				t.Errorf("%d bytes take %v, want %.1f times %v", bytes, got, factor, d)
			}
		}
	}
	learn(20, 1)
	want(1)
	for range 10 * maxLast { // many of one size leave those of another as they were
		h.ObserveCopy(64<<10, Host, 0, 200*time.Microsecond)
	}
	want(1)
	for _, factor := range []float64{10, 0.5, 3} {
		learn(maxAlike/4-1, factor)
		learn(1, 1)
		learn(maxAlike/2+1, factor)
		want(factor)
		learn(maxAlike/2+1, 1)
		want(1)
		learn(maxAlike/4-1, factor)
		want(1)
		learn(maxAlike/2+1, 1)
	}
}
