//go:build invariants

package graph

var stepsTaken int

// step counts a step of work that must grow no faster than the graph, for tests.
func step() { stepsTaken++ }
