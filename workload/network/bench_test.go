package network_test

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/network"
)

// BenchmarkSkew deals rows of R-MAT out to two devices, with about as many edges for each or as
// many rows, beside one of them that has all. Efficiency is the time of one, divided by twice the
// time of two.
func BenchmarkSkew(b *testing.B) {
	for _, c := range []network.Config{{Problem: network.PageRank, Nodes: 1 << 17, Steps: 16}, {Problem: network.Layers, Nodes: 1 << 15}} {
		j := workloadtest.New[workload.Job](b)(network.New(c))
		edges := float64(c.Nodes) * 16 * float64(max(c.Steps, 1))
		alone := 0.
		for _, way := range []struct {
			name      string
			parts     int
			equalRows bool
		}{{"one", 1, false}, {"edges", 2, false}, {"rows", 2, true}} {
			b.Run(c.Problem+"/"+way.name, func(b *testing.B) {
				rt := workloadtest.Open(b, 2, network.Funcs())
				g, err := j.Graph(ranges(b, j, way.parts, way.equalRows))
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if _, err := rt.Run(b.Context(), g, j.Bind()...); err != nil {
						b.Fatal(err)
					}
				}
				took := b.Elapsed().Seconds() / float64(b.N)
				if way.parts == 1 {
					alone = took
				}
				b.ReportMetric(edges/took/1e6, "Medges/s")
				b.ReportMetric(100*alone/took/float64(way.parts), "%efficiency")
			})
		}
	}
}

// BenchmarkRank is the kernel of PageRank on one core.
func BenchmarkRank(b *testing.B) {
	j := workloadtest.New[workload.Job](b)(network.New(network.Config{Problem: network.PageRank, Nodes: 1 << 17, Steps: 1})).(*network.RankJob)
	rt := workloadtest.Open(b, 1, network.Funcs())
	g, err := j.Graph([]sched.Range{{Hi: j.Items().Extent}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := rt.Run(b.Context(), g, j.Bind()...); err != nil {
			b.Fatal(err)
		}
	}
}
