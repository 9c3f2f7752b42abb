//go:build !amd64

package cpu

func arithmetic() loops { return plain }
