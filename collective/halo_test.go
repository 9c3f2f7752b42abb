package collective_test

import (
	"errors"
	"testing"

	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
)

// Rows of one number each: in a step a number becomes the sum of itself and what
// is on either side. A block that steps so often in a row needs as deep a halo.
func TestHalo(t *testing.T) {
	const rows = 23
	start := make([]uint64, rows)
	for i := range start {
		start[i] = uint64(i*i + 1)
	}
	k := &graph.Kernel{Name: "sum", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	for _, torus := range []bool{true, false} {
		h := collective.Halo{Rows: rows, RowBytes: 8, Torus: torus}
		for _, depths := range [][]int64{{1}, {2, 2}, {3, 3, 1}, {1, 1, 1, 1, 1}} {
			var b graph.Builder
			in := b.Data(graph.Data{Name: "in", Bytes: 8 * rows, Input: true})
			out := b.Data(graph.Data{Name: "out", Bytes: 8 * rows, Output: true})
			between := b.Data(graph.Data{Name: "between", Bytes: 8 * rows})
			blocks := []collective.Block{{Lo: 0, Hi: 5}, {Lo: 5, Hi: 16}, {Lo: 16, Hi: rows}}
			var depthOf []int64
			err := h.Rounds(&b, in, out, between, blocks, depths, func(_ collective.Block, depth int64) graph.Task {
				depthOf = append(depthOf, depth)
				return graph.Task{Steps: []graph.Step{{Kernel: k}}}
			})
			if err != nil {
				t.Fatal(err)
			}
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			// Do what a kernel would with what it is given.
			data := [][]uint64{start, make([]uint64, rows), make([]uint64, rows)}
			for id := range g.NumTasks() {
				uses := g.Task(graph.TaskID(id)).Uses
				var window []uint64
				for _, u := range uses[:len(uses)-1] {
					window = append(window, data[u.Data][u.Offset/8:(u.Offset+u.Bytes)/8]...)
				}
				w := uses[len(uses)-1]
				lo, hi := w.Offset/8, (w.Offset+w.Bytes)/8
				first := depthOf[id] // where the block begins in its window
				if !torus {
					first = min(lo, first)
				}
				edge := func(i int) uint64 { // past the window there is nothing
					if i < 0 || i >= len(window) {
						return 0
					}
					return window[i]
				}
				for range depthOf[id] {
					next := make([]uint64, len(window))
					for i := range next {
						next[i] = edge(i-1) + edge(i) + edge(i+1)
					}
					window = next
				}
				copy(data[w.Data][lo:hi], window[first:])
			}
			// And what the whole grid becomes.
			want := append([]uint64(nil), start...)
			for _, d := range depths {
				for range d {
					next := make([]uint64, rows)
					for i := range next {
						for _, j := range []int{i - 1, i, i + 1} {
							if torus {
								next[i] += want[(j+rows)%rows]
							} else if j >= 0 && j < rows {
								next[i] += want[j]
							}
						}
					}
					want = next
				}
			}
			for i := range want {
				if data[out][i] != want[i] {
					t.Fatalf("torus %v, depths %v: row %d is %d, want %d", torus, depths, i, data[out][i], want[i])
				}
			}
		}
	}
}

func TestHaloMistakes(t *testing.T) {
	h := collective.Halo{Rows: 10, RowBytes: 8, Torus: true}
	for _, c := range []struct {
		b     collective.Block
		depth int64
	}{{collective.Block{Lo: 0, Hi: 11}, 1}, {collective.Block{Lo: 4, Hi: 4}, 1}, {collective.Block{Lo: 0, Hi: 10}, 11}, {collective.Block{Lo: 2, Hi: 5}, 3}, {collective.Block{Lo: 5, Hi: 8}, 3}} {
		var b graph.Builder
		if err := h.Rounds(&b, 0, 0, 0, []collective.Block{c.b}, []int64{c.depth}, nil); !errors.Is(err, collective.ErrSpec) {
			t.Errorf("%v with %d rows around gives %v", c.b, c.depth, err)
		}
	}
}

// More rounds than a graph has tasks for are refused before one is added.
func TestHaloRounds(t *testing.T) {
	h := collective.Halo{Rows: 10, RowBytes: 8}
	blocks := []collective.Block{{Lo: 0, Hi: 5}, {Lo: 5, Hi: 10}}
	err := h.Rounds(nil, 0, 0, 0, blocks, make([]int64, graph.MaxTasks/2+1), nil)
	if !errors.Is(err, graph.ErrSize) {
		t.Error(err)
	}
}
