//go:build !linux

package cpu

import "errors"

// allowed is not known where threads cannot be tied to cores.
func allowed() []int { return nil }

// pin does nothing there.
func pin([]int) {}

// Realtime is for Linux.
func Realtime() error { return errors.ErrUnsupported }

// quota is not known here.
func quota() string { return "" }

func modelName() string { return "CPU" }
