package weft

import (
	"maps"
	"sync/atomic"

	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/internal/backend/proc"
)

// Worker is the first line of main, and of TestMain, in programs that use GPUs or
// [Options].Isolate. Their devices run in worker processes, which are this program started
// again: in such a process Worker does the work and never returns. In the program itself it
// returns at once.
//
// With Options.Isolate it is given the Go kernels that workers run: those of Options.Funcs,
// and of kernels for [Apply] what [Kernel.Funcs] returns. A worker shares no variables with
// the program, so that such a kernel goes by its arguments and parameters alone.
//
// Where main does not call it, Options.WorkerCommand names a program that does.
func Worker(funcs ...map[string]Func) {
	known := make(map[string]Func)
	if before := workerFuncs.Load(); before != nil {
		maps.Copy(known, *before)
	}
	for _, m := range funcs {
		maps.Copy(known, m)
	}
	workerFuncs.Store(&known)
	proc.Main(all.Makers(func() map[string]Func { return known }))
}

// workerFuncs are the Go kernels that Worker was given, nil before it was called.
var workerFuncs atomic.Pointer[map[string]Func]
