package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weft-run/weft/graph"
)

// Func is a kernel in Go: it computes items lo to hi of a launch's grid, as cut by its
// implementation (graph.Impl.Per). Several calls of one launch run at the same time on
// disjoint ranges. It must not keep what it is given, and assembly in it should return
// to Go within about a millisecond, since the garbage collector has to wait for it. It must
// not wait for a run of the same runtime, which may need the core that it is on: such a run
// fails at once if it is given Call.Context.
//
// It must not write what its task only reads: that is the memory of the caller, or a copy that
// other tasks read. A kernel that has failed may have done so half-way. It is therefore not run
// again where its task reads anything, unless that was compared and has not changed.
type Func func(c *Call, lo, hi int)

// WithParams returns a kernel that reads its parameters as a P, a structure that
// graph.Pack takes. A launch whose step has Params of another length fails.
func WithParams[P any](fn func(c *Call, p P, lo, hi int)) Func {
	unpack := graph.Unpacker[P]()
	return func(c *Call, lo, hi int) {
		p, err := unpack(c.Params)
		if err != nil {
			c.Fail(OfLaunch(fmt.Errorf("%w: %w", ErrUnfit, err), ErrUnfit, ErrKernel))
			return
		}
		fn(c, p, lo, hi)
	}
}

// Call holds the buffers, parameters and grid of one launch of a Func. To test a kernel,
// a zero Call with Args, Params and Launch set is enough.
type Call struct {
	Args   [][]byte // buffers in the order of the task's uses, workspace last
	Params []byte
	Launch graph.Launch

	err      atomic.Pointer[error]
	unwanted func() bool
	context  func() context.Context
}

// NewCall returns a call for a device to run kernels with, one after another.
// unwanted reports whether the result of the kernel that runs is not needed, context
// returns the context of its launch (see Board.Context).
func NewCall(unwanted func() bool, context func() context.Context) *Call {
	return &Call{unwanted: unwanted, context: context}
}

// Reset makes the call ready for the next kernel: it has not failed.
func (c *Call) Reset() {
	if c.err.Load() != nil {
		c.err.Store(nil)
	}
}

// Stopped reports whether the result is not needed, because the run was cancelled or
// another task of it failed. A kernel that takes long should call Stopped at intervals
// and return once it is true. The contents of its buffers are then discarded.
func (c *Call) Stopped() bool { return c.unwanted != nil && c.unwanted() }

// Context returns a context that ends when Stopped becomes true, and when the launch has
// ended. A kernel gives it to what it calls, such as functions of package weft. It tells a
// runtime which of its kernels calls it, so that a kernel that would wait for a run of its
// own runtime gets an error.
func (c *Call) Context() context.Context {
	if c.context == nil {
		return context.Background()
	}
	return c.context()
}

// Fail makes the launch fail. Other parts of it may still run to their end. If err wraps an error
// of this package, as from another device that the kernel used, that error concerns another
// operation: errors.Is does not find it in the launch's error, unless err is from OfLaunch.
func (c *Call) Fail(err error) {
	if _, told := err.(*failure); !told && slices.ContainsFunc(ofOperations, func(is error) bool { return errors.Is(err, is) }) {
		err = OfLaunch(err)
	}
	c.err.CompareAndSwap(nil, &err)
}

// ofOperations are the errors by which a device says what became of an operation.
var ofOperations = []error{
	ErrUnavailable, ErrOutOfMemory, ErrDeviceLost, ErrKernel, ErrUnfit, ErrNoFunc, ErrFaulted, ErrDependency, ErrSpoilt,
	ErrChecksum, ErrClosed, ErrStopped,
}

// OfLaunch returns err as the error of the launch of a kernel. Of the errors of this package that
// err wraps, errors.Is finds only those listed in says. A kernel fails with ErrUnfit before it
// writes anything.
func OfLaunch(err error, says ...error) error { return &failure{err, says} }

// failure is the error of a kernel without what it says of other operations.
type failure struct {
	err  error
	says []error
}

func (f *failure) Error() string { return f.err.Error() }

// Is reports whether it is an error other than those that are left out.
func (f *failure) Is(target error) bool {
	return (!slices.Contains(ofOperations, target) || slices.Contains(f.says, target)) && errors.Is(f.err, target)
}

// As finds an error in it.
func (f *failure) As(target any) bool { return errors.As(f.err, target) }

// Spoilt returns err as the error of a launch that may have changed data the task only reads.
func Spoilt(err error) error { return &spoilt{err} }

type spoilt struct{ err error }

func (s *spoilt) Error() string   { return s.err.Error() }
func (s *spoilt) Unwrap() []error { return []error{s.err, ErrSpoilt} }

// Err returns the error of the first Fail, or nil.
func (c *Call) Err() error {
	if e := c.err.Load(); e != nil {
		return *e
	}
	return nil
}
