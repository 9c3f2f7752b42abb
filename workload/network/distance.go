package network

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

var (
	// distancesOnDevices computes the distances from some points in space to all. Its arguments are
	// three coordinates of all points, and rows of distances.
	distancesOnDevices = distanceKernel("network.distances", "network_distances", 1, 1)
	// pathsOnDevices computes the lengths of shortest paths from some nodes to all, in edges. The
	// distance of a node that no path reaches is the number of nodes. Its arguments are starts of
	// rows, columns, and rows of distances.
	pathsOnDevices = distanceKernel("network.paths", "network_paths", 1, 1)
	// closenessOnDevices computes the closeness of some nodes. Its arguments are rows of distances,
	// and the closeness of these.
	closenessOnDevices = distanceKernel("network.closeness", "network_closeness", 1, 1)
	// assignOnDevices says for some nodes which medoid is the nearest, the first of equal ones. Its
	// arguments are the medoids, rows of distances, and labels.
	assignOnDevices = distanceKernel("network.assign", "network_assign", 128, 64)
	// spreadOnDevices adds up for some nodes the distances to all with the same label. Its arguments
	// are labels of all, rows of distances, and sums.
	spreadOnDevices = distanceKernel("network.spread", "network_spread", 1, 1)
	// medoidsOnDevices says for each label which node with it has the smallest sum, the first of
	// equal ones, and keeps the medoid of a label that no node has. Its arguments are labels, sums,
	// medoids and the new medoids.
	medoidsOnDevices = distanceKernel("network.medoids", "network_medoids", 1, 1)
)

// distanceKernel is a kernel with the rows that a block of threads and a group of invocations has.
func distanceKernel(name, entry string, cuda, vulkan uint32) *graph.Kernel {
	return workload.With(graph.GoKernel(name, 1), workload.PTX(ptx, entry, 128, cuda), workload.SPIRV(spirv, entry, 64, vulkan))
}

// distanceParams are the parameters of all kernels of distances.
type distanceParams struct {
	all   int // nodes
	first int // node of this task
	rows  int // nodes of this task
	k     int // medoids
	far   float32
}

// distanceNeed says what a kernel takes besides rows.
func distanceNeed(elements func(p distanceParams) [12]int64) func(*weft.Call, distanceParams) (signature.Need, error) {
	return func(_ *weft.Call, p distanceParams) (n signature.Need, err error) {
		if err := signature.Positive([]string{"all", "rows", "k"}, p.all, p.rows, p.k); err != nil {
			return n, err
		}
		if p.first+p.rows > p.all {
			return n, fmt.Errorf("rows %d to %d of %d", p.first, p.first+p.rows, p.all)
		}
		return signature.Need{Items: int64(p.rows), Elements: elements(p)}, nil
	}
}

var distanceKernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: distancesOnDevices.Name, Does: "distances of points in space", Grid: "rows", Per: []uint32{1},
		Args: []signature.Arg{signature.In("points", graph.F4), signature.Out("distances", graph.F4)},
	}, distanceNeed(func(p distanceParams) [12]int64 {
		return [12]int64{signature.Product(p.all, 3), signature.Product(p.rows, p.all)}
	}), func(c *weft.Call, p distanceParams, lo, hi int) {
		points, out := weft.View[float32](c.Args[0])[:3*p.all], weft.View[float32](c.Args[1])
		for i := lo; i < hi && !c.Stopped(); i++ {
			own := points[3*(p.first+i):]
			x, y, z := own[0], own[1], own[2]
			row := out[i*p.all:][:p.all]
			for j := range row {
				dx, dy, dz := points[3*j]-x, points[3*j+1]-y, points[3*j+2]-z
				row[j] = float32(math.Sqrt(float64(float32(dx*dx) + float32(dy*dy) + float32(dz*dz))))
			}
		}
	}),
	signature.Of(signature.Kernel{
		Name: pathsOnDevices.Name, Does: "lengths of shortest paths of a graph", Grid: "rows", Per: []uint32{1},
		Args: []signature.Arg{signature.In("starts", graph.U4), signature.In("columns", graph.U4), signature.Out("distances", graph.F4)},
	}, distanceNeed(func(p distanceParams) [12]int64 {
		return [12]int64{int64(p.all) + 1, 0, signature.Product(p.rows, p.all)}
	}), paths),
	signature.Of(signature.Kernel{
		Name: closenessOnDevices.Name, Does: "closeness of nodes by their distances", Grid: "rows", Per: []uint32{1},
		Args: []signature.Arg{signature.In("distances", graph.F4), signature.Out("closeness", graph.F4)},
	}, distanceNeed(func(p distanceParams) [12]int64 { return [12]int64{signature.Product(p.rows, p.all), int64(p.rows)} }),
		func(c *weft.Call, p distanceParams, lo, hi int) {
			distances, out := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
			for i := lo; i < hi && !c.Stopped(); i++ {
				sum, reached := float32(0), -1 // without itself
				for _, d := range distances[i*p.all:][:p.all] {
					if !(d >= p.far) { // and what is not a number counts
						sum += d
						reached++
					}
				}
				out[i] = closeness(sum, reached, p.all)
			}
		}),
	signature.Of(signature.Kernel{
		Name: assignOnDevices.Name, Does: "the nearest of some nodes to each", Grid: "rows", Per: []uint32{1},
		Args: []signature.Arg{signature.In("medoids", graph.U4), signature.In("distances", graph.F4), signature.Out("labels", graph.U4)},
	}, distanceNeed(func(p distanceParams) [12]int64 {
		return [12]int64{int64(p.k), signature.Product(p.rows, p.all), int64(p.rows)}
	}), func(c *weft.Call, p distanceParams, lo, hi int) {
		medoids, distances, labels := weft.View[uint32](c.Args[0])[:p.k], weft.View[float32](c.Args[1]), weft.View[uint32](c.Args[2])
		for i := lo; i < hi && !c.Stopped(); i++ {
			row := distances[i*p.all:][:p.all]
			best := float32(math.Inf(1))
			labels[i] = 0
			for k, m := range medoids {
				if int(m) >= p.all {
					c.Fail(fmt.Errorf("medoid %d is node %d of %d", k, m, p.all))
					return
				}
				if row[m] < best {
					best, labels[i] = row[m], uint32(k)
				}
			}
		}
	}),
	signature.Of(signature.Kernel{
		Name: spreadOnDevices.Name, Does: "sums of the distances to nodes of the same label", Grid: "rows", Per: []uint32{1},
		Args: []signature.Arg{signature.In("labels", graph.U4), signature.In("distances", graph.F4), signature.Out("sums", graph.F4)},
	}, distanceNeed(func(p distanceParams) [12]int64 {
		return [12]int64{int64(p.all), signature.Product(p.rows, p.all), int64(p.rows)}
	}), func(c *weft.Call, p distanceParams, lo, hi int) {
		labels, distances, sums := weft.View[uint32](c.Args[0])[:p.all], weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
		for i := lo; i < hi && !c.Stopped(); i++ {
			own, sum := labels[p.first+i], float32(0)
			for j, d := range distances[i*p.all:][:p.all] {
				if labels[j] == own {
					sum += d
				}
			}
			sums[i] = sum
		}
	}),
	signature.Of(signature.Kernel{
		Name: medoidsOnDevices.Name, Does: "the node with the smallest sum for each label", Grid: "k", Per: []uint32{1},
		Args: []signature.Arg{signature.In("labels", graph.U4), signature.In("sums", graph.F4), signature.In("medoids", graph.U4), signature.Out("new medoids", graph.U4)},
	}, func(_ *weft.Call, p distanceParams) (n signature.Need, err error) {
		n = signature.Need{Items: int64(p.k), Elements: [12]int64{int64(p.all), int64(p.all), int64(p.k), int64(p.k)}}
		return n, signature.Positive([]string{"all", "k"}, p.all, p.k)
	}, func(c *weft.Call, p distanceParams, lo, hi int) {
		labels, sums := weft.View[uint32](c.Args[0])[:p.all], weft.View[float32](c.Args[1])[:p.all]
		before, out := weft.View[uint32](c.Args[2]), weft.View[uint32](c.Args[3])
		for k := lo; k < hi; k++ {
			best := float32(math.Inf(1))
			out[k] = before[k]
			for i, l := range labels {
				if l == uint32(k) && sums[i] < best {
					best, out[k] = sums[i], uint32(i)
				}
			}
		}
	}),
}

