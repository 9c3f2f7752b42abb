package simd

// Best is the set of the fastest kernels that this machine can run. Every arm64 processor that Go runs on
// has NEON.
const Best = NEON
