package cuda

import (
	"bytes"
	"fmt"
	"slices"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// bundleMax is the number of short launches that go to the GPU in one call.
const bundleMax = 16

// bundle holds short launches gathered for a stream. They go out together, as a
// CUDA graph of as many kernels in a row, whose parameters are set before each
// launch: on an H200 that costs 1.1 µs a kernel, a launch by itself 4.4 µs. Any
// other operation flushes the bundle first.
type bundle struct {
	waiting []gathered
	graphs  [bundleMax + 1]chainGraph // by length
}

// gathered is a launch that waits in a bundle. Its slices are the operation's.
type gathered struct {
	of          *op
	fn          uintptr
	grid, block [3]uint32
	shared      uint32
	ptrs        []uintptr
	params      []byte
}

// chainGraph is a graph of kernels in a row.
type chainGraph struct {
	graph uintptr // what nodes belong to; they live as long as it does
	nodes []uintptr
	exec  uintptr
	set   [bundleMax]gathered // what nodes do; of is nil, and slices are its own
}

// same reports whether a node does what a launch is to do. Work that comes back in
// the same shape, as of a prepared graph, saves a call for each kernel.
func (g *gathered) same(o *gathered) bool {
	return g.fn == o.fn && g.grid == o.grid && g.block == o.block && g.shared == o.shared &&
		slices.Equal(g.ptrs, o.ptrs) && bytes.Equal(g.params, o.params)
}

// keep notes what a node does now.
func (g *gathered) keep(o *gathered) {
	ptrs, params := append(g.ptrs[:0], o.ptrs...), append(g.params[:0], o.params...)
	*g = *o
	g.of, g.ptrs, g.params = nil, ptrs, params
}

// nodeParams is CUDA_KERNEL_NODE_PARAMS of version 2.
type nodeParams struct {
	fn          uintptr
	grid, block [3]uint32
	shared      uint32
	_           uint32
	params      uintptr
	_           [3]uintptr // other ways to give parameters, a library's kernel, a context
}

// proven is the largest shape a function was launched in by itself. A launch
// within it does not fail for its shape, so whoever waits for it may be put
// behind it before it is made.
type proven struct{ threads, shared int }

func (p *proven) covers(l *graph.Launch) bool {
	return threads(l) <= p.threads && l.SharedBytes <= p.shared && l.Grid[1] <= 65535 && l.Grid[2] <= 65535
}

func (p *proven) saw(l *graph.Launch) {
	p.threads, p.shared = max(p.threads, threads(l)), max(p.shared, l.SharedBytes)
}

func threads(l *graph.Launch) int { return int(l.Block[0]) * int(l.Block[1]) * int(l.Block[2]) }

// gather adds a launch to the stream's bundle.
func (d *device) gather(s *stream, g gathered) {
	s.bundle.waiting = append(s.bundle.waiting, g)
	if len(s.bundle.waiting) == bundleMax {
		d.flush(s)
	}
}

// flush launches what a stream has gathered.
func (d *device) flush(s *stream) {
	b := &s.bundle
	n := len(b.waiting)
	if n == 0 {
		return
	}
	if !d.plain {
		if p, code := d.launchGraph(s, n); code != 0 {
			d.plain = true
			if err := d.called(p, code); d.dead.Load() == nil {
				d.log.Warn("launches will be slow", "device", d.info.Name, "err", err)
			}
		}
	}
	if d.plain && d.dead.Load() == nil {
		d.launchSingly(b.waiting)
	}
	clear(b.waiting)
	b.waiting = b.waiting[:0]
}

// launchGraph launches the bundle as a graph, which is made when it is the first
// of its length. It returns the call that failed, if one did.
func (d *device) launchGraph(s *stream, n int) (*proc, int32) {
	a := d.api
	b := &s.bundle
	c := &b.graphs[n]
	if c.exec == 0 {
		if p, code := d.makeGraph(c, b.waiting); code != 0 {
			return p, code
		}
	} else {
		for i := range b.waiting {
			g := &b.waiting[i]
			if c.set[i].same(g) {
				continue
			}
			d.setArgs(g)
			if code := a.code(d.f, &a.graphSetKernel, c.exec, c.nodes[i], d.block+configAt); code != 0 {
				return &a.graphSetKernel, code
			}
			c.set[i].keep(g)
		}
	}
	return &a.graphLaunch, a.code(d.f, &a.graphLaunch, c.exec, s.handle)
}

// makeGraph makes a graph of launches in a row.
func (d *device) makeGraph(c *chainGraph, launches []gathered) (*proc, int32) {
	a, f := d.api, d.f
	if code := a.code(f, &a.graphCreate, f.at(0), 0); code != 0 {
		return &a.graphCreate, code
	}
	c.graph = uintptr(f.out[0])
	for i := range launches {
		d.setArgs(&launches[i])
		after, n := uintptr(0), uintptr(0)
		if i > 0 {
			after, n = put(f, 1, c.nodes[i-1]), 1
		}
		if code := a.code(f, &a.graphAddKernel, f.at(0), c.graph, after, n, d.block+configAt); code != 0 {
			return &a.graphAddKernel, code
		}
		c.nodes = append(c.nodes, uintptr(f.out[0]))
		c.set[i].keep(&launches[i])
	}
	if code := a.code(f, &a.graphInstantiate, f.at(0), c.graph, 0); code != 0 {
		return &a.graphInstantiate, code
	}
	c.exec = uintptr(f.out[0])
	return nil, 0
}

// setArgs lays a launch out for the driver.
func (d *device) setArgs(g *gathered) {
	d.layArgs(g.ptrs, g.params)
	*(*nodeParams)(pointer(d.block + configAt)) = nodeParams{fn: g.fn, grid: g.grid, block: g.block, shared: g.shared, params: d.block + pointsAt}
}

// launchSingly launches one after another, where graphs cannot be had. A launch
// that fails takes with it what was to follow in the bundle: some of it may wait
// for it.
func (d *device) launchSingly(launches []gathered) {
	a := d.api
	var failed error
	for i := range launches {
		g := &launches[i]
		if failed != nil {
			g.of.err = fmt.Errorf("cuda: %s: %w: %w", d.info.Name, driver.ErrDependency, failed)
			continue
		}
		d.layArgs(g.ptrs, g.params)
		code := a.code(d.f, &a.launch, g.fn, uintptr(g.grid[0]), uintptr(g.grid[1]), uintptr(g.grid[2]),
			uintptr(g.block[0]), uintptr(g.block[1]), uintptr(g.block[2]), uintptr(g.shared), g.of.stream.handle, d.block+pointsAt, 0)
		failed = d.called(&a.launch, code)
		if d.dead.Load() != nil {
			return
		}
		if failed != nil {
			g.of.err = fmt.Errorf("cuda: %s: %w", d.info.Name, failed)
		}
	}
}

// layArgs puts a launch's arguments where the driver finds them.
func (d *device) layArgs(ptrs []uintptr, params []byte) {
	copy(d.values()[:], ptrs)
	points := d.points()
	if d.paramSlot != len(ptrs) { // where parameters were last time is a value again
		points[d.paramSlot] = d.block + valuesAt + uintptr(8*d.paramSlot)
		d.paramSlot = len(ptrs)
	}
	if len(params) > 0 {
		copy(unsafe.Slice((*byte)(pointer(d.block+paramsAt)), maxParams), params)
		points[len(ptrs)] = d.block + paramsAt
	}
}

// close forgets the graphs.
func (b *bundle) close(d *device, f *frame) {
	for i := range b.graphs {
		c := &b.graphs[i]
		if c.exec != 0 {
			d.api.code(f, &d.api.graphExecDestroy, c.exec)
		}
		if c.graph != 0 {
			d.api.code(f, &d.api.graphDestroy, c.graph)
		}
	}
}
