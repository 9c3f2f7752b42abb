package engine

// checkState is what the cheap checks remember.
type checkState struct{ steps uint64 }

// Visits returns how much was looked at one by one, with -tags invariants.
func (e *Engine) Visits() uint64 { return e.mem.visits }

// check panics when the engine's own books do not add up. What is cheap is
// always checked; with -tags invariants everything is recounted, after every step
// while the graphs are small.
func (e *Engine) check() {
	e.checks.steps++
	if e.inFlight < 0 {
		panic("engine: negative tasks in flight")
	}
	e.recount()
}
