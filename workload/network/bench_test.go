package network_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/network"
)

// BenchmarkSkew deals rows of R-MAT out to two devices of half the cores each, with about as many edges
// for each or as many rows, in turns with one of these devices that has all rows, and with one device
// that has all cores. Times are the least of each. Efficiency is the time of one device, divided by twice
// that of two; "of-both" is the time of the device with all cores, divided by that of two: cores share
// the bandwidth of their memory, of which one may have all.
func BenchmarkSkew(b *testing.B) {
	for _, c := range []network.Config{
		{Problem: network.PageRank, Nodes: 1 << 14, Steps: 64}, // in the caches of a core
		{Problem: network.PageRank, Nodes: 1 << 17, Steps: 16},
		{Problem: network.Layers, Nodes: 1 << 15},
	} {
		b.Run(fmt.Sprintf("%s %d", c.Problem, c.Nodes), func(b *testing.B) { benchmarkSkew(b, c) })
	}
}

func benchmarkSkew(b *testing.B, c network.Config) {
	j := workloadtest.New[workload.Job](b)(network.New(c))
	halves, all := workloadtest.Open(b, 2, network.Funcs()), workloadtest.Open(b, 1, network.Funcs())
	build := func(parts int, equalRows bool) *graph.Graph {
		g, err := j.Graph(ranges(b, j, parts, equalRows))
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	whole := build(1, false)
	ways := []struct {
		on    *weft.Runtime
		g     *graph.Graph
		least time.Duration
	}{{halves, whole, 0}, {all, whole, 0}, {halves, build(2, false), 0}, {halves, build(2, true), 0}}
	for b.Loop() {
		for i := range ways {
			w := &ways[i]
			rep, err := w.on.Run(b.Context(), w.g, j.Bind()...)
			if err != nil {
				b.Fatal(err)
			}
			if took := rep.Elapsed(); w.least == 0 || took < w.least {
				w.least = took
			}
		}
	}
	one, both := ways[0].least.Seconds(), ways[1].least.Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(50*one/both, "%both-as-one")
	for i, name := range []string{"edges", "rows"} {
		took := ways[2+i].least.Seconds()
		b.ReportMetric(50*one/took, "%"+name)
		b.ReportMetric(100*both/took, "%"+name+"-of-both")
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
