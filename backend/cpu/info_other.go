//go:build !linux

package cpu

// pin does nothing where threads cannot be tied to cores.
func pin(lo, hi int) {}

func modelName() string { return "CPU" }
