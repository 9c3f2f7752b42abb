package landscape

// What tests name from outside the package.
var ErrWrong = errWrong

// What tests name from outside the package.
type Job = job
