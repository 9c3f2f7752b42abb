package live

import (
	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/internal/fold"
)

// Funcs are the Go kernels of collective operations, for weft.Options.Funcs.
func Funcs() map[string]weft.Func {
	out := map[string]weft.Func{collective.TokenName: weft.WithParams(token)}
	for _, size := range []int{2, 4, 8} {
		out[collective.CopyName(int64(size))] = folds(collective.Sum, size, 0)
	}
	for o := range collective.Fold(collective.NumFolds) {
		for t := range collective.Type(collective.NumTypes) {
			f := folds(o, int(t.Size()), t)
			out[collective.PairName(o, t)] = f
			out[collective.ManyName(o, t)] = f
		}
	}
	return out
}

// folds is the kernel that folds arrays, a copy where it is one array.
func folds(o collective.Fold, size int, t collective.Type) weft.Func {
	return weft.WithParams(func(c *weft.Call, p collective.Params, lo, hi int) {
		from, to := lo*collective.ItemElements*size, min(hi*collective.ItemElements, p.N)*size
		var few [16][]byte // most operations have no more arrays than this
		arrays := few[:0]
		for _, a := range c.Args {
			arrays = append(arrays, a[from:to])
		}
		fold.Into(o, t, arrays[p.Ins:], arrays[:p.Ins], p.Divisor, p.Stream != 0)
	})
}

// token writes what a barrier waits for.
func token(c *weft.Call, _ collective.Params, _, _ int) { clear(c.Args[0]) }
