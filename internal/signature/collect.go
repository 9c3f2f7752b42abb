package signature

import (
	"cmp"
	"slices"
	"sync"

	"github.com/weft-run/weft/experimental/driver"
)

// known has the signature of every kernel of the program. Packages add theirs as they are
// initialized.
var known struct {
	sync.Mutex
	kernels []Kernel
}

func add(k Kernel) {
	known.Lock()
	defer known.Unlock()
	known.kernels = append(known.kernels, k)
}

// All returns the signatures of the program's kernels by name.
func All() []Kernel {
	known.Lock()
	defer known.Unlock()
	return slices.SortedFunc(slices.Values(known.kernels), func(a, b Kernel) int { return cmp.Compare(a.Name, b.Name) })
}

// Funcs returns the functions of kernels by their names.
func Funcs(kernels []Kernel) map[string]driver.Func {
	out := make(map[string]driver.Func, len(kernels))
	for i := range kernels {
		out[kernels[i].Name] = kernels[i].Func
	}
	return out
}
