package proc

import (
	"testing"
	"time"
)

// What a child says is logged up to a burst, and later at a rate; that there was too
// much is told once.
func TestAllowance(t *testing.T) {
	var a allowance
	now := time.Unix(1e9, 0)
	bytes, told := 0, 0
	say := func(lines int) {
		for range lines {
			ok, first := a.take(now, 1024)
			if ok {
				bytes += 1024
			}
			if first {
				told++
			}
		}
	}
	say(100_000)
	if bytes != talkBurst || told != 1 {
		t.Errorf("%d bytes are logged at once and it is told %d times; want %d and once", bytes, told, talkBurst)
	}
	bytes = 0
	for range 100 {
		now = now.Add(time.Second)
		say(1000)
	}
	if bytes != 100*talkRate || told != 1 {
		t.Errorf("%d bytes are logged in 100 s and it is told %d times; want %d and once", bytes, told, 100*talkRate)
	}
	now, bytes = now.Add(time.Hour), 0
	say(100_000)
	if bytes != talkBurst {
		t.Errorf("%d bytes are logged after an hour of silence; want %d", bytes, talkBurst)
	}
}
