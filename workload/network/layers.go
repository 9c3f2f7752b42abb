package network

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/panel"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

var (
	// gatherOnDevices adds up the features of neighbours for blocks of rows. Its arguments are the
	// bounds of the blocks, the starts of their rows, neighbours and the factors of these,
	// features of all nodes, and sums of the rows.
	gatherOnDevices = workload.With(graph.GoKernel("network.gather", 1),
		workload.PTX(ptx, "network_gather", 128), workload.SPIRV(spirv, "network_gather", 64))
	// transformOnDevices multiplies rows of features with weights and replaces negative results by
	// zero. Its arguments are rows, weights, and rows.
	transformOnDevices = workload.With(graph.GoKernel("network.transform", transformRows),
		workload.PTX(ptx, "network_transform", 128, 8), workload.SPIRV(spirv, "network_transform", 64, 8))
)

// transformRows is the number of rows of an item of transformOnDevices: for each the weights are
// packed again.
const transformRows = 240

// gatherParams are the parameters of gatherOnDevices.
type gatherParams struct {
	blocks int // of this task
	rows   int // of this task
	all    int // nodes
	width  int // features of a node
}

var gatherKernel = signature.Of(signature.Kernel{
	Name: gatherOnDevices.Name, Does: "sums of rows of a matrix that a sparse one names", Grid: "blocks", Per: []uint32{1},
	Args: []signature.Arg{
		signature.In("bounds", graph.U4), signature.In("starts", graph.U4), signature.In("columns", graph.U4), signature.In("factors", graph.F4),
		signature.In("features", graph.F4), signature.Out("sums", graph.F4),
	},
}, func(_ *weft.Call, p gatherParams) (n signature.Need, err error) {
	n.Items = int64(p.blocks)
	n.Elements = [12]int64{int64(p.blocks) + 1, int64(p.rows) + 1, 0, 0, signature.Product(p.all, p.width), signature.Product(p.rows, p.width)}
	return n, signature.Positive([]string{"blocks", "rows", "all", "width"}, p.blocks, p.rows, p.all, p.width)
}, func(c *weft.Call, p gatherParams, lo, hi int) {
	m := view(c, p.blocks, p.rows)
	factors, features, sums := weft.View[float32](c.Args[3]), weft.View[float32](c.Args[4])[:p.all*p.width], weft.View[float32](c.Args[5])
	for b := lo; b < hi && !c.Stopped(); b++ {
		from, end, ok := m.block(b)
		for row := from; row < end && ok; row++ {
			var columns []uint32
			var first int
			columns, first, ok = m.row(row)
			ok = ok && first+len(columns) <= len(factors) && addRows(sums[row*p.width:][:p.width], columns, factors[first:], features)
		}
		if !ok {
			c.Fail(fmt.Errorf("block %d has rows or neighbours outside of the graph", b))
			return
		}
	}
})

// addRows sets a row to the sum of the named rows of a matrix, each times its factor. It
// reports whether all of them exist.
func addRows(to []float32, rows []uint32, factors, matrix []float32) bool {
	clear(to)
	factors = factors[:len(rows)]
	width, all := len(to), uint(len(matrix)/len(to))
	for k, r := range rows {
		if uint(r) >= all {
			return false
		}
		add(to, matrix[int(r)*width:][:width], factors[k])
	}
	return true
}

// addScalar adds a row times a factor to another, one number after the other.
func addScalar(to, row []float32, by float32) {
	row = row[:len(to)]
	for i := range to {
		to[i] += float32(by * row[i])
	}
}

// transformParams are the parameters of transformOnDevices.
type transformParams struct {
	rows            int
	inputs, outputs int // features of a row before and after
}

// product is the inner loop of transformOnDevices.
var product = panel.SumProduct()[0]

var packing workload.Scratch[float32]

