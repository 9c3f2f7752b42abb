package dashboard

import (
	"testing"

	"go.uber.org/goleak"
)

// No test leaves a goroutine: streams end with their readers.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
