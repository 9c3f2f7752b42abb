//go:build !amd64

package cpu

func arithmetic() probeLoops { return plain }
