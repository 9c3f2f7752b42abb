package workload

import (
	"embed"
	"sync"

	"github.com/weft-run/weft/graph"
)

// Architectures that PTX is for: the oldest that weft supports, and the oldest with clusters.
const (
	turing = "sm_75"
	Hopper = "sm_90"
)

// PTX returns an implementation for NVIDIA GPUs: an entry of a PTX source, with the
// threads of a block. Each thread covers per items of a step's grid in each dimension, one
// in those that per does not give.
func PTX(source []byte, entry string, threads uint32, per ...uint32) graph.Impl {
	i := graph.Impl{Dialect: graph.PTX, Arch: turing, Entry: entry, Source: source, Block: [3]uint32{threads}}
	copy(i.Per[:], per)
	return i
}

// Library is an implementation by a vendor's routine, which takes a step's parameters
// as they are. Devices that were asked for exact results do without it.
func Library(routine string) graph.Impl {
	return graph.Impl{Dialect: graph.Library, Entry: routine}
}

// SPIRV returns an implementation for Vulkan: the shader in a file, with the invocations
// of a group. Each invocation covers per items of a step's grid in each dimension, one in
// those that per does not give.
func SPIRV(files embed.FS, name string, invocations uint32, per ...uint32) graph.Impl {
	source, err := files.ReadFile(name + ".spv")
	if err != nil {
		panic(err) // the file is part of the program
	}
	i := graph.Impl{Dialect: graph.SPIRV, Entry: "main", Source: source, Block: [3]uint32{invocations}}
	copy(i.Per[:], per)
	return i
}

// Only is a kernel with an implementation for one kind of device, for what other devices
// do whole in another step: they have nothing to do.
func Only(name string, impl graph.Impl) *graph.Kernel {
	k := &graph.Kernel{Name: name}
	for _, d := range []graph.Dialect{graph.Go, graph.PTX, graph.SPIRV} {
		if d == impl.Dialect {
			k.Impls = append(k.Impls, impl)
		} else {
			k.Impls = append(k.Impls, graph.Impl{Dialect: d})
		}
	}
	return k
}

// With adds implementations to a kernel and returns it.
func With(k *graph.Kernel, impls ...graph.Impl) *graph.Kernel {
	k.Impls = append(k.Impls, impls...)
	return k
}

// Scratch lends memory to calls of a kernel that run at the same time, and
// keeps it for later calls. The zero value is ready for use.
type Scratch[T any] struct{ pool sync.Pool }

// Get returns memory for n elements or more, with any contents. It goes back by
// Put.
func (s *Scratch[T]) Get(n int) *[]T {
	p, ok := s.pool.Get().(*[]T)
	if !ok {
		p = new([]T)
	}
	if len(*p) < n {
		*p = make([]T, n)
	}
	return p
}

// Put takes memory back.
func (s *Scratch[T]) Put(p *[]T) { s.pool.Put(p) }
