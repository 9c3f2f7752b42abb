package relativity

import (
	"fmt"
	"math"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// bodiesOnDevices moves bodies by a step: their velocities by the pull of all bodies, and then
// their places by the velocities. Its arguments are the places of all bodies, their masses,
// the velocities of some of them, and the places and velocities of these behind the step.
var bodiesOnDevices = workload.With(graph.GoKernel("relativity.bodies", lanes),
	workload.PTX(ptx, "relativity_bodies", 256, 256), workload.SPIRV(spirv, "relativity_bodies", 64, 64))

// lanes is the number of bodies of an item of the Go kernel.
const lanes = 8

// Steps of time, and the square of the distance below which bodies pull less, so that two in
// one place do not pull at all.
const (
	bodyStep = 1.0 / 256
	soft2    = 1.0 / 1024
)

// bodyParams are the parameters of bodiesOnDevices.
type bodyParams struct {
	all, first, n int // bodies, and those that move
	step, soft2   float32
}

var bodiesKernel = signature.Of(signature.Kernel{
	Name: "relativity.bodies", Does: "a step of n bodies under the pull of all", Grid: "n", Per: []uint32{lanes},
	Args: []signature.Arg{signature.In("places of all", graph.F4), signature.In("masses", graph.F4), signature.In("velocities", graph.F4),
		signature.Out("places behind", graph.F4), signature.Out("velocities behind", graph.F4)},
}, func(_ *weft.Call, p bodyParams) (n signature.Need, err error) {
	if int64(p.first)+int64(p.n) > int64(p.all) {
		return n, fmt.Errorf("bodies %d to %d are beyond the %d there are", p.first, p.first+p.n, p.all)
	}
	n.Items = signature.Parts(p.n, lanes)
	n.Elements[0], n.Elements[1] = signature.Product(p.all, 3), int64(p.all)
	for i := 2; i < 5; i++ {
		n.Elements[i] = signature.Product(p.n, 3)
	}
	return n, signature.Positive([]string{"all", "n"}, p.all, p.n)
}, func(c *weft.Call, p bodyParams, lo, hi int) {
	at, mass, v := weft.View[float32](c.Args[0])[:3*p.all], weft.View[float32](c.Args[1])[:p.all], weft.View[float32](c.Args[2])
	to, w := weft.View[float32](c.Args[3]), weft.View[float32](c.Args[4])
	var g group
	for item := lo; item < hi && !c.Stopped(); item++ {
		first := item * lanes
		n := min(lanes, p.n-first)
		for i := range lanes {
			for k := range 3 {
				g.at[k][i] = at[3*(p.first+first+min(i, n-1))+k]
			}
		}
		g.soft2 = p.soft2
		if !g.pullWide(at, mass) {
			g.pull(at, mass)
		}
		for i := range n {
			for k := range 3 {
				e := 3*(first+i) + k
				w[e] = v[e] + float32(p.step*g.pulls[k][i])
				to[e] = g.at[k][i] + float32(p.step*w[e])
			}
		}
	}
})

// group is the places of some bodies, and the pull of all on each. wide_amd64.s reads it.
type group struct {
	at, pulls [3][lanes]float32
	soft2     float32
}

// pull adds up the pulls of all bodies in their order.
func (g *group) pull(at, mass []float32) {
	g.pulls = [3][lanes]float32{}
	for j, m := range mass {
		x, y, z := at[3*j], at[3*j+1], at[3*j+2]
		for i := range lanes {
			dx, dy, dz := x-g.at[0][i], y-g.at[1][i], z-g.at[2][i]
			r2 := float32(dx*dx) + float32(dy*dy) + float32(dz*dz) + g.soft2
			by := m / float32(r2*float32(math.Sqrt(float64(r2))))
			g.pulls[0][i] += float32(by * dx)
			g.pulls[1][i] += float32(by * dy)
			g.pulls[2][i] += float32(by * dz)
		}
	}
}

// bodyJob is one set of bodies.
type bodyJob struct {
	workload.Stop

	c    Config
	mass []float32
	// start is the places and velocities before the first step, at and v those behind each.
	startAt, startV, at, v []float32
	misses                 []workload.Miss
}

// newBodies draws bodies of a mass of one together in a cube, at rest together.
func newBodies(c Config) *bodyJob {
	n := c.Count
	j := &bodyJob{c: c, mass: make([]float32, n), startAt: make([]float32, 3*n), startV: make([]float32, 3*n)}
	j.at, j.v = make([]float32, 3*n*c.Steps), make([]float32, 3*n*c.Steps)
	draw := philox.Source{Seed: c.Seed, Stream: streamBodies}
	var momentum [3]float64
	total := 0.
	for i := range n {
		a, b := draw.Block(uint64(i), 0, 0), draw.Block(uint64(i), 1, 0)
		j.mass[i] = float32((0.5 + philox.Unit(a[3])) / float64(n))
		total += float64(j.mass[i])
		for k := range 3 {
			j.startAt[3*i+k], j.startV[3*i+k] = philox.Symmetric32(a[k]), philox.Symmetric32(b[k])/4
			momentum[k] += float64(j.mass[i] * j.startV[3*i+k])
		}
	}
	for i := range j.startV {
		j.startV[i] -= float32(momentum[i%3] / total)
	}
	return j
}

// Name says how many bodies there are.
func (j *bodyJob) Name() string {
	return fmt.Sprintf("relativity %s, %s", text.Count(j.c.Count, "body"), text.Count(j.c.Steps, "step"))
}

// Class is R: a body is pulled by all in their order.
func (j *bodyJob) Class() workload.Class { return workload.RowExact }

// Items are the bodies.
func (j *bodyJob) Items() sched.Items {
	n, steps := int64(j.c.Count), int64(j.c.Steps)
	return sched.Items{
		Extent: n,
		Bytes:  func(lo, hi int64) (in, out int64) { return steps * (12*n + 4*n), steps * 24 * (hi - lo) },
	}
}

// Whole is all steps of all bodies as one task.
func (j *bodyJob) Whole() graph.Task {
	t := j.task(0, 0, int64(j.c.Count))
	for s := 1; s < j.c.Steps; s++ {
		next := j.task(s, 0, int64(j.c.Count))
		t.Steps = append(t.Steps, next.Steps...)
		t.Work.Ops += next.Work.Ops
		t.Work.Bytes += next.Work.Bytes
	}
	return t
}

func (j *bodyJob) task(step int, lo, hi int64) graph.Task {
	const pairOps = 20
	n, all := float64(hi-lo), float64(j.c.Count)
	p := bodyParams{j.c.Count, int(lo), int(hi - lo), bodyStep, soft2}
	return graph.Task{
		Name:  fmt.Sprintf("step %d of bodies %d-%d", step, lo, hi),
		Steps: []graph.Step{graph.Step{Kernel: bodiesOnDevices, Launch: graph.Grid(hi - lo)}.With(p)},
		Work:  graph.Work{Ops: pairOps * n * all, Bytes: 16*all + 36*n},
	}
}

// Graph has a task for each step and range of bodies. A task reads the places of all, which the
// tasks of the step before wrote.
func (j *bodyJob) Graph(ranges []sched.Range) (*graph.Graph, error) {
	b := graph.Builder{Stop: j.Stopped}
	n, steps := int64(j.c.Count), int64(j.c.Steps)
	mass := b.Data(graph.Data{Name: "masses", Bytes: 4 * n, Input: true})
	startAt := b.Data(graph.Data{Name: "first places", Bytes: 12 * n, Input: true})
	startV := b.Data(graph.Data{Name: "first velocities", Bytes: 12 * n, Input: true})
	at := b.Data(graph.Data{Name: "places", Bytes: 12 * n * steps, Output: true})
	v := b.Data(graph.Data{Name: "velocities", Bytes: 12 * n * steps, Output: true})
	slice := func(d graph.DataID, step int64, r sched.Range, access graph.Access) graph.Use {
		return graph.Use{Data: d, Offset: 12 * (n*step + r.Lo), Bytes: 12 * r.Len(), Access: access}
	}
	for s := range steps {
		for _, r := range ranges {
			t := j.task(int(s), r.Lo, r.Hi)
			from, with := slice(at, s-1, sched.Range{Hi: n}, graph.Read), slice(v, s-1, r, graph.Read)
			if s == 0 {
				from, with = slice(startAt, 0, sched.Range{Hi: n}, graph.Read), slice(startV, 0, r, graph.Read)
			}
			t.Uses = []graph.Use{from, {Data: mass, Access: graph.Read}, with, slice(at, s, r, graph.Write), slice(v, s, r, graph.Write)}
			b.Add(t)
		}
	}
	return b.Build()
}

// Bind ties bodies to the job's memory.
func (j *bodyJob) Bind() []weft.Binding {
	return []weft.Binding{
		weft.Bind("masses", j.mass), weft.Bind("first places", j.startAt), weft.Bind("first velocities", j.startV),
		weft.Bind("places", j.at), weft.Bind("velocities", j.v),
	}
}

// Result is the places and velocities of all bodies behind each step, in the job's own memory.
func (j *bodyJob) Result() (places, velocities []float32) { return j.at, j.v }

// momentum is the sum of masses times velocities, and of their sizes.
func (j *bodyJob) momentum(v []float32) (sum [3]float64, size float64) {
	for i, m := range j.mass {
		for k := range 3 {
			p := float64(m) * float64(v[3*i+k])
			sum[k] += p
			size += math.Abs(p)
		}
	}
	return sum, size
}

// drift returns the change of the momentum, relative to the sum of the sizes of all momenta.
func (j *bodyJob) drift() float64 {
	before, _ := j.momentum(j.startV)
	after, size := j.momentum(j.v[len(j.v)-3*j.c.Count:])
	off := 0.
	for k := range 3 {
		off = max(off, math.Abs(after[k]-before[k]))
	}
	return off / size
}

// Summary says how well momentum is conserved.
func (j *bodyJob) Summary() string {
	return fmt.Sprintf("momentum drifts by %.2g of the sum over all bodies", j.drift())
}

// Rate is pairs a second.
func (j *bodyJob) Rate(d time.Duration) string {
	n := float64(j.c.Count)
	return fmt.Sprintf("%.3f Gpair/s", n*n*float64(j.c.Steps)/d.Seconds()/1e9)
}
