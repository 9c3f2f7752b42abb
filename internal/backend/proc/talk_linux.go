package proc

import "time"

// What a child prints or logs ends up in the log of the program, which must not be
// filled by a driver that complains without end.
const (
	// talkBurst is the number of bytes logged at once: the dump of a crash with some
	// hundred goroutines.
	talkBurst = 256 << 10
	// talkRate is the number of bytes logged per second in the long run: some
	// hundred lines.
	talkRate = 16 << 10
	// talkLine is the least cost of a line in bytes, since the log adds to it.
	talkLine = 128
)

// allowance tracks how many more bytes of a child's output may be logged. The zero
// value is full.
type allowance struct {
	spent float64   // of talkBurst
	at    time.Time // when that was so
	told  bool      // that there was too much
}

// take asks for n bytes at a time. first is true when it refuses for the first time.
func (a *allowance) take(now time.Time, n int) (ok, first bool) {
	a.spent = max(a.spent-now.Sub(a.at).Seconds()*talkRate, 0)
	a.at = now
	cost := float64(max(n, talkLine))
	if a.spent+cost > talkBurst {
		first, a.told = !a.told, true
		return false, first
	}
	a.spent += cost
	return true, false
}
