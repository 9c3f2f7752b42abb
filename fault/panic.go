package fault

import (
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// PanicError is the error of a function or kernel in Go that panicked. It unwraps to
// ErrPanic, and to Value if that is an error.
type PanicError struct {
	Task  string // which function it was; empty where an error around this one says so
	Value any    // what it panicked with
	At    string // the function that panicked, with file and line
	Stack []byte // of the goroutine, as of debug.Stack
}

// Recovered returns the error of a panic. It is for the deferred function that recovered,
// which calls it while the stack still has the frames of what panicked.
func Recovered(task string, value any) *PanicError {
	return &PanicError{Task: task, Value: value, At: panicAt(), Stack: debug.Stack()}
}

func (p *PanicError) Error() string {
	says := fmt.Sprintf("panic: %v, in %s", p.Value, p.At)
	if p.Task != "" {
		says = fmt.Sprintf("task %s: %s", p.Task, says)
	}
	return says
}

// Unwrap returns ErrPanic and, if it is an error, the value.
func (p *PanicError) Unwrap() []error {
	if err, ok := p.Value.(error); ok {
		return []error{ErrPanic, err}
	}
	return []error{ErrPanic}
}

// panicAt names the function that panicked: the first above the runtime's own, on a stack
// whose upper end is the function that recovers.
func panicAt() string {
	pcs := make([]uintptr, 64) // 10 to 20 frames lie above what panicked
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	begun := false
	for {
		f, more := frames.Next()
		if begun && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s (%s:%d)", path.Base(f.Function), filepath.Base(f.File), f.Line)
		}
		begun = begun || f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit"
		if !more {
			return "an unknown function"
		}
	}
}
