// Package automata steps Conway's Game of Life (rule B3/S23), and games of other such
// rules, on a torus, 64 cells to a word. [Run] plays a caller's [Board] on the devices of
// a runtime.
//
// A grid is a slice of rows of equally many words; cell x of a row is bit x%64
// of its word x/64, and the first and last cell of a row are neighbours. A
// device owns a block of rows and keeps a halo of k rows above and
// below it, filled with its neighbours' rows: then it can step k times
// ([Advance]) before it has to exchange 2k rows. Cells are bits and every one is
// computed by the same logic, so the result is bitwise the same for every cut:
// class X.
//
// The kernels run on the calling goroutine, allocate nothing and return to Go
// after every row.
package automata
