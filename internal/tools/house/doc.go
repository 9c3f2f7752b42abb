// Package house is the tests of the tree as a whole: what a package may import, what users can name, that documents
// say what the source says, and that nothing reaches the network. They run in the root of the tree, and what they
// compare files with is written anew by
//
//	go test ./internal/tools/house -rewrite
//
// The go command may show results from its cache, which does not know that files of other modules have changed:
// -count=1 runs the tests in any case, as .ci/run does.
package house
