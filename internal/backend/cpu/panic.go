package cpu

import (
	"fmt"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/fault"
)

// exited stands for what a kernel panicked with that ended its goroutine, as
// testing.T does when a test fails.
const exited = "it called runtime.Goexit"

// panicked makes an error of what recover returned. It is called by the deferred function
// that recovered, while the stack still has the frames of the kernel.
func panicked(value any) error {
	return driver.OfLaunch(fmt.Errorf("kernel: %w", fault.Recovered("", value)))
}
