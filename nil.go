package weft

import (
	"context"
	"errors"
	"fmt"
)

// Methods of what is nil return one of these where they return an error, and panic with it
// otherwise.
var (
	errNoRuntime  = errors.New("the runtime is nil; Open returns one")
	errNoPrepared = errors.New("the prepared graph is nil; Prepare returns one")
	errNoData     = errors.New("the data is nil; Put and Alloc return some")
	errNoHandle   = errors.New("the handle is nil; Submit returns one")
)

// must panics with a line that says what is wrong, for methods that return no error.
func (r *Runtime) must(call string) *Runtime {
	if r == nil {
		panic(fmt.Errorf("weft: %s: %w", call, errNoRuntime))
	}
	return r
}

// need panics if a call was given no context or no function. What it starts would find that out on
// another goroutine.
func need(call string, ctx context.Context, function bool) {
	lacks := ""
	switch {
	case ctx == nil:
		lacks = "the context is nil; use context.Background()"
	case !function:
		lacks = "the function is nil"
	default:
		return
	}
	panic(fmt.Errorf("weft: %s: %s", call, lacks))
}
