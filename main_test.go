package weft_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
	"go.uber.org/goleak"
)

// The tests end with no goroutine left, and keep what they measure to themselves.
func TestMain(m *testing.M) {
	weft.Worker(isolated, mixed, spoiling, doubling.Funcs())
	cache, err := os.MkdirTemp("", "weft-test-")
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", cache)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(cache)
		cudatest.Remove()
		os.Exit(code)
	}))
}
