package gemm

// What tests name from outside the package.
type Job = job

// What tests name from outside the package.
var ErrWrong = errWrong
