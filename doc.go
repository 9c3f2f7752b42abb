// Package weft runs task graphs on every compute device of a machine: it finds
// the devices, measures them, splits the work by what each can really do, keeps
// them all busy and survives the loss of any of them with the same result.
//
// Work is described with package graph, machines with package machine; package
// sim runs a graph on a described machine in virtual time, with the engine that
// also runs it live. The tree and what may import what are checked by
// layering_test.go.
package weft
