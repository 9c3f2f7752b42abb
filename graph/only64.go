//go:build 386 || arm || mips || mipsle

package graph

// Sizes of data are ints where they are lengths of slices, devices are given addresses of
// 64 bits, and counters shared with worker processes must not be torn: weft is for
// platforms of 64 bits. This name is declared nowhere, so that the compiler says so.
var _ = weftNeedsA64BitPlatform
