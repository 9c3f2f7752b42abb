package merkle

// What tests name from outside the package.
type Job = job