// closeness returns the closeness of a node from its sum of distances to the nodes it reaches. In a
// graph that is not connected it is the closeness within the node's part, times that part's share of
// all nodes (Wasserman and Faust 1994), as in networkx.
func closeness(sum float32, reached, all int) float32 {
	if reached < 1 || sum == 0 {
		return 0
	}
	r, n := float32(reached), float32(all-1)
	return float32(r/sum) * float32(r/n)
}

var queues workload.Scratch[uint32]

// paths searches from each node breadth first.
func paths(c *weft.Call, p distanceParams, lo, hi int) {
	starts, columns, out := weft.View[uint32](c.Args[0])[:p.all+1], weft.View[uint32](c.Args[1]), weft.View[float32](c.Args[2])
	scratch := queues.Get(p.all)
	defer queues.Put(scratch)
	for i := lo; i < hi && !c.Stopped(); i++ {
		row := out[i*p.all:][:p.all]
		for j := range row {
			row[j] = float32(p.all)
		}
		row[p.first+i] = 0
		queue := append((*scratch)[:0], uint32(p.first+i))
		for at := 0; at < len(queue); at++ {
			node := queue[at]
			from, end := starts[node], starts[node+1]
			if from > end || int(end) > len(columns) {
				c.Fail(fmt.Errorf("node %d has edges outside of the graph", node))
				return
			}
			next := row[node] + 1
			for _, to := range columns[from:end] {
				if int(to) >= p.all {
					c.Fail(fmt.Errorf("node %d has an edge to %d of %d nodes", node, to, p.all))
					return
				}
				if row[to] == float32(p.all) {
					row[to] = next
					queue = append(queue, to)
				}
			}
		}
	}
}

// distancesJob is the distances of points or nodes with their closeness or medoids.
type distancesJob struct {
	workload.Stop

	c      Config
	n      int
	graph  *Graph    // undirected; nil for points
	points []float32 // nil for a graph
	// columns are the columns of the graph, and one more.
	columns   []uint32
	distances []float32
	close     []float32
	start     []uint32   // the first medoids
	medoids   [][]uint32 // behind each step
	labels    []uint32   // by the last medoids
	sums      []float32  // of distances to nodes with the same label, in the last step
	misses    []workload.Miss
}

func newDistanceJob(c Config) (*distancesJob, error) {
	if c.Graph != "" {
		g, err := c.graph()
		if err != nil {
			return nil, err
		}
		if c.K > g.Rows() {
			return nil, fmt.Errorf("network: %d medoids of %d nodes: %w: there must be 1 to %d", c.K, g.Rows(), workload.ErrConfig, g.Rows())
		}
		return distanceJob(c, g, nil), nil
	}
	points := make([]float32, 3*c.Nodes)
	philox.Fill32(points, uint64(c.Seed), streamPoints)
	return distanceJob(c, nil, points), nil
}

func distanceJob(c Config, g *Graph, points []float32) *distancesJob {
	j := &distancesJob{c: c, n: len(points) / 3, points: points}
	if g != nil {
		j.graph, j.n = g.Undirected(), g.Rows()
		j.columns = append(j.graph.Columns[:len(j.graph.Columns):len(j.graph.Columns)], 0)
	}
	j.distances = make([]float32, j.n*j.n)
	if c.Problem == Closeness {
		j.close = make([]float32, j.n)
		return j
	}
	j.start = j.first(c.K)
	for range c.Steps {
		j.medoids = append(j.medoids, make([]uint32, c.K))
	}
	j.labels, j.sums = make([]uint32, j.n), make([]float32, j.n)
	return j
}

// first are the medoids to begin with: nodes with most edges, or points whose numbers are equally
// far apart.
func (j *distancesJob) first(k int) []uint32 {
	var out []uint32
	if j.graph == nil {
		for i := range k {
			out = append(out, uint32(i*j.n/k))
		}
		return out
	}
	for i := range j.n {
		out = append(out, uint32(i))
	}
	edges := func(i uint32) int { return int(j.graph.Starts[i+1] - j.graph.Starts[i]) }
	slices.SortStableFunc(out, func(a, b uint32) int { return edges(b) - edges(a) })
	return out[:k]
}

