package trace

import (
	"errors"
	"fmt"
)

// ErrPanic is wrapped by the error of a function or kernel in Go that panicked.
var ErrPanic = errors.New("panic")

// KernelPanic is the error of a kernel in Go that panicked. It unwraps to ErrPanic, and to
// Value if that is an error.
type KernelPanic struct {
	Value any    // what it panicked with
	At    string // the function that panicked, with file and line
	Stack []byte // of the goroutine, as the runtime prints it
}

func (p *KernelPanic) Error() string { return fmt.Sprintf("kernel panicked: %v, in %s", p.Value, p.At) }

// Unwrap returns ErrPanic and, if it is an error, the value.
func (p *KernelPanic) Unwrap() []error {
	if err, ok := p.Value.(error); ok {
		return []error{ErrPanic, err}
	}
	return []error{ErrPanic}
}
