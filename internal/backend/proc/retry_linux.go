package proc

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// deathError is the error of a request to a child that ended instead of answering.
type deathError struct{ err error }

func (e *deathError) Error() string { return e.err.Error() }
func (e *deathError) Unwrap() error { return e.err }

// A child that dies while it opens a device is started again: what other processes do
// to a GPU, or a machine short of memory, may pass. Three tries are enough for that,
// and a driver that always crashes costs half a second more.
const (
	openTries = 3
	openPause = 100 * time.Millisecond // before the second try; four times that before the third
)

// retry calls open until it succeeds or fails for another reason than the death of a
// child, openTries times at most, and returns the last error.
func retry(ctx context.Context, log *slog.Logger, open func() error) error {
	pause := openPause
	for try := 1; ; try++ {
		err := open()
		if death := (*deathError)(nil); !errors.As(err, &death) || try == openTries {
			return err
		}
		log.Warn("a process ended while it opened its device; starting another", "try", try, "of", openTries, "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 4
	}
}
