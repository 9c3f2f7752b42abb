// Package fault has the errors that tasks which are Go functions (package task) and runs on
// devices (the root package) have in common, so that a program which imports only one of the
// two does not bring in the other. Both name those that they return.
package fault

import "errors"

var (
	// ErrPanic is wrapped by the error of a function or kernel in Go that panicked.
	ErrPanic = errors.New("panic")
	// ErrGoexit is the error of a function that ended its goroutine by runtime.Goexit.
	ErrGoexit = errors.New("runtime.Goexit ended the goroutine of the task")
	// ErrDeadlock is the error of a wait that could not end, since the caller waits for itself.
	ErrDeadlock = errors.New("the task waits for itself")
	// ErrTimeout is wrapped by the error of what took longer than it was allowed.
	ErrTimeout = errors.New("timed out")
	// ErrOutOfMemory is wrapped by the error of what needs more memory than there is.
	ErrOutOfMemory = errors.New("does not fit in memory")
)
