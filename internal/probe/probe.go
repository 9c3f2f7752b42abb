// Package probe lists the kernels that measure a device: what each computes and
// how much work one item of it is. The list is data, so that a backend joins by
// adding its implementation to a kernel; who runs the kernels and what becomes
// of the times is internal/exec's business.
package probe

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"

	"github.com/weft-run/weft/graph"
)

// Kind is what a probe measures.
type Kind uint8

const (
	// Empty does nothing: what is left is the cost of starting a kernel. It
	// has the arguments of a compute probe.
	Empty Kind = iota
	// Compute does arithmetic on registers. Its argument is a buffer with
	// ItemBytes for each item, into which the item writes its result, so that
	// nothing can be left out.
	Compute
	// Stream copies its first argument to its second, ItemBytes for each item.
	Stream
)

// Probe is one kernel that measures.
type Probe struct {
	Kind   Kind
	Kernel *graph.Kernel
	Unit   graph.Unit
	// Ops is how much arithmetic one item of the grid is, Bytes how much
	// memory traffic: both are part of the kernel.
	Ops, Bytes float64
}

// Params are the parameters of the probes, but for Empty, which has none.
type Params struct {
	N int // items
}

// Step runs a probe on some items.
func (p *Probe) Step(items int64) graph.Step {
	s := graph.Step{Kernel: p.Kernel, Launch: graph.Launch{Grid: [3]uint32{uint32(items), 1, 1}}}
	if p.Kind == Empty {
		return s
	}
	return s.With(Params{int(items)})
}

const (
	// ItemOps is the arithmetic of one item of a compute probe.
	ItemOps = 1 << 16
	// ItemBytes is the part of a buffer that belongs to one item.
	ItemBytes = 16
)

// List returns every probe, in the order they are run.
func List() []Probe {
	compute := func(u graph.Unit) Probe {
		return Probe{Kind: Compute, Kernel: kernel(u.String()), Unit: u, Ops: ItemOps}
	}
	return []Probe{
		{Kind: Empty, Kernel: kernel("empty")},
		compute(graph.FP32),
		compute(graph.FP64),
		compute(graph.Int32),
		{Kind: Stream, Kernel: kernel("stream"), Bytes: 2 * ItemBytes},
	}
}

//go:generate go run github.com/weft-run/weft/cmd/weftparams .
//go:generate ../backend/cuda/testdata/generate.sh
//go:embed probe.ptx
var ptx []byte

//go:generate ../../workload/spirv.sh probe.comp
//go:embed *.spv
var spirv embed.FS

func kernel(name string) *graph.Kernel {
	const threads, group = 256, 128
	shader, err := spirv.ReadFile("probe_" + name + ".spv")
	if err != nil {
		panic(err) // the file is part of the program
	}
	return &graph.Kernel{Name: "weft.probe." + name, Impls: []graph.Impl{
		{Dialect: graph.Go, Entry: "weft.probe." + name},
		{Dialect: graph.PTX, Arch: "sm_75", Entry: "probe_" + name, Source: ptx, Per: [3]uint32{threads}, Block: [3]uint32{threads}},
		{Dialect: graph.SPIRV, Entry: "main", Source: shader, Per: [3]uint32{group}, Block: [3]uint32{group}},
	}}
}

// Crash is a kernel that writes to an illegal address, to see how a GPU comes back
// from that. Its argument is any buffer. Only GPUs of NVIDIA have it: others read
// and write nothing there, and go on.
func Crash() *graph.Kernel {
	return &graph.Kernel{Name: "weft.probe.crash", Impls: []graph.Impl{
		{Dialect: graph.PTX, Arch: "sm_75", Entry: "probe_crash", Source: ptx, Block: [3]uint32{1}},
	}}
}

// Hash changes whenever a kernel or its work does: figures made by other
// kernels do not compare.
func Hash() string {
	h := sha256.New()
	for _, p := range List() {
		fmt.Fprintf(h, "%d %s %d %v %v\n", p.Kind, p.Kernel.Name, p.Unit, p.Ops, p.Bytes)
		for _, i := range p.Kernel.Impls {
			fmt.Fprintf(h, "%s %s %s %v %v %d %x\n", i.Dialect, i.Arch, i.Entry, i.Per, i.Block, i.SharedBytes, sha256.Sum256(i.Source))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
