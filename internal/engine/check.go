package engine

// Checks of the engine's own records. Cheap ones always run; with -tags invariants a
// recount computes every count and list anew.

// checkState is the memory of the checks.
type checkState struct{ steps uint64 }

// Visits returns the number of records looked at one by one, with -tags invariants; 0
// without. Tests of growth compare it.
func (e *Engine) Visits() uint64 { return e.mem.visits }

// check panics when the engine's records contradict each other. Cheap checks always run;
// with -tags invariants everything is recounted, after every step while graphs are small.
func (e *Engine) check() {
	e.checks.steps++
	if e.inFlight < 0 {
		panic("engine: negative tasks in flight")
	}
	e.recount()
}
