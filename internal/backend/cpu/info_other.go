//go:build !linux

package cpu

// allowed is not known where threads cannot be tied to cores.
func allowed() []int { return nil }

// pin does nothing there.
func pin([]int) {}

// quota is not known here.
func quota() string { return "" }

func modelName() string { return "CPU" }
