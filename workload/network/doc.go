// Package network computes with graphs: which nodes matter (PageRank), layers of graph convolution,
// and which nodes are in the middle (closeness, k-medoids).
//
// PageRank is the share of time that a random walk spends at each node. The walk follows an edge
// with probability 0.85 and otherwise, or from a node without edges, goes to any node. It is
// computed in float64, because ranks of large graphs are small beside their sum, and the changes
// that end an iteration smaller still. A line of cache then holds half as many of the numbers that
// are gathered, but a random access loads a whole line either way.
//
// A layer of graph convolution is relu(D^-½ (A+I) D^-½ H W) in float32: features H of nodes,
// weights W, and the degrees D of A+I (Kipf and Welling 2017). Edges count both ways. An edge from
// a node to itself is an entry of A like others, to which I adds one.
//
// Closeness is (n-1) ÷ the sum of distances to the other nodes, and k-medoids finds the k nodes
// with the least sum of distances from each node to the nearest of them, by turns: each node to the
// nearest medoid, and each cluster the medoid that is nearest to its nodes. Distances are those of
// points in space, or the numbers of edges of shortest paths.
//
// Rows of graphs differ: some of R-MAT's have thousands of times as many edges as most. Devices
// therefore share blocks of rows with about equal numbers of edges. A row is summed in one order on
// every device: class R.
//
// Files: config.go (problems), graph.go (graphs and blocks), read.go (files), rmat.go (generator),
// rank.go, layers.go, distance.go (a job each), check.go (references), call.go (calls).
//
// # How it is computed
//
// Graphs are in compressed rows (workload.Sparse). Rows are in blocks of about 2048 edges, in which
// a row counts as three more; a row of more than 256 is a block by itself. On GPUs a group of
// threads has a block, and shares a long row; eight threads share each row of other blocks. Blocks
// do not depend on devices.
//
// PageRank has a task for each device and step. It gathers what all nodes gave in the step before
// and writes what its rows give; two vectors are written in turn. Only the last step adds up
// changes. Kernels have nodes in the order of the lengths of their rows. Layers have a task for
// each device and layer, with two steps: sums of the features of neighbours, and their product with
// the weights. Closeness and k-medoids compute rows of distances, by coordinates or breadth first,
// and sums over them. A step of k-medoids labels the rows of each device, adds up distances within
// labels, and one task takes the smallest sum of each.
//
// An edge that a file lists more than once has the sum of the weights, or the last of them, or is
// refused (read.go); the name of the job says how many there were. table.go writes a line for each
// node.
package network