// Name names the problem and the points or the graph.
func (j *distancesJob) Name() string {
	what := fmt.Sprintf("%d points", j.n)
	if j.graph != nil {
		what = fmt.Sprintf("%s, %d nodes", j.graph.Name, j.n)
		if more := j.graph.Repeated; more > 0 {
			what += ", " + text.Count(more, "repeated edge")
		}
	}
	if j.c.Problem == Closeness {
		return "network closeness of " + what
	}
	return fmt.Sprintf("network %d medoids of %s, %d steps", j.c.K, what, j.c.Steps)
}

// Class is R: a row is summed in one order on every device.
func (j *distancesJob) Class() workload.Class { return workload.RowExact }

// Items are the nodes.
func (j *distancesJob) Items() sched.Items {
	n := int64(j.n)
	return sched.Items{
		Extent: n,
		Bytes: func(lo, hi int64) (in, out int64) {
			return 12*n + 4*int64(len(j.columns)), 4 * n * (hi - lo)
		},
	}
}

// Whole is all of it as one task.
func (j *distancesJob) Whole() graph.Task {
	r := sched.Range{Hi: int64(j.n)}
	t := j.apart(r)
	add := func(next graph.Task) {
		t.Steps = append(t.Steps, next.Steps...)
		t.Work.Ops += next.Work.Ops
		t.Work.Bytes += next.Work.Bytes
	}
	if j.c.Problem == Closeness {
		add(j.task("closeness", closenessOnDevices, r))
		return t
	}
	for range j.c.Steps {
		add(j.task("assign", assignOnDevices, r))
		add(j.task("spread", spreadOnDevices, r))
	}
	return t
}

// apart is the task that computes distances.
func (j *distancesJob) apart(r sched.Range) graph.Task {
	if j.graph == nil {
		t := j.task("distances", distancesOnDevices, r)
		t.Work.Ops = 9 * float64(r.Len()) * float64(j.n)
		return t
	}
	t := j.task("paths", pathsOnDevices, r)
	t.Work.Ops = float64(r.Len()) * float64(4*j.n+2*len(j.columns))
	t.Work.Bytes += 8 * float64(r.Len()) * float64(len(j.columns))
	return t
}

func (j *distancesJob) task(what string, k *graph.Kernel, r sched.Range) graph.Task {
	all := float64(j.n) * float64(r.Len())
	p := distanceParams{all: j.n, first: int(r.Lo), rows: int(r.Len()), k: max(j.c.K, 1), far: float32(math.Inf(1))}
	if j.graph != nil {
		p.far = float32(j.n)
	}
	return graph.Task{
		Name:  fmt.Sprintf("%s of rows %d-%d", what, r.Lo, r.Hi),
		Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Grid(r.Len())}.With(p)},
		Work:  graph.Work{Ops: 2 * all, Bytes: 4 * all},
	}
}

