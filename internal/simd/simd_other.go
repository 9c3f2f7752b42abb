//go:build !amd64 && !arm64

package simd

// Best is the set of the fastest kernels that this machine can run.
const Best = Go
