package proc

import "time"

const (
	// firstWait is the pause after a child has failed twice in a row; it doubles from
	// there on to lastWait. Starting one takes about a tenth of a second of a core.
	firstWait = 100 * time.Millisecond
	lastWait  = 10 * time.Second
	// A child that lived for healthy starts the pauses over.
	healthy = 10 * time.Second
)

// backoff gives the pause before a child that ended is replaced: none the first time,
// then twice the last pause, until a child was healthy.
type backoff struct{ wait time.Duration }

// next returns the pause after a child that ended when it had lived for a time.
func (b *backoff) next(lived time.Duration) time.Duration {
	if lived >= healthy {
		b.wait = 0
	}
	now := b.wait
	b.wait = min(max(2*b.wait, firstWait), lastWait)
	return now
}
