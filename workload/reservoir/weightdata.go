package reservoir

import (
	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// weightNames are the names of the weights' arrays, in the order of arguments.
var weightNames = [7]string{
	"recurrent starts", "recurrent columns", "recurrent values", "input starts", "input columns", "input values", "bias",
}

// pad gives matrices without an entry one that is not used: data needs a size.
func (w *Weights) pad() {
	for _, m := range []*Matrix{&w.Recurrent, &w.Input} {
		if len(m.Column) == 0 {
			m.Column, m.Value = make([]int32, 1), make([]float32, 1)
		}
	}
}

// data adds the weights to a graph, by weightNames.
func (w *Weights) data(b *graph.Builder) (ids [7]graph.DataID) {
	r, in := &w.Recurrent, &w.Input
	for i, n := range [7]int{len(r.Start), len(r.Column), len(r.Value), len(in.Start), len(in.Column), len(in.Value), len(w.Bias)} {
		ids[i] = b.Data(graph.Data{Name: weightNames[i], Bytes: int64(4 * n), Input: true})
	}
	return ids
}

// uses are the uses of some neurons' weights: of both matrices where their
// rows start, the columns and the values, then the bias.
func (w *Weights) uses(ids [7]graph.DataID, lo, hi int) []graph.Use {
	part := func(d graph.DataID, lo, hi int32, most int) graph.Use {
		if lo == hi { // no entry, and a use has at least one
			lo = min(lo, int32(most)-1)
			hi = lo + 1
		}
		return graph.Use{Data: d, Offset: int64(4 * lo), Bytes: int64(4 * (hi - lo)), Access: graph.Read}
	}
	var uses []graph.Use
	for i, m := range []*Matrix{&w.Recurrent, &w.Input} {
		uses = append(uses, part(ids[3*i], int32(lo), int32(hi+1), len(m.Start)))
		for k := 1; k <= 2; k++ {
			uses = append(uses, part(ids[3*i+k], m.Start[lo], m.Start[hi], len(m.Column)))
		}
	}
	return append(uses, part(ids[6], int32(lo), int32(hi), len(w.Bias)))
}

// reside makes padded weights resident on a runtime. It returns how they are bound, and
// what releases those that are resident, even with an error.
func (w *Weights) reside(rt *weft.Runtime, dense bool) (bind []weft.Binding, release []func(), err error) {
	puts := []func() error{
		func() error { return resident(rt, weightNames[0], w.Recurrent.Start, &bind, &release) },
		func() error { return resident(rt, weightNames[1], w.Recurrent.Column, &bind, &release) },
		func() error { return resident(rt, weightNames[2], w.Recurrent.Value, &bind, &release) },
		func() error { return resident(rt, weightNames[3], w.Input.Start, &bind, &release) },
		func() error { return resident(rt, weightNames[4], w.Input.Column, &bind, &release) },
		func() error { return resident(rt, weightNames[5], w.Input.Value, &bind, &release) },
		func() error { return resident(rt, weightNames[6], w.Bias, &bind, &release) },
	}
	if dense {
		puts = append(puts, func() error { return resident(rt, denseName, w.spreadOut(), &bind, &release) })
	}
	for _, put := range puts {
		if err := put(); err != nil {
			return bind, release, err
		}
	}
	return bind, release, nil
}

// resident makes an array of the weights resident.
func resident[T any](rt *weft.Runtime, name string, xs []T, bind *[]weft.Binding, release *[]func()) error {
	d, err := weft.Put(rt, name, xs)
	if err != nil {
		return err
	}
	*bind, *release = append(*bind, d.As(name)), append(*release, d.Release)
	return nil
}
