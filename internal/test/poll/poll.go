// Package poll waits in tests until a condition holds. It pauses a millisecond between two looks.
package poll

import (
	"testing"
	"time"
)

// limit ends the test of what never comes: no machine is that busy.
const limit = 2 * time.Minute

// True asks, every millisecond, until the answer is yes. The test fails if that is not so in two minutes; what says
// what was waited for.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Within(limit, ok) {
		t.Fatalf("not so after %v: %s", limit, what)
	}
}

// Within asks, every millisecond, until the answer is yes or the limit has passed, and reports whether it is yes.
func Within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