var transformKernel = signature.Of(signature.Kernel{
	Name: transformOnDevices.Name, Does: "the product of two matrices, with zeros for negative numbers", Grid: "rows", Per: []uint32{transformRows},
	Args: []signature.Arg{signature.In("rows", graph.F4), signature.In("weights", graph.F4), signature.Out("rows behind", graph.F4)},
}, func(_ *weft.Call, p transformParams) (n signature.Need, err error) {
	n.Items = signature.Parts(p.rows, transformRows)
	n.Elements = [12]int64{signature.Product(p.rows, p.inputs), signature.Product(p.inputs, p.outputs), signature.Product(p.rows, p.outputs)}
	return n, signature.Positive([]string{"rows", "inputs", "outputs"}, p.rows, p.inputs, p.outputs)
}, func(c *weft.Call, p transformParams, lo, hi int) {
	from, weights, to := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])[:p.inputs*p.outputs], weft.View[float32](c.Args[2])
	scratch := packing.Get(panel.Scratch)
	defer packing.Put(scratch)
	for item := lo; item < hi && !c.Stopped(); item++ {
		first := item * transformRows
		rows := min(transformRows, p.rows-first)
		product.Rows(to, from, weights, p.inputs, p.outputs, first, first+rows, *scratch)
		for i, v := range to[first*p.outputs : (first+rows)*p.outputs] {
			if v < 0 { // and not what is not a number
				to[first*p.outputs+i] = 0
			}
		}
	}
})

// layerJob is layers of graph convolution over one graph.
type layerJob struct {
	workload.Stop

	graph   *Graph // with edges both ways
	widths  []int  // features before the first layer and behind each
	matrix  workload.Sparse
	factors []float32 // of the matrix, and one more
	bounds  []uint32
	devices int
	seed    uint32

	features []float32   // before the first layer
	weights  [][]float32 // of each layer
	results  [][]float32 // behind each layer
	misses   []workload.Miss
}

func newLayersJob(c Config) (*layerJob, error) {
	g, err := c.graph()
	if err != nil {
		return nil, err
	}
	widths := make([]int, c.Layers+1)
	for i := range widths {
		widths[i] = c.Features
	}
	features := make([]float32, g.Rows()*c.Features)
	philox.Fill32(features, uint64(c.Seed), streamFeatures)
	weights := make([][]float32, c.Layers)
	for i := range weights {
		weights[i] = make([]float32, c.Features*c.Features)
		philox.Fill32(weights[i], uint64(c.Seed)|uint64(i)<<32, streamWeights)
		scale := float32(math.Sqrt(6 / float64(2*c.Features))) // Glorot's
		for k := range weights[i] {
			weights[i][k] *= scale
		}
	}
	return layersJob(g, widths, features, weights, c.Seed)
}

func layersJob(g *Graph, widths []int, features []float32, weights [][]float32, seed uint32) (*layerJob, error) {
	j := &layerJob{graph: g.Undirected(), widths: widths, features: features, weights: weights, devices: 1, seed: seed}
	if err := j.graph.weighable(); err != nil {
		return nil, err
	}
	j.normalize()
	j.bounds = blocks(j.matrix.Starts)
	for _, w := range widths[1:] {
		j.results = append(j.results, make([]float32, g.Rows()*w))
	}
	return j, nil
}

// normalize makes D^-½ (A+I) D^-½.
func (j *layerJob) normalize() {
	n := j.graph.Rows()
	j.matrix.Starts = make([]uint32, 1, n+1)
	j.matrix.Columns = make([]uint32, 0, len(j.graph.Columns)+n+1)
	j.factors = make([]float32, 0, len(j.graph.Columns)+n+1)
	roots := make([]float64, n)
	for i := range n {
		degree := 1.
		columns, values := j.graph.Row(i)
		for k := range columns {
			degree += weightOf(values, k)
		}
		roots[i] = math.Sqrt(degree)
	}
	for i := range n {
		columns, values := j.graph.Row(i)
		put := func(c uint32, w float64) {
			j.matrix.Columns, j.factors = append(j.matrix.Columns, c), append(j.factors, float32(w/(roots[i]*roots[c])))
		}
		at, own := slices.BinarySearch(columns, uint32(i))
		for k, c := range columns[:at] {
			put(c, weightOf(values, k))
		}
		if !own {
			put(uint32(i), 1)
		}
		for k := at; k < len(columns); k++ {
			w := weightOf(values, k)
			if own && k == at {
				w++
			}
			put(columns[k], w)
		}
		j.matrix.Starts = append(j.matrix.Starts, uint32(len(j.matrix.Columns)))
	}
	j.matrix.Columns, j.factors = append(j.matrix.Columns, 0), append(j.factors, 0)
}

