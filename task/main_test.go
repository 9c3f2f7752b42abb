package task_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The tests end with no goroutine left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
