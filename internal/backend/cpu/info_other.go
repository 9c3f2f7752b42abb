//go:build !linux

package cpu

// pin does nothing where threads cannot be tied to cores.
func pin(lo, hi int) {}

// quota is not known here.
func quota() string { return "" }

func modelName() string { return "CPU" }