// weightOf returns the weight of an edge of a row.
func weightOf(values []float64, k int) float64 {
	if values == nil {
		return 1
	}
	return values[k]
}

func (j *layerJob) spread() spread { return spread{j.bounds, j.matrix.Starts} }

// Name names the graph and the number of layers.
func (j *layerJob) Name() string {
	return fmt.Sprintf("network %s over %s, %s, %s", text.Count(len(j.weights), "layer"), j.graph.Name, j.graph.edges(), text.Count(j.widths[0], "feature"))
}

// Class is R: the features of a node are added in the order of its neighbours.
func (j *layerJob) Class() workload.Class { return workload.RowExact }

// work is the operations and bytes of a layer for some blocks.
func (j *layerJob) work(layer int, lo, hi int64) graph.Work {
	s := j.spread()
	rows, edges := float64(s.rows(lo, hi).Len()), float64(s.edges(lo, hi).Len())
	in, out := float64(j.widths[layer]), float64(j.widths[layer+1])
	return graph.Work{Ops: 2*edges*in + 2*rows*in*out, Bytes: edges*(8+4*in) + 4*rows*(2*in+out) + 4*in*out}
}

// Items are the blocks of rows. They have about as many edges each.
func (j *layerJob) Items() sched.Items {
	s := j.spread()
	return sched.Items{
		Extent: int64(len(j.bounds) - 1),
		Grain:  int64((len(j.bounds) + j.devices - 2) / j.devices), // each device gets one task per layer
		Cost: func(lo, hi int64) (all float64) {
			for l := range j.weights {
				all += cost(j.work(l, lo, hi))
			}
			return all
		},
		Bytes: func(lo, hi int64) (in, out int64) {
			if lo == hi {
				return 0, 0
			}
			in = 8 * s.edges(lo, hi).Len()
			for l := range j.weights {
				in += 4 * int64(j.graph.Rows()*j.widths[l]+len(j.weights[l]))
				out += 4 * s.rows(lo, hi).Len() * int64(j.widths[l+1])
			}
			return in, out
		},
	}
}

// Place remembers how many devices there are.
func (j *layerJob) Place(m *machine.Machine) error {
	on, err := workload.Able(m, gatherOnDevices, transformOnDevices)
	j.devices = len(on)
	return err
}

// Whole is all layers as one task.
func (j *layerJob) Whole() graph.Task {
	t := j.task(0, 0, int64(len(j.bounds)-1))
	for l := 1; l < len(j.weights); l++ {
		next := j.task(l, 0, int64(len(j.bounds)-1))
		t.Steps = append(t.Steps, next.Steps...)
		t.Work.Ops += next.Work.Ops
		t.Work.Bytes += next.Work.Bytes
	}
	return t
}

func (j *layerJob) task(layer int, lo, hi int64) graph.Task {
	rows := j.spread().rows(lo, hi)
	in, out := j.widths[layer], j.widths[layer+1]
	gather := graph.Step{Kernel: gatherOnDevices, Launch: graph.Grid(hi - lo), Args: []int{0, 1, 2, 3, 4, 5}}
	transform := graph.Step{Kernel: transformOnDevices, Launch: graph.Grid(rows.Len()), Args: []int{5, 6, 7}}
	return graph.Task{
		Name: fmt.Sprintf("layer %d of rows %d-%d", layer, rows.Lo, rows.Hi),
		Steps: []graph.Step{
			gather.With(gatherParams{blocks: int(hi - lo), rows: int(rows.Len()), all: j.graph.Rows(), width: in}),
			transform.With(transformParams{int(rows.Len()), in, out}),
		},
		Work: j.work(layer, lo, hi),
	}
}

