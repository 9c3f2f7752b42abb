// Package partition cuts a protein into parts that devices work on: ranges of residues, structural
// domains, or clusters of contacts. A partition is an assignment of residues to parts;
// [Parts.Partitioner] makes of it a partitioner for any workload whose items are residues.
//
// What parts cost is counted in contacts that they cut: for each of them the position of either
// residue goes to the other's device in every step of a simulation.
//
// [ContactClusters] bisects the graph of contacts recursively from some twenty beginnings
// (Fiedler's vector and the two modes behind it, the chain, walks from residues) and refines each
// by the method of Fiduccia and Mattheyses. [StructuralDomains] is k-means on the slowest modes of
// the Gaussian network. [ResidueRanges] cuts the chain. All follow weights, and depend on nothing
// but their arguments.
package partition
