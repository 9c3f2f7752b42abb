package collective

import (
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
)

// Funcs are the Go kernels of collective operations, for weft.Options.Funcs.
func Funcs() map[string]weft.Func {
	return signature.Funcs(kernels)
}

var kernels = func() []signature.Kernel {
	out := []signature.Kernel{signature.Of(signature.Kernel{
		Name: tokenName, Does: "what a barrier waits for", Grid: "1", Args: []signature.Arg{signature.Out("token", graph.U1)},
	}, func(*weft.Call, params) (signature.Need, error) { return signature.Need{Items: 1}, nil }, token)}
	for size, elem := range map[int]graph.Elem{2: graph.U2, 4: graph.U4, 8: graph.U8} {
		out = append(out, folds(copyName(int64(size)), fmt.Sprintf("copies of N elements of %d bytes", size), Sum, 0, elem))
	}
	for o := range Fold(numFolds) {
		for t := range Type(numTypes) {
			does := fmt.Sprintf("the %s of Ins arrays of N numbers, in all others", o)
			out = append(out, folds(pairName(o, t), does, o, t, elems[t]), folds(manyName(o, t), does, o, t, elems[t]))
		}
	}
	return out
}()

// elems are the element types as graphs name them. Graphs have none for bfloat16, which is
// as long as float16.
var elems = [numTypes]graph.Elem{
	F32: graph.F4, F64: graph.F8, F16: graph.F2, BF16: graph.F2,
	I32: graph.I4, I64: graph.I8,
}

// folds is the kernel that folds arrays, a copy where it is one array.
func folds(name, does string, o Fold, t Type, elem graph.Elem) signature.Kernel {
	size := int(elem.Size())
	return signature.Of(signature.Kernel{
		Name: name, Does: does, Grid: "N", Per: []uint32{itemElements},
		Args: []signature.Arg{{Name: "arrays", Elem: elem, Access: graph.Read, More: true}, {Name: "results", Elem: elem, Access: graph.Write, More: true}},
	}, func(c *weft.Call, p params) (n signature.Need, err error) {
		if err := signature.Positive([]string{"N", "Ins"}, p.N, p.Ins); err != nil {
			return n, err
		}
		if p.Ins >= len(c.Args) {
			return n, fmt.Errorf("%d arrays to read and at least one to write: given are %d", p.Ins, len(c.Args))
		}
		for i, a := range c.Args {
			if len(a)/size < p.N {
				return n, fmt.Errorf("%d elements of %s, and argument %d has %d", p.N, elem, i, len(a)/size)
			}
		}
		n.Items = signature.Parts(p.N, itemElements)
		return n, nil
	}, func(c *weft.Call, p params, lo, hi int) {
		from, to := lo*itemElements*size, min(hi*itemElements, p.N)*size
		var few [16][]byte // most operations have no more arrays than this
		arrays := few[:0]
		for _, a := range c.Args {
			arrays = append(arrays, a[from:to])
		}
		foldInto(o, t, arrays[p.Ins:], arrays[:p.Ins], p.Divisor, p.Stream != 0)
	})
}

// token writes what a barrier waits for.
func token(c *weft.Call, _ params, _, _ int) { clear(c.Args[0]) }
