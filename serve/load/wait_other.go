//go:build !linux

package load

import (
	"context"
	"time"
)

// waitUntil waits for a time.
func waitUntil(ctx context.Context, until time.Time) error { return waitCoarsely(ctx, until) }
