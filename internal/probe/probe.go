package probe

import (
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"

	"github.com/weft-run/weft/graph"
)

// Kind is the quantity that a probe measures.
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
	// Ops is the number of operations of one item of the grid, Bytes its memory traffic: both
	// follow from the kernel.
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

// List returns every probe, in the order they are run. own is what a device brings for its dialect
// (driver.Traits.Probes).
func List(own map[string]graph.Impl) []Probe {
	compute := func(u graph.Unit) Probe {
		return Probe{Kind: Compute, Kernel: kernel(u.String(), own), Unit: u, Ops: ItemOps}
	}
	return []Probe{
		{Kind: Empty, Kernel: kernel("empty", own)},
		compute(graph.FP32),
		compute(graph.FP64),
		compute(graph.Int32),
		{Kind: Stream, Kernel: kernel("stream", own), Bytes: 2 * ItemBytes},
	}
}

//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../backend/cuda/testdata/generate.sh
//go:embed probe.ptx
var ptx []byte

//go:generate ../../workload/spirv.sh probe.comp
//go:embed *.spv
var spirv embed.FS

func kernel(name string, own map[string]graph.Impl) *graph.Kernel {
	const threads, group = 256, 128
	shader, err := spirv.ReadFile("probe_" + name + ".spv")
	if err != nil {
		panic(err) // the file is part of the program
	}
	k := &graph.Kernel{Name: "weft.probe." + name, Impls: []graph.Impl{
		{Dialect: graph.Go, Entry: "weft.probe." + name},
		{Dialect: graph.PTX, Arch: "sm_75", Entry: "probe_" + name, Source: ptx, Per: [3]uint32{threads}, Block: [3]uint32{threads}},
		{Dialect: graph.SPIRV, Entry: "main", Source: shader, Per: [3]uint32{group}, Block: [3]uint32{group}},
	}}
	if impl, ok := own[k.Name]; ok {
		k.Impls = append(k.Impls, impl)
	}
	return k
}

// Crash is a kernel that writes to an illegal address, to see how a GPU comes back
// from that. Its argument is any buffer. Only GPUs of NVIDIA have it: others read
// and write nothing there, and go on.
func Crash() *graph.Kernel {
	return &graph.Kernel{Name: "weft.probe.crash", Impls: []graph.Impl{
		{Dialect: graph.PTX, Arch: "sm_75", Entry: "probe_crash", Source: ptx, Block: [3]uint32{1}},
	}}
}

// A check sees whether a device computes: its kernel takes Bytes that Fill made, from In, and
// writes what it made of them to Out. It finds a device that does not answer, fails, loses bytes or is wrong in
// arithmetic, of integers and of float32, in any item.
const (
	checkItems = 256
	// Bytes is the size of the input of a check, and of its output: little, so that it takes microseconds.
	Bytes = checkItems * ItemBytes
	// CheckRounds is the number of rounds of arithmetic of each item.
	CheckRounds = 8
	// In and Out are its data.
	In, Out graph.DataID = 0, 1
)

// Graph returns the graph of a check, one task, on the device with a name; own is as for List.
func Graph(device string, own map[string]graph.Impl) (*graph.Graph, error) {
	check := Probe{Kind: Stream, Kernel: kernel("check", own)}
	var b graph.Builder
	in := b.Data(graph.Data{Name: "weft.probe.in", Bytes: Bytes, Input: true})
	out := b.Data(graph.Data{Name: "weft.probe.out", Bytes: Bytes, Output: true})
	b.Add(graph.Task{
		Name: "weft.probe", Steps: []graph.Step{check.Step(checkItems)}, Work: graph.Work{Bytes: 2 * Bytes},
		Uses: []graph.Use{{Data: in, Access: graph.Read}, {Data: out, Access: graph.Write}},
		On:   graph.Constraint{Only: []string{device}},
	})
	return b.Build()
}

// Fill writes the input of a check: pseudorandom bytes of a seed.
func Fill(in []byte, seed uint64) {
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := 0; i+8 <= len(in); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.NativeEndian.PutUint64(in[i:], x)
	}
}

// Check errs unless the output of a check is what its input makes. An item is four words of 32
// bits, which each round changes by additions, products and rotations of integers, and by
//
//	x·y + z  and  (x - y)·z
//
// in float32, for three numbers of 12 bits taken from the words. These are below 2²⁴, so that
// every device has them exactly, with or without a fused multiply and add. Here they are
// computed in integers.
func Check(in, out []byte) error {
	wrong := 0
	for i := 0; i < len(in); i += ItemBytes {
		a, b, c, d := word(in, i), word(in, i+4), word(in, i+8), word(in, i+12)
		for range CheckRounds {
			a += bits.RotateLeft32(b, 7) ^ c
			d ^= a * 0x9e3779b1
			x, y, z := a>>20, d>>20, b>>20
			a, b, c, d = b^(x*y+z)*0x85ebca6b, bits.RotateLeft32(c, 11)+(x-y)*z, d, a
		}
		for k, want := range [...]uint32{a, b, c, d} {
			for diff := word(out, i+4*k) ^ want; diff != 0; diff >>= 8 {
				if diff&0xff != 0 {
					wrong++
				}
			}
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d bytes are wrong", wrong, len(in))
	}
	return nil
}

// word reads 32 bits as devices do, all of which are little-endian as the machine is.
func word(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }

// Hash changes whenever a kernel or its work does: figures made by other
// kernels do not compare.
func Hash() string {
	h := sha256.New()
	for _, p := range List(nil) {
		fmt.Fprintf(h, "%d %s %d %v %v\n", p.Kind, p.Kernel.Name, p.Unit, p.Ops, p.Bytes)
		for _, i := range p.Kernel.Impls {
			fmt.Fprintf(h, "%s %s %s %v %v %d %x\n", i.Dialect, i.Arch, i.Entry, i.Per, i.Block, i.SharedBytes, sha256.Sum256(i.Source))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
