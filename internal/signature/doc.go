// Package signature says what the Go kernels take that graphs can name: memory, parameters and
// items. Every call is checked against it before the kernel runs, since a graph may be a file from
// a stranger: parameters that do not fit the memory give an error that says which argument is too small, not a
// panic, and a kernel allocates no more than in proportion to what it was given.
//
// Files: signature.go (signatures and checks), collect.go (the list of them).
//
// A signature has the arguments of a kernel by name, type and access, its grid in words, and a
// function that returns, for given parameters, how many elements each argument must have and how
// many items there are. The assembly behind these kernels checks nothing. weft kernels prints the
// signatures, and TestAnyCall of the catalogue calls every kernel with random parameters and
// memory.
package signature
