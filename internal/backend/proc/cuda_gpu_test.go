//go:build linux && !race && gpu

package proc_test

import "testing"

// cudaLibraries is empty: the libraries of this machine are meant.
func cudaLibraries(testing.TB) []string { return nil }
