package network

import (
	"fmt"
	"math/bits"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload"
)

// The quarters of an adjacency matrix into which an edge of R-MAT falls, as Graph500 has
// them: 0.57, 0.19, 0.19 and 0.05, as the bounds of a word.
const (
	quarterA = 0.57 * (1 << 32)
	quarterB = quarterA + 0.19*(1<<32)
	quarterC = quarterB + 0.19*(1<<32)
)

// RMAT draws a directed graph whose degrees are as skewed as in social networks (Chakrabarti, Zhan
// and Faloutsos 2004). For each edge it draws a quarter of the adjacency matrix, a quarter of that,
// and so on, as a function of the seed and the number of the edge. Nodes keep their numbers, so the
// nodes with most edges come first. Edges that are drawn twice are merged, so there are fewer than
// edges per node.
func RMAT(nodes, edges int, seed uint32) (*Graph, error) {
	if nodes < 2 || nodes > MaxNodes || edges < 1 || edges > MaxEdges/nodes {
		return nil, fmt.Errorf("network: %d edges for each of %d nodes: %w: there must be 2 to %d nodes and 1 to %d edges in all", edges, nodes, ErrGraph, MaxNodes, MaxEdges)
	}
	levels := bits.Len(uint(nodes - 1))
	draw := philox.Source{Seed: seed, Stream: streamEdges}
	list := make([]edge, nodes*edges)
	_ = workload.Sweep(len(list), func(lo, hi int) error {
		for k := lo; k < hi; k++ {
			var from, to uint64
			var words [4]uint32
			for l := range levels {
				if l%4 == 0 {
					words = draw.Block(uint64(k), uint32(l/4), 0)
				}
				from, to = 2*from, 2*to
				switch w := float64(words[l%4]); {
				case w < quarterA:
				case w < quarterB:
					to++
				case w < quarterC:
					from++
				default:
					from, to = from+1, to+1
				}
			}
			// Fewer nodes than a power of two share its numbers.
			list[k] = edge{uint32(from * uint64(nodes) >> levels), uint32(to * uint64(nodes) >> levels)}
		}
		return nil
	})
	g, err := newGraph(fmt.Sprintf("R-MAT of %d nodes", nodes), nodes, list, nil, false, RepeatedLast, 0)
	g.Repeated = 0
	return g, err
}
