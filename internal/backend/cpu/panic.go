package cpu

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/weft-run/weft/trace"
)

// exited stands for what a kernel panicked with that ended its goroutine, as
// testing.T does when a test fails.
const exited = "it called runtime.Goexit"

// panicked makes an error of what recover returned. It is called by the deferred function
// that recovered, while the stack still has the frames of the kernel.
func panicked(device string, value any) error {
	return fmt.Errorf("cpu: %s: %w", device, &trace.KernelPanic{Value: value, At: panicAt(), Stack: debug.Stack()})
}

// panicAt names the function that panicked: the first above the runtime's own, on a stack
// whose upper end is the function that recovers.
func panicAt() string {
	pcs := make([]uintptr, 64) // 10 to 20 frames lie above the kernel
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	begun := false
	for {
		f, more := frames.Next()
		if begun && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s (%s:%d)", f.Function, filepath.Base(f.File), f.Line)
		}
		begun = begun || f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit"
		if !more {
			return "an unknown function"
		}
	}
}