// Graph has a task for the distances of each range of nodes, and for closeness one more; for
// medoids there are two more in each step, and one that ends it.
func (j *distancesJob) Graph(ranges []sched.Range) (*graph.Graph, error) {
	b := graph.Builder{Stop: j.Stopped}
	n := int64(j.n)
	row := 4 * n
	distances := b.Data(graph.Data{Name: "distances", Bytes: row * n, Output: true})
	var inputs []graph.Use
	if j.graph == nil {
		points := b.Data(graph.Data{Name: "points", Bytes: 12 * n, Input: true})
		inputs = []graph.Use{{Data: points, Access: graph.Read}}
	} else {
		starts := b.Data(graph.Data{Name: "starts", Bytes: 4 * (n + 1), Input: true})
		columns := b.Data(graph.Data{Name: "columns", Bytes: 4 * int64(len(j.columns)), Input: true})
		inputs = []graph.Use{{Data: starts, Access: graph.Read}, {Data: columns, Access: graph.Read}}
	}
	for _, r := range ranges {
		t := j.apart(r)
		t.Uses = append(inputs[:len(inputs):len(inputs)], slice(distances, graph.Write, r, row, 0))
		b.Add(t)
	}
	if j.c.Problem == Closeness {
		out := b.Data(graph.Data{Name: "closeness", Bytes: 4 * n, Output: true})
		for _, r := range ranges {
			t := j.task("closeness", closenessOnDevices, r)
			t.Uses = []graph.Use{slice(distances, graph.Read, r, row, 0), slice(out, graph.Write, r, 4, 0)}
			b.Add(t)
		}
		return b.Build()
	}
	k := 4 * int64(j.c.K)
	medoids := b.Data(graph.Data{Name: "start", Bytes: k, Input: true})
	labels := b.Data(graph.Data{Name: "labels", Bytes: 4 * n, Output: true})
	sums := b.Data(graph.Data{Name: "sums", Bytes: 4 * n, Output: true}) // which Check looks at
	assign := func() {
		for _, r := range ranges {
			t := j.task("assign", assignOnDevices, r)
			t.Uses = []graph.Use{{Data: medoids, Access: graph.Read}, slice(distances, graph.Read, r, row, 0), slice(labels, graph.Write, r, 4, 0)}
			b.Add(t)
		}
	}
	for s := range j.c.Steps {
		assign()
		for _, r := range ranges {
			t := j.task("spread", spreadOnDevices, r)
			t.Uses = []graph.Use{{Data: labels, Access: graph.Read}, slice(distances, graph.Read, r, row, 0), slice(sums, graph.Write, r, 4, 0)}
			b.Add(t)
		}
		next := b.Data(graph.Data{Name: fmt.Sprint("medoids ", s), Bytes: k, Output: true})
		t := j.task("medoids", medoidsOnDevices, sched.Range{Hi: n})
		t.Steps[0].Launch = graph.Grid(j.c.K)
		t.Work = graph.Work{Ops: 2 * float64(j.c.K) * float64(n), Bytes: 8 * float64(j.c.K) * float64(n)}
		t.Uses = []graph.Use{{Data: labels, Access: graph.Read}, {Data: sums, Access: graph.Read}, {Data: medoids, Access: graph.Read}, {Data: next, Access: graph.Write}}
		b.Add(t)
		medoids = next
	}
	assign()
	return b.Build()
}

// Bind ties points or the graph, and what comes out, to the job's memory.
func (j *distancesJob) Bind() []weft.Binding {
	out := []weft.Binding{weft.Bind("distances", j.distances)}
	if j.graph == nil {
		out = append(out, weft.Bind("points", j.points))
	} else {
		out = append(out, weft.Bind("starts", j.graph.Starts), weft.Bind("columns", j.columns))
	}
	if j.c.Problem == Closeness {
		return append(out, weft.Bind("closeness", j.close))
	}
	out = append(out, weft.Bind("start", j.start), weft.Bind("labels", j.labels), weft.Bind("sums", j.sums))
	for s, m := range j.medoids {
		out = append(out, weft.Bind(fmt.Sprint("medoids ", s), m))
	}
	return out
}

// Distances returns the distances of all nodes, row by row, in the job's own memory.
func (j *distancesJob) Distances() workload.Matrix {
	return workload.Matrix{Rows: j.n, Cols: j.n, Data: j.distances}
}

// Closeness returns the closeness of all nodes, in the job's own memory.
func (j *distancesJob) Closeness() []float32 { return j.close }

// Medoids are those behind the last step, and Labels the nearest of them to each node, in the
// job's own memory.
func (j *distancesJob) Medoids() (medoids, labels []uint32) {
	return j.medoids[len(j.medoids)-1], j.labels
}

// Rate is distances a second.
func (j *distancesJob) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f M distances/s", float64(j.n)*float64(j.n)/d.Seconds()/1e6)
}

// Summary is the nodes in the middle, or the medoids and the mean distance to them.
func (j *distancesJob) Summary() string {
	if j.c.Problem == Closeness {
		all := make([]float64, j.n)
		for i, c := range j.close {
			all[i] = float64(c)
		}
		return "highest closeness " + highest(all, 3)
	}
	medoids, labels := j.Medoids()
	sum := 0.
	for i, l := range labels {
		sum += float64(j.distances[i*j.n+int(medoids[l])])
	}
	return fmt.Sprintf("medoids %v, %.6g from a node to its own in the mean", medoids, sum/float64(j.n))
}
