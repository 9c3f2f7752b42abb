package collective

import (
	"fmt"

	"github.com/weft-run/weft/graph"
)

// The kernels take the arrays they read, then the arrays they write; one grid item is
// one element. funcs.go has their Go implementations.

// params are the parameters of all kernels.
type params struct {
	N       int // elements
	Ins     int // arrays to read
	Divisor int // of the result
	Stream  int // 1 to write past the caches, which is for CPUs
}

// pairKernels fold two arrays into one.
var pairKernels = func() (out [numFolds][numTypes]*graph.Kernel) {
	for o := range out {
		for t := range out[o] {
			// An average is a sum with a divisor, which PTX has as a kernel of its own.
			op := Fold(o)
			shader := op
			if op == Average {
				shader = Sum
			}
			out[o][t] = kernel(pairName(op, Type(t)), fmt.Sprintf("fold_%v_%v", op, Type(t)), fmt.Sprintf("fold_%v_%v", shader, Type(t)))
		}
	}
	return out
}()

// manyKernels fold any number of arrays into any number of equal ones.
var manyKernels = func() (out [numFolds][numTypes]*graph.Kernel) {
	for o := range out {
		for t := range out[o] {
			out[o][t] = kernel(manyName(Fold(o), Type(t)), "", "")
		}
	}
	return out
}()

// copyKernels copy an array, by the size of its elements.
var copyKernels = map[int64]*graph.Kernel{
	2: kernel(copyName(2), "copy_2", "copy_2"), 4: kernel(copyName(4), "copy_4", "copy_4"), 8: kernel(copyName(8), "copy_8", "copy_8"),
}

// tokenKernel writes zeros.
var tokenKernel = kernel(tokenName, "token", "token")

// itemElements is the number of elements in one item of a Go function's range: enough
// to pay for handing it to a core, few enough for all cores to get some.
const itemElements = 1 << 14

// Threads of a block of the kernels for GPUs, PTX and SPIR-V, and elements a block
// covers.
const (
	blockThreads  = 256
	groupThreads  = 64
	blockElements = 1024
)

// kernel has a Go function under its name and, where an entry of the PTX and a
// shader are given, those.
func kernel(name, entry, shader string) *graph.Kernel {
	k := &graph.Kernel{Name: name, Impls: []graph.Impl{{Dialect: graph.Go, Entry: name, Per: [3]uint32{itemElements}}}}
	if entry != "" {
		k.Impls = append(k.Impls, graph.Impl{
			Dialect: graph.PTX, Arch: "sm_75", Entry: entry, Source: ptx,
			Per: [3]uint32{blockElements}, Block: [3]uint32{blockThreads},
		})
	}
	if shader != "" {
		source, err := spirv.ReadFile("shader/" + shader + ".spv")
		if err != nil {
			panic(err) // the file is part of the program
		}
		k.Impls = append(k.Impls, graph.Impl{
			Dialect: graph.SPIRV, Entry: "main", Source: source,
			Per: [3]uint32{blockElements}, Block: [3]uint32{groupThreads},
		})
	}
	return k
}

// tokenName is the kernel that makes a token of a barrier.
const tokenName = "collective.token"

// pairName is the kernel that folds two arrays into one.
func pairName(o Fold, t Type) string { return fmt.Sprintf("collective.%v.%v", o, t) }

// manyName is the kernel that folds any number of arrays into any number of
// equal ones.
func manyName(o Fold, t Type) string { return fmt.Sprintf("collective.many.%v.%v", o, t) }

// copyName is the kernel that copies elements of a size.
func copyName(bytes int64) string { return fmt.Sprintf("collective.copy.%d", bytes) }
