package load

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"time"
)

// coarse is the time by which Go's timers may end a wait early: they use epoll, which counts in
// milliseconds.
const coarse = 2 * time.Millisecond

// waitUntil waits for a time, to some 10 or 20 µs where a processor is free. Go's timers wait for
// all but the last 2 ms, during which a context can end it; for the rest the thread sleeps in
// the kernel, with no slack, so that no core is spent on waiting.
func waitUntil(ctx context.Context, until time.Time) error {
	if err := waitCoarsely(ctx, until.Add(-coarse)); err != nil {
		return err
	}
	if !time.Now().Before(until) {
		return ctx.Err()
	}
	runtime.LockOSThread() // slack is a thread's
	defer runtime.UnlockOSThread()
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, 1, 0) // at worst, waits are 50 µs too long
	for left := time.Until(until); left > 0; left = time.Until(until) {
		t := syscall.NsecToTimespec(int64(left))
		if err := syscall.Nanosleep(&t, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return waitCoarsely(ctx, until)
		}
	}
	return ctx.Err()
}
