package workloadtest

import (
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// halves adds numbers in pairs, beside one number that all read.
type halves struct {
	workload.Job
	in, out   int64
	work, ops float64
}

func (h halves) Items() sched.Items {
	return sched.Items{Extent: 100, Align: 4, Bytes: func(lo, hi int64) (in, out int64) { return h.in * (hi - lo), h.out * (hi - lo) }}
}

func (h halves) task(r sched.Range) graph.Task {
	n := float64(r.Len())
	return graph.Task{Name: "pairs", Steps: []graph.Step{{Kernel: graph.GoKernel("pairs", 1), Launch: graph.Grid(r.Len())}}, Work: graph.Work{Ops: n + h.ops, Bytes: h.work * n}}
}

func (h halves) Whole() graph.Task { return h.task(sched.Range{Hi: 100}) }

func (h halves) Graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	one := b.Data(graph.Data{Name: "one", Bytes: 8, Input: true})
	pairs := b.Data(graph.Data{Name: "pairs", Bytes: 1600, Input: true})
	sums := b.Data(graph.Data{Name: "sums", Bytes: 800, Output: true})
	for _, r := range ranges {
		t := h.task(r)
		t.Uses = []graph.Use{
			{Data: one, Access: graph.Read},
			{Data: pairs, Offset: 16 * r.Lo, Bytes: 16 * r.Len(), Access: graph.Read},
			{Data: sums, Offset: 8 * r.Lo, Bytes: 8 * r.Len(), Access: graph.Write},
		}
		b.Add(t)
	}
	return b.Build()
}

func TestDeclares(t *testing.T) {
	for want, h := range map[string]halves{
		"":                     {in: 16, out: 8, work: 16, ops: 10},
		"is said to read 576":  {in: 24, out: 8, work: 16},
		"is said to read 192":  {in: 8, out: 8, work: 16},
		"is said to write 384": {in: 16, out: 16, work: 16},
		"is said to write 0":   {in: 16, work: 16},
		"moves 192 bytes":      {in: 16, out: 8, work: 8},
		"as one 150":           {in: 16, out: 8, work: 16, ops: 50},
		"as one 90":            {in: 16, out: 8, work: 16, ops: -10},
	} {
		ranges := uneven(h.Items())
		if len(ranges) != 3 || ranges[1] != (sched.Range{Lo: 24, Hi: 48}) {
			t.Fatalf("ranges are %v", ranges)
		}
		g, err := h.Graph(ranges)
		if err != nil {
			t.Fatal(err)
		}
		err = declared(h, ranges, g)
		if want == "" {
			if err != nil {
				t.Errorf("%+v: %v", h, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", h, err, want)
		}
	}
}