// Graph has a task for each layer and range of blocks. A task reads the features of all nodes,
// which the tasks of the layer before wrote.
func (j *layerJob) Graph(ranges []sched.Range) (*graph.Graph, error) {
	b := graph.Builder{Stop: j.Stopped}
	n := int64(j.graph.Rows())
	bounds := b.Data(graph.Data{Name: "bounds", Bytes: 4 * int64(len(j.bounds)), Input: true})
	starts := b.Data(graph.Data{Name: "starts", Bytes: 4 * (n + 1), Input: true})
	columns := b.Data(graph.Data{Name: "columns", Bytes: 4 * int64(len(j.matrix.Columns)), Input: true})
	factors := b.Data(graph.Data{Name: "factors", Bytes: 4 * int64(len(j.factors)), Input: true})
	from := b.Data(graph.Data{Name: "features", Bytes: 4 * int64(len(j.features)), Input: true})
	s := j.spread()
	for l, w := range j.weights {
		in, out := 4*int64(j.widths[l]), 4*int64(j.widths[l+1])
		weights := b.Data(graph.Data{Name: fmt.Sprint("weights ", l), Bytes: 4 * int64(len(w)), Input: true})
		sums := b.Data(graph.Data{Name: fmt.Sprint("sums ", l), Bytes: n * in})
		to := b.Data(graph.Data{Name: fmt.Sprint("layer ", l), Bytes: n * out, Output: true})
		for _, r := range ranges {
			t := j.task(l, r.Lo, r.Hi)
			rows, edges := s.rows(r.Lo, r.Hi), s.edges(r.Lo, r.Hi)
			t.Uses = []graph.Use{
				slice(bounds, graph.Read, r, 4, 1), slice(starts, graph.Read, rows, 4, 1), slice(columns, graph.Read, edges, 4, 1), slice(factors, graph.Read, edges, 4, 1),
				{Data: from, Access: graph.Read}, slice(sums, graph.Write, rows, in, 0), {Data: weights, Access: graph.Read}, slice(to, graph.Write, rows, out, 0),
			}
			b.Add(t)
		}
		from = to
	}
	return b.Build()
}

// Bind ties the graph, weights and features to the job's memory.
func (j *layerJob) Bind() []weft.Binding {
	out := []weft.Binding{
		weft.Bind("bounds", j.bounds), weft.Bind("starts", j.matrix.Starts), weft.Bind("columns", j.matrix.Columns), weft.Bind("factors", j.factors),
		weft.Bind("features", j.features),
	}
	for l := range j.weights {
		out = append(out, weft.Bind(fmt.Sprint("weights ", l), j.weights[l]), weft.Bind(fmt.Sprint("layer ", l), j.results[l]))
	}
	return out
}

// Result is the features of all nodes behind a layer, in the job's own memory.
func (j *layerJob) Result(layer int) workload.Matrix {
	return workload.Matrix{Rows: j.graph.Rows(), Cols: j.widths[layer+1], Data: j.results[layer]}
}

// Rate is operations a second.
func (j *layerJob) Rate(d time.Duration) string {
	ops := 0.
	for l := range j.weights {
		ops += j.work(l, 0, int64(len(j.bounds)-1)).Ops
	}
	return fmt.Sprintf("%.2f GFLOP/s", ops/d.Seconds()/1e9)
}

// Summary is the mean of the last layer's features and how many of them are zero.
func (j *layerJob) Summary() string {
	last := j.results[len(j.results)-1]
	sum, zeros := 0., 0
	for _, v := range last {
		sum += float64(v)
		if v == 0 {
			zeros++
		}
	}
	n := float64(len(last))
	return fmt.Sprintf("features behind the last layer have a mean of %.6g, and %.1f %% are zero", sum/n, 100*float64(zeros)/n)
}
