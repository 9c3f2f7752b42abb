package network

import (
	"context"
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Rank returns the PageRank of every node of a caller's graph, computed on the devices of a
// runtime that was opened with [Funcs] among its kernels. It uses Damping, Tolerance and Steps of
// the configuration; Steps is the number of steps between looks at the residual. A graph that is
// not valid is an error that wraps [ErrGraph].
func Rank(ctx context.Context, rt *weft.Runtime, g *Graph, c Config) ([]float64, error) {
	if err := g.valid(); err != nil {
		return nil, err
	}
	c = Config{Problem: PageRank, Graph: "graph", Steps: c.Steps, Damping: c.Damping, Tolerance: c.Tolerance}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j, err := rankJob(c.withDefaults(), g)
	if err != nil {
		return nil, err
	}
	for {
		if _, err := workload.Call(ctx, rt, j, "network"); err != nil {
			return nil, err
		}
		// Rounding ends an iteration that cannot come nearer.
		if r := j.Residual(); r <= max(j.c.Tolerance, 0x1p-48) {
			return j.Ranks(), nil
		}
		copy(j.start, j.given)
	}
}

// Convolve returns the features of a caller's graph behind layers of graph convolution, like
// Rank. Features have a row for each node, and weights of a layer one for each feature before it.
func Convolve(ctx context.Context, rt *weft.Runtime, g *Graph, features workload.Matrix, weights ...workload.Matrix) (out workload.Matrix, err error) {
	if err := g.valid(); err != nil {
		return out, err
	}
	if err := features.Validate(); err != nil {
		return out, fmt.Errorf("network: features: %w: %w", workload.ErrConfig, err)
	}
	if features.Rows != g.Rows() || len(weights) == 0 || len(weights) > maxLayers {
		return out, fmt.Errorf("network: %d rows of features for %d nodes, and %d layers: %w: there must be as many, and 1 to %d layers", features.Rows, g.Rows(), len(weights), workload.ErrConfig, maxLayers)
	}
	widths := []int{features.Cols}
	var data [][]float32
	for l, w := range weights {
		if err := w.Validate(); err != nil {
			return out, fmt.Errorf("network: weights of layer %d: %w: %w", l, workload.ErrConfig, err)
		}
		if w.Rows != widths[l] || w.Rows < 1 || w.Rows > maxFeatures || w.Cols < 1 || w.Cols > maxFeatures {
			return out, fmt.Errorf("network: weights of layer %d are %d × %d for %d features: %w: they must have a row for each, and 1 to %d of both", l, w.Rows, w.Cols, widths[l], workload.ErrConfig, maxFeatures)
		}
		widths, data = append(widths, w.Cols), append(data, w.Data)
	}
	j, err := layersJob(g, widths, features.Data, data, 1)
	if err != nil {
		return out, err
	}
	if _, err := workload.Call(ctx, rt, j, "network"); err != nil {
		return out, err
	}
	return j.Result(len(weights) - 1), nil
}

// Close returns the closeness of every node of a caller's graph by the lengths of paths, like
// Rank. Edges count both ways, and weights do not count.
func Close(ctx context.Context, rt *weft.Runtime, g *Graph) ([]float32, error) {
	j, err := distances(g, Config{Problem: Closeness})
	if err != nil {
		return nil, err
	}
	if _, err := workload.Call(ctx, rt, j, "network"); err != nil {
		return nil, err
	}
	return j.close, nil
}

// Cluster returns k medoids of a caller's graph by the lengths of paths and for each node the
// number of the nearest, like Close. The configuration says how many medoids and steps. It begins
// with the nodes that have most edges.
func Cluster(ctx context.Context, rt *weft.Runtime, g *Graph, c Config) (medoids, labels []uint32, err error) {
	j, err := distances(g, Config{Problem: Medoids, K: c.K, Steps: c.Steps})
	if err != nil {
		return nil, nil, err
	}
	if _, err := workload.Call(ctx, rt, j, "network"); err != nil {
		return nil, nil, err
	}
	medoids, labels = j.Medoids()
	return medoids, labels, nil
}

// distances is the job of a caller's graph.
func distances(g *Graph, c Config) (*distancesJob, error) {
	if err := g.valid(); err != nil {
		return nil, err
	}
	if c = c.withDefaults(); g.Rows() > maxDense || g.Rows() < 2 {
		return nil, fmt.Errorf("network: %s of %d nodes: %w: there must be 2 to %d", c.Problem, g.Rows(), workload.ErrConfig, maxDense)
	}
	c.Nodes = g.Rows()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return distanceJob(c, g, nil), nil
}
