package weft

import (
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/internal/backend/proc"
)

// Worker is the first line of main, and of TestMain, in programs that use GPUs. GPU
// drivers run in worker processes, which are this program started again: in such a
// process Worker does the work and never returns. In the program itself it returns
// at once.
//
// Where main does not call it, Options.WorkerCommand names a program that does.
func Worker() { proc.Main(all.Makers()) }
