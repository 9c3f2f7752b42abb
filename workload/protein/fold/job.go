package fold

import (
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// What is observed of a replica after each round.
const (
	seenEnergy = iota
	seenQ
	seenRg
	seenRMSD
	seenCount
)

// What the ladder has for a replica.
const (
	rungTemperature = iota
	rungScale
	rungStep
	rungCount
)

// foldOnDevices advances groups of eight replicas by all steps of a round and observes them; its grid
// is the groups and the replicas of one. State is positions, then velocities, of each group; a ladder has a
// temperature, a factor for the velocities and the number of the first step of each replica.
var foldOnDevices = graph.GoKernel("fold.advance", 1, lanes)

// The kernels of chains that GPUs take in different ways. CUDA: two replicas to a block of threads,
// one, or one with lists of pairs in the workspace. On Vulkan a variant is named by the
// invocations of its groups, and there is none for long chains.
var (
	twoKernel    = kernelOf(workload.PTX(ptx, "fold_two", 192, 1, 2), workload.SPIRV(spirv, "fold_48", twoBeads, 1, 1))
	oneKernel    = kernelOf(workload.PTX(ptx, "fold_one", 256, 1, 1), workload.SPIRV(spirv, "fold_64", oneBeads, 1, 1))
	middleKernel = kernelOf(workload.PTX(ptx, "fold_long", 512, 1, 1), workload.SPIRV(spirv, "fold_160", middleBeads, 1, 1))
	longKernel   = kernelOf(workload.PTX(ptx, "fold_long", 512, 1, 1))
)

func kernelOf(impls ...graph.Impl) *graph.Kernel {
	return workload.With(graph.GoKernel(foldOnDevices.Name, 1, lanes), impls...)
}

// The most beads that the first three take.
const (
	twoBeads    = 48
	oneBeads    = 64
	middleBeads = 160
)

// beadContacts is the largest mean number of contacts of a bead for which the kernels for short chains have room:
// Links in fold.cu.
const beadContacts = 3

// kernel is the kernel for a chain.
func (c counts) kernel() *graph.Kernel {
	switch {
	case c.beads <= twoBeads && c.contacts <= beadContacts*twoBeads:
		return twoKernel
	case c.short():
		return oneKernel
	case c.beads <= middleBeads:
		return middleKernel
	}
	return longKernel
}

// stepsWithin is the most steps of a launch where a device takes part that ends the loops of an
// invocation after some rounds, so that the loops of fold.comp stay below: over contacts and all beads
// before the first step and after the last, and over pairs of contacts and fours of beads in every
// step, rounded up.
func (c counts) stepsWithin(rounds int) int {
	outside := c.beads*(c.degree+8) + c.degree + 256
	return max(1, (rounds-outside)/(c.degree/2+c.beads/4+16))
}

// short reports whether a chain needs no workspace.
func (c counts) short() bool { return c.beads <= oneBeads && c.contacts <= beadContacts*oneBeads }

// workspace is the bytes that a replica of a chain takes in the workspace.
func (c counts) workspace() int64 {
	if c.short() {
		return 0
	}
	n := int64(c.beads)
	return 8 * (28*n + (n*((n+31)/32)+1)/2)
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

// params are the parameters of the kernel.
type params struct {
	beads, bonds, angles, dihedrals, contacts int
	degree                                    int
	first, groups                             int // of all groups, those of the task
	replicas                                  int // of all groups
	seed                                      uint32
	steps                                     int
	dt, gamma                                 float64
	c1                                        float64 // exp(-gamma dt)
}

func (p params) counts() counts {
	return counts{p.beads, p.bonds, p.angles, p.dihedrals, p.contacts, p.degree}
}

// groups are lent to calls of the kernel.
var groups workload.Scratch[group]

var kernels = []signature.Kernel{partSignature, signature.Of(signature.Kernel{
	Name: foldOnDevices.Name, Does: "time steps of groups of eight replicas of a chain of beads", Grid: "groups, 8", Per: []uint32{1, lanes},
	Args: []signature.Arg{
		signature.In("places of terms and contacts", graph.I4), signature.In("native values", graph.F8), signature.In("ladder", graph.F8),
		signature.In("state before", graph.F8), signature.Out("state after", graph.F8), signature.Out("observed", graph.F8),
	},
}, func(_ *weft.Call, p params) (n signature.Need, err error) {
	if p.beads > maxBeads || max(p.bonds, p.angles, p.dihedrals) > p.beads || p.contacts > 1<<30 || p.degree > 2*p.beads {
		return n, fmt.Errorf("%d beads with %d, %d and %d terms and %d contacts, up to %d of one: too many", p.beads, p.bonds, p.angles, p.dihedrals, p.contacts, p.degree)
	}
	c := p.counts()
	n.Items = int64(p.groups)
	n.Elements[0], n.Elements[1] = int64(c.ints()), int64(c.reals())
	state := signature.Product(p.groups, 6*lanes, p.beads)
	n.Elements[2], n.Elements[3], n.Elements[4] = signature.Product(p.groups, rungCount*lanes), state, state
	n.Elements[5] = signature.Product(p.groups, seenCount*lanes)
	return n, signature.Positive([]string{"beads", "groups", "replicas", "steps"}, p.beads, p.groups, p.replicas, p.steps)
}, advance)}

// advance is the kernel.
func advance(c *weft.Call, p params, lo, hi int) {
	t := p.counts().view(weft.View[int32](c.Args[0]), weft.View[float64](c.Args[1]))
	if err := t.check(); err != nil {
		c.Fail(fmt.Errorf("fold: %w", err))
		return
	}
	ladder, seen := weft.View[[rungCount][lanes]float64](c.Args[2]), weft.View[[seenCount][lanes]float64](c.Args[5])
	before, after := weft.View[[lanes]float64](c.Args[3]), weft.View[[lanes]float64](c.Args[4])
	g := groups.Get(1)
	defer groups.Put(g)
	n := 3 * p.beads
	for i := lo; i < hi && !c.Stopped(); i++ {
		state := after[2*n*i : 2*n*(i+1)]
		copy(state, before[2*n*i:])
		var replica [lanes]uint64
		for l := range lanes {
			replica[l] = uint64(min((p.first+i)*lanes+l, p.replicas-1))
			for k := n; k < 2*n; k++ {
				state[k][l] *= ladder[i][rungScale][l]
			}
		}
		if err := (*g)[0].round(t, state, p, &ladder[i], replica, &seen[i], c.Stopped); err != nil {
			c.Fail(fmt.Errorf("fold: %w", err))
			return
		}
	}
}

// round advances the state of a group, positions and then velocities, and observes it.
func (g *group) round(t *tables, state [][lanes]float64, p params, ladder *[rungCount][lanes]float64, replica [lanes]uint64, seen *[seenCount][lanes]float64, stopped func() bool) error {
	n, step := 3*t.beads, uint64(0)
	if at := ladder[rungStep][0]; at >= 0 && at <= maxSteps {
		step = uint64(at)
	}
	g.bind(t, state[:n], state[n:2*n])
	if err := g.advance(motion{p.dt, p.gamma, p.seed, step, p.steps}, ladder[rungTemperature], replica, stopped); err != nil {
		return err
	}
	seen[seenEnergy] = g.args.energy
	x := make([]float64, n)
	for l := range lanes {
		for k := range x {
			x[k] = g.x[k][l]
		}
		seen[seenQ][l], seen[seenRg][l], seen[seenRMSD][l] = t.q(x), protein.Rg(x), protein.RMSD(x, t.xyz)
	}
	return nil
}

// q is protein.Model.Q by the tables.
func (t *tables) q(x []float64) float64 {
	n := 0
	for i := range t.beads {
		for k := t.rows[i]; k < t.rows[i+1]; k++ {
			j, d2 := int(t.with[k]), 0.0
			for c := range 3 {
				d := x[3*i+c] - x[3*j+c]
				d2 += d * d
			}
			if d2 < protein.Formed*protein.Formed*t.size2[k] {
				n++
			}
		}
	}
	return float64(n) / float64(max(t.contacts, 1))
}

// pairsOf is about how many pairs a bead has that repel it.
const pairsOf = 12

// work returns the work of some steps of some replicas.
func (c counts) work(replicas, steps int) graph.Work {
	per := 60*c.beads + 40*c.contacts + 25*pairsOf*c.beads + 180*c.beads
	return graph.Work{
		Ops:   float64(per) * float64(replicas) * float64(steps),
		Bytes: float64(96*c.beads*replicas + 8*(c.ints()+c.reals())),
		Unit:  graph.FP64,
	}
}

// round is one round as tasks.
type round struct {
	counts
	params
	replicas int
}

// groupCount is the number of groups.
func (r *round) groupCount() int { return (r.replicas + lanes - 1) / lanes }

// items are the groups, which all cost the same.
func (r *round) items() sched.Items {
	n := int64(48 * lanes * r.counts.beads)
	return sched.Items{
		Extent: int64(r.groupCount()),
		Cost:   func(lo, hi int64) float64 { return float64(hi - lo) },
		Bytes: func(lo, hi int64) (in, out int64) {
			if hi == lo {
				return 0, 0
			}
			return n*(hi-lo) + int64(4*r.ints()+8*r.reals()), n * (hi - lo)
		},
	}
}

// task returns the task of a range of groups.
func (r *round) task(lo, hi int64) graph.Task {
	p := r.params
	p.first, p.groups, p.replicas = int(lo), int(hi-lo), r.replicas
	return graph.Task{
		Name:      fmt.Sprintf("groups %d-%d", lo, hi),
		Steps:     []graph.Step{graph.Step{Kernel: r.kernel(), Launch: graph.Grid(hi-lo, lanes)}.With(p)},
		Work:      r.work(lanes*int(hi-lo), p.steps),
		Workspace: lanes * (hi - lo) * r.workspace(),
	}
}

// graph has a task for each range of groups.
func (r *round) graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	all := int64(r.groupCount())
	state, ladder, seen := int64(48*lanes*r.counts.beads), int64(8*rungCount*lanes), int64(8*seenCount*lanes)
	ints := b.Data(graph.Data{Name: "ints", Bytes: int64(4 * r.ints()), Input: true})
	reals := b.Data(graph.Data{Name: "reals", Bytes: int64(8 * r.reals()), Input: true})
	rungs := b.Data(graph.Data{Name: "ladder", Bytes: ladder * all, Input: true})
	before := b.Data(graph.Data{Name: "before", Bytes: state * all, Input: true})
	// Devices of different kinds differ by rounding, which grows with the steps, and a contact
	// at its limit is formed or not.
	within := 1e-5 // of the largest coordinate
	if r.params.steps > tailSteps {
		within = 0
	}
	after := b.Data(graph.Data{Name: "after", Bytes: state * all, Output: true, Elem: graph.F8, Tolerance: within})
	observed := b.Data(graph.Data{Name: "seen", Bytes: seen * all, Output: true})
	for _, g := range ranges {
		part := func(d graph.DataID, size int64, access graph.Access) graph.Use {
			return graph.Use{Data: d, Offset: size * g.Lo, Bytes: size * (g.Hi - g.Lo), Access: access}
		}
		t := r.task(g.Lo, g.Hi)
		t.Uses = []graph.Use{
			{Data: ints, Access: graph.Read}, {Data: reals, Access: graph.Read}, part(rungs, ladder, graph.Read),
			part(before, state, graph.Read), part(after, state, graph.Write), part(observed, seen, graph.Write),
		}
		b.Add(t)
	}
	return b.Build()
}
