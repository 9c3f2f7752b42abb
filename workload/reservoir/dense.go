package reservoir

import (
	"strconv"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
)

// NVIDIA GPUs from Hopper on compute with the weights as they are with their zeros. Where all
// of them fit into the registers and the shared memory of 16 multiprocessors, a cluster
// of as many blocks takes some patterns through all steps in one launch; otherwise there is a
// launch for each step. Devices that were asked for exact results do without: sums are
// taken in another order than on other devices.

// wholeSize and wholeInputs are the neurons and channels whose weights a cluster has room
// for; tileFrom is from how many patterns on clusters would be slower than tensor cores.
const (
	wholeSize   = 1024
	wholeInputs = 128
	tileFrom    = 256
	clusters    = 7 // that an H100 or H200 runs at once
	// clusterBlocks is the number of blocks of a cluster.
	clusterBlocks = 16
)

// whole is a kernel that takes a number of patterns through all steps. Of a neuron's groups of
// 32 weights it has some in registers, the others in shared memory.
type whole struct {
	patterns, held int
	kernel         *graph.Kernel
}

// wholes are in ascending order of patterns. More patterns at a time take longer, but less
// than as many more times.
var wholes = []whole{newWhole(1, 24), newWhole(2, 22), newWhole(4, 20), newWhole(8, 13), newWhole(10, 12)}

const wholeThreads = 256

func newWhole(patterns, held int) whole {
	return whole{patterns, held, hopper("whole_"+strconv.Itoa(patterns), 0, wholeThreads, 1)}
}

// The kernels of a step, and the tiles they cut its neurons and patterns into.
var (
	lineKernel  = hopper("line", 0, 256, 16)
	stripKernel = hopper("strip", tileBytes(32, 64, 64, 3), 256, 32, 64)
	tileKernel  = hopper("tile", tileBytes(64, 64, 32, 4), 256, 64, 64)
	// sparseKernel is stepOnDevices for devices that have no kernels of weights with zeros.
	sparseKernel = &graph.Kernel{Name: "reservoir.sparse", Impls: []graph.Impl{stepOnDevices.Impls[0], {Dialect: graph.PTX}, stepOnDevices.Impls[2]}}
)

func hopper(entry string, shared int, threads uint32, per ...uint32) *graph.Kernel {
	i := workload.PTX(densePTX, "reservoir_"+entry, threads, per...)
	i.Arch, i.SharedBytes = workload.Hopper, shared
	return workload.Only("reservoir."+entry, i)
}

// tileBytes is the shared memory of a tile: some stages of a number of weights of its neurons
// and as many states of its patterns, with space between rows.
func tileBytes(neurons, patterns, deep, stages int) int {
	return 4 * stages * (neurons*(deep+4) + deep*(patterns+8))
}

// launch is the launch of the kernel for a batch.
func (w *whole) launch(c *call) graph.Launch {
	const blocks, rows = clusterBlocks, wholeSize / clusterBlocks
	driven := (c.inputs + 31) / 32
	return graph.Launch{
		Grid:    [3]uint32{uint32(blocks * ((c.batch + w.patterns - 1) / w.patterns)), 1, 1},
		Block:   [3]uint32{wholeThreads, 1, 1},
		Cluster: [3]uint32{blocks, 1, 1},
		// A barrier, weights, states, and the inputs of two steps.
		SharedBytes: 16 + (wholeSize/32+driven-w.held)*32*4*rows + (wholeSize+2*32*driven)*4*w.patterns,
	}
}

// fits reports whether a cluster has room for the weights, and takes whether clusters take a
// batch through all steps.
func (p Params) fits() bool           { return p.Size <= wholeSize && p.Inputs <= wholeInputs }
func (p Params) takes(batch int) bool { return p.fits() && batch < tileFrom }

// wholeOf is the kernel that takes a batch through all steps: the one with the fewest patterns
// of those with which clusters run all at once.
func (p Params) wholeOf(batch int) *whole {
	most := len(wholes) - 1
	if p.Inputs > 64 {
		most-- // ten patterns would leave no room for the weights
	}
	for i := range most {
		if batch <= clusters*wholes[i].patterns {
			return &wholes[i]
		}
	}
	return &wholes[most]
}

// dense reports whether the GPUs of a machine should be given the weights with their zeros:
// all must be able to run the kernels, and the weights must fit into a cluster or have few
// zeros.
func (w *Weights) dense(m *machine.Machine) bool {
	if w.First != 0 || len(w.Bias) != w.Size {
		return false
	}
	if entries := float64(len(w.Recurrent.Value) + len(w.Input.Value)); !w.fits() && 2*entries < float64(w.Size)*float64(w.Size+w.Inputs) {
		return false
	}
	some := false
	for i := range m.Devices {
		d := &m.Devices[i]
		if !d.Runs(graph.PTX) {
			continue
		}
		if d.Cluster < clusterBlocks || d.Exact {
			return false
		}
		some = true
	}
	return some
}

// denseDepth returns the length of a row of dense weights, and driven, the index of its first
// channel.
func (p Params) denseDepth() (depth, driven int) {
	driven = (p.Size + 63) / 64 * 64
	return driven + (p.Inputs+31)/32*32, driven
}

// denseBytes is the memory of dense weights.
func (p Params) denseBytes() int64 {
	depth, _ := p.denseDepth()
	return int64(4 * p.Size * depth)
}

// spreadOut returns the weights with their zeros, row by row.
func (w *Weights) spreadOut() []float32 {
	depth, driven := w.denseDepth()
	out := make([]float32, w.Size*depth)
	for i := range w.Size {
		row := out[i*depth : (i+1)*depth]
		for k, m := range []*Matrix{&w.Recurrent, &w.Input} {
			for e := m.Start[i]; e < m.Start[i+1]; e++ {
				row[k*driven+int(m.Column[e])] += m.Value[e]
			}
		}
	}
	return out
}

// denseName is the name of the data with dense weights, and useDense its index among the uses
// of a task, after the uses of stepOnDevices.
const (
	denseName = "weights with zeros"
	useDense  = 11
	useSpace  = useDense + 1 // the workspace
)

// denseUse adds dense weights to a graph and returns the use of them.
func (w *Weights) denseUse(b *graph.Builder) graph.Use {
	return graph.Use{Data: b.Data(graph.Data{Name: denseName, Bytes: w.denseBytes(), Input: true}), Access: graph.Read}
}

// denseSteps are the steps of a task for devices with dense weights, then those for others.
func (p Params) denseSteps(c call) (steps []graph.Step) {
	args := []int{useDense, 6, 7, 8, 9, 10}
	if p.takes(c.batch) {
		w := p.wholeOf(c.batch)
		steps = append(steps, graph.Step{Kernel: w.kernel, Launch: w.launch(&c), Args: args}.With(c))
	} else {
		kernel := tileKernel
		const busy = 256 // tiles that keep all multiprocessors busy
		switch {
		case c.batch == 1:
			kernel = lineKernel
		case (c.size+63)/64*((c.batch+63)/64) < busy:
			kernel = stripKernel
		}
		for c.step = range c.steps {
			steps = append(steps, graph.Step{Kernel: kernel, Launch: graph.Grid(int64(c.size), int64(c.batch)), Args: append(args, useSpace)}.With(c))
		}
	}
	for c.step = range c.steps {
		steps = append(steps, graph.Step{Kernel: sparseKernel, Launch: graph.Grid(int64(c.size), int64(c.batch)), Args: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, useSpace}}.With(c))
	}
	return steps
}
