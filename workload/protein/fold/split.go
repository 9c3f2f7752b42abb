package fold

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// ErrSplit is wrapped by the error of [Run.Do] where splitting a trajectory is predicted to take longer
// than not to, and the configuration does not say that it is to be split anyway.
var ErrSplit = errors.New("splitting does not pay")

// The values of [Config.Split].
const (
	SplitNever  = ""       // replicas are dealt out, and each is computed by one device
	SplitPays   = "pays"   // beads of the one replica are, or Do refuses with the predicted times
	SplitAlways = "always" // beads of the one replica are
)

// partKernel advances some beads of one replica by a step, from the positions of all: it computes the
// forces on them, ends the step before and begins the next. Each force is added up in the order of
// Kernel, so that a trajectory has the same bytes split or not.
var partKernel = graph.GoKernel("fold.part", 1)

// doList has a part list the pairs of its beads even if the list that it has is good.
const doList = doKick << 1

// listRoom is the number of beads that a list has room for. More than about 150 are within 15 angstrom
// of a bead only if beads clash; all others are then looked at for it.
const listRoom = 255

// partParams are the parameters of partKernel.
type partParams struct {
	beads, bonds, angles, dihedrals, contacts, degree int

	lo, hi   int // beads
	what     int // of doDrift, doKick and doList
	step     int // that is begun, from the first of the ladder on
	seed     uint32
	half, c1 float64
}

var partSignature = signature.Of(signature.Kernel{
	Name: partKernel.Name, Does: "a time step of some beads of one chain", Grid: "1", Per: []uint32{1},
	Args: []signature.Arg{
		signature.In("places of terms and contacts", graph.I4), signature.In("native values", graph.F8), signature.In("ladder", graph.F8),
		signature.In("positions", graph.F8), signature.InOut("velocities of the beads", graph.F8),
		signature.InOut("positions when pairs were listed", graph.F8), signature.InOut("list of pairs", graph.I4),
		signature.Out("next positions of the beads", graph.F8),
	},
}, func(_ *weft.Call, p partParams) (n signature.Need, err error) {
	if p.beads > maxBeads || max(p.bonds, p.angles, p.dihedrals) > p.beads || p.contacts > 1<<30 || p.degree > 2*p.beads || p.hi > p.beads || p.lo >= p.hi {
		return n, fmt.Errorf("beads %d to %d of %d with %d, %d and %d terms and %d contacts, up to %d of one: too many", p.lo, p.hi, p.beads, p.bonds, p.angles, p.dihedrals, p.contacts, p.degree)
	}
	c := counts{p.beads, p.bonds, p.angles, p.dihedrals, p.contacts, p.degree}
	own := int64(p.hi - p.lo)
	n.Items = 1
	n.Elements = [12]int64{
		int64(c.ints()), int64(c.reals()), rungCount * lanes, int64(3 * p.beads), 3 * own, int64(3 * p.beads), own * (listRoom + 1), 3 * own,
	}
	return n, signature.Positive([]string{"beads"}, p.beads)
}, advancePart)

// part is the beads of a range as a task advances them.
type part struct {
	*tables
	partParams
	x    []float64 // of all beads
	f    []float64 // of those of the range
	list []int32   // for each of the range a number of beads, and those; a negative number stands for all
	near []int32   // scratch
	grid grid
}

var parts workload.Scratch[part]

// advancePart is partKernel.
func advancePart(c *weft.Call, p partParams, _, _ int) {
	t := counts{p.beads, p.bonds, p.angles, p.dihedrals, p.contacts, p.degree}.view(weft.View[int32](c.Args[0]), weft.View[float64](c.Args[1]))
	lent := parts.Get(1)
	defer parts.Put(lent)
	q := &(*lent)[0]
	q.tables, q.partParams, q.x, q.list = t, p, weft.View[float64](c.Args[3])[:3*p.beads], weft.View[int32](c.Args[6])
	ladder := &weft.View[[rungCount][lanes]float64](c.Args[2])[0]
	v, listed, next := weft.View[float64](c.Args[4]), weft.View[float64](c.Args[5]), weft.View[float64](c.Args[7])
	if err := t.check(); err != nil {
		c.Fail(fmt.Errorf("fold: %w", err))
		return
	}
	if p.what&doList != 0 || q.far(listed) {
		copy(listed, q.x)
		q.listAll()
	}
	if err := q.forces(); err != nil {
		c.Fail(fmt.Errorf("fold: %w", err))
		return
	}
	step := uint64(p.step)
	if first := ladder[rungStep][0]; first >= 0 && first <= maxSteps {
		step += uint64(first)
	}
	noise := math.Sqrt((1 - p.c1*p.c1) * ladder[rungTemperature][0])
	for i := p.lo; i < p.hi; i++ {
		var rnd [3]float64
		if p.what&doDrift != 0 {
			rnd = normal(uint64(stream)<<32|uint64(p.seed), i, 0, step)
		}
		for k := range 3 {
			at := 3*(i-p.lo) + k
			x := q.x[3*i+k]
			if p.what&doKick != 0 {
				v[at] += float64(p.half * q.f[at])
			}
			if p.what&doDrift != 0 {
				x, v[at] = drifted(x, v[at], q.f[at], p.half, p.c1, noise, rnd[k])
			}
			if !(math.Abs(x) <= 1e12) {
				c.Fail(fmt.Errorf("fold: %w", &errNowhere{step, 0, i}))
				return
			}
			next[at] = x
		}
	}
}

func (q *part) at(i int) vector { return vector{q.x[3*i], q.x[3*i+1], q.x[3*i+2]} }

// far reports whether a bead has gone so far since pairs were listed that the list may lack one.
func (q *part) far(listed []float64) bool {
	for i := range q.tables.beads {
		d := sub(q.at(i), vector{listed[3*i], listed[3*i+1], listed[3*i+2]})
		if !(dot(d, d) <= skin*skin/4) {
			return true
		}
	}
	return false
}

// listAll lists the pairs of all beads of the range.
func (q *part) listAll() {
	q.grid.fill(q.tables.beads, q.at)
	for i := q.lo; i < q.hi; i++ {
		q.near = q.near[:0]
		q.grid.around(q.at(i), func(j int32) {
			if near(q.at(i), q.at(int(j))) && q.repels(i, int(j)) {
				q.near = append(q.near, j)
			}
		})
		slices.Sort(q.near)
		q.near = slices.Compact(q.near) // cubes may share a slot of the grid
		row := q.list[(i-q.lo)*(listRoom+1):][:listRoom+1]
		row[0] = -1
		if len(q.near) <= listRoom {
			row[0] = int32(copy(row[1:], q.near))
		}
	}
}

// repels reports whether two beads repel each other where they are near.
func (q *part) repels(i, j int) bool {
	if i == j || q.chain[i] == q.chain[j] && max(i-j, j-i) < protein.ContactSpan {
		return false
	}
	low, high := min(i, j), max(i, j)
	_, isContact := slices.BinarySearch(q.with[q.rows[low]:q.rows[low+1]], int32(high))
	return !isContact
}

// listOf are the beads that may repel bead i, in order.
func (q *part) listOf(i int) []int32 {
	row := q.list[(i-q.lo)*(listRoom+1):][:listRoom+1]
	if n := row[0]; n >= 0 && n <= listRoom {
		return row[1 : 1+n]
	}
	q.near = q.near[:0]
	for j := range q.tables.beads {
		if q.repels(i, j) {
			q.near = append(q.near, int32(j))
		}
	}
	return q.near
}

// add adds the force on a bead, if it is one of the range.
func (q *part) add(i int, f vector) {
	if i >= q.lo && i < q.hi {
		at := q.f[3*(i-q.lo):][:3]
		at[0], at[1], at[2] = at[0]+f.x, at[1]+f.y, at[2]+f.z
	}
}

// forces sets the forces on the beads of the range.
func (q *part) forces() error {
	q.f = slices.Grow(q.f[:0], 3*(q.hi-q.lo))[:3*(q.hi-q.lo)]
	clear(q.f)
	// A term of some beads that begins fewer than that many beads before the range ends in it.
	each := func(from, n, beads int, f func(t, i int)) {
		first := q.first[from : from+n]
		for t := sort.Search(n, func(t int) bool { return int(first[t]) > q.lo-beads }); t < n && int(first[t]) < q.hi; t++ {
			f(from+t, int(first[t]))
		}
	}
	bonds, angles, dihedrals := q.tables.bonds, q.tables.angles, q.tables.dihedrals
	each(0, bonds, 2, func(t, i int) {
		_, p := bond(q.at(i), q.at(i+1), q.native[t])
		for k, f := range p {
			q.add(i+k, f)
		}
	})
	each(bonds, angles, 3, func(t, i int) {
		_, p := angle(q.at(i), q.at(i+1), q.at(i+2), q.native[t])
		for k, f := range p {
			q.add(i+k, f)
		}
	})
	each(bonds+angles, dihedrals, 4, func(t, i int) {
		_, p := dihedral(q.at(i), q.at(i+1), q.at(i+2), q.at(i+3), q.native[t], q.native[t+dihedrals])
		for k, f := range p {
			q.add(i+k, f)
		}
	})
	for i := q.lo; i < q.hi; i++ {
		if err := q.pairs(i); err != nil {
			return err
		}
	}
	return nil
}

// pairs adds the forces of contacts and repulsion on a bead: first with the beads before it, in order,
// then its contacts with those behind, then what else of those repels it.
func (q *part) pairs(i int) error {
	n, list := q.tables.beads, q.listOf(i)
	xi, k := q.at(i), 0
	for ; k < q.tables.degree && q.allSize2[k*n+i] != 0; k++ {
		j := int(q.allWith[k*n+i])
		if j < 0 || j >= n {
			return fmt.Errorf("contact %d of bead %d is with none of %d beads", k, i, n)
		}
		for j < i && len(list) > 0 && int(list[0]) < j {
			if err := q.repel(i, list[0]); err != nil {
				return err
			}
			list = list[1:]
		}
		if j < i {
			_, p := contact(sub(q.at(j), xi), q.allSize2[k*n+i])
			q.add(i, vector{0 - p.x, 0 - p.y, 0 - p.z})
			continue
		}
		break
	}
	for len(list) > 0 && int(list[0]) < i {
		if err := q.repel(i, list[0]); err != nil {
			return err
		}
		list = list[1:]
	}
	for ; k < q.tables.degree && q.allSize2[k*n+i] != 0; k++ {
		j := int(q.allWith[k*n+i])
		if j < 0 || j >= n {
			return fmt.Errorf("contact %d of bead %d is with none of %d beads", k, i, n)
		}
		_, p := contact(sub(xi, q.at(j)), q.allSize2[k*n+i])
		q.add(i, p)
	}
	for _, j := range list {
		if err := q.repel(i, j); err != nil {
			return err
		}
	}
	return nil
}

// repel adds the force of a bead that repels bead i.
func (q *part) repel(i int, j int32) error {
	if j < 0 || int(j) >= q.tables.beads {
		return fmt.Errorf("the list of bead %d has none of %d beads", i, q.tables.beads)
	}
	if int(j) < i {
		if _, p, near := repulsion(sub(q.at(int(j)), q.at(i))); near {
			q.add(i, vector{0 - p.x, 0 - p.y, 0 - p.z})
		}
		return nil
	}
	if _, p, near := repulsion(sub(q.at(i), q.at(int(j)))); near {
		q.add(i, p)
	}
	return nil
}

// chainSteps is steps of one replica as tasks for ranges of beads.
type chainSteps struct {
	counts
	params
}

// work returns the work of a step of some beads. One number takes as long here as the eight of
// Kernel's vectors, and each pair is computed for both of its beads.
func (s *chainSteps) work(beads int) graph.Work {
	c := s.counts
	per := 240*float64(c.beads) + 80*float64(c.contacts) + 50*pairsOf*float64(c.beads)
	share := float64(beads) / float64(c.beads)
	return graph.Work{Ops: lanes * per * share, Bytes: 24*float64(c.beads) + 4*listRoom*float64(beads), Unit: graph.FP64}
}

// graph has a task for each range of beads in each step, which reads the positions of all beads, and one
// more that ends the last.
func (s *chainSteps) graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	c := s.counts
	all := int64(24 * c.beads)
	ints := b.Data(graph.Data{Name: "ints", Bytes: int64(4 * c.ints()), Input: true})
	reals := b.Data(graph.Data{Name: "reals", Bytes: int64(8 * c.reals()), Input: true})
	ladder := b.Data(graph.Data{Name: "ladder", Bytes: 8 * rungCount * lanes, Input: true})
	now := b.Data(graph.Data{Name: "before", Bytes: all, Input: true})
	v := b.Data(graph.Data{Name: "velocities", Bytes: all, Input: true, Output: true})
	listed := b.Data(graph.Data{Name: "listed", Bytes: all * int64(len(ranges))})
	list := b.Data(graph.Data{Name: "list", Bytes: 4 * (listRoom + 1) * int64(c.beads)})
	// The last task writes to the second of the two in turns.
	turns := [2]graph.DataID{b.Data(graph.Data{Name: "positions", Bytes: all}), b.Data(graph.Data{Name: "after", Bytes: all, Output: true})}
	for step := 0; step <= s.steps; step++ {
		next := turns[(s.steps-step+1)%2]
		what, kept := doKick|doDrift, graph.ReadWrite
		if step == 0 {
			what, kept = doDrift|doList, graph.Write
		}
		if step == s.steps {
			what = doKick
		}
		for k, r := range ranges {
			p := partParams{
				beads: c.beads, bonds: c.bonds, angles: c.angles, dihedrals: c.dihedrals, contacts: c.contacts, degree: c.degree,
				lo: int(r.Lo), hi: int(r.Hi), what: what, step: step, seed: s.seed, half: s.dt / 2, c1: s.c1,
			}
			own := func(d graph.DataID, a graph.Access, each int64) graph.Use {
				return graph.Use{Data: d, Access: a, Offset: each * r.Lo, Bytes: each * r.Len()}
			}
			b.Add(graph.Task{
				Name:  fmt.Sprintf("step %d beads %d-%d", step, r.Lo, r.Hi),
				Steps: []graph.Step{graph.Step{Kernel: partKernel, Launch: graph.Grid(1)}.With(p)},
				Work:  s.work(int(r.Len())),
				Uses: []graph.Use{
					{Data: ints, Access: graph.Read}, {Data: reals, Access: graph.Read}, {Data: ladder, Access: graph.Read},
					{Data: now, Access: graph.Read}, own(v, graph.ReadWrite, 24),
					{Data: listed, Access: kept, Offset: all * int64(k), Bytes: all}, own(list, kept, 4*(listRoom+1)),
					own(next, graph.Write, 24),
				},
			})
		}
		now = next
	}
	return b.Build()
}

// splitGraph is the graph of some steps with as many ranges as there are devices.
func (r *Run) splitGraph(steps int) (*graph.Graph, error) {
	n := int64(r.model.Beads())
	parts := min(int64(r.devices), n)
	ranges := make([]sched.Range, parts)
	for k := range parts {
		ranges[k] = sched.Range{Lo: k * n / parts, Hi: (k + 1) * n / parts}
	}
	return (&chainSteps{r.tables.counts, r.round(steps).params}).graph(ranges)
}

// judged is the number of steps that are tried and then predicted, split and not.
const judged = 50

// judgeSplit errs if splitting the trajectory is predicted to take longer than not to: by the cost
// model, and by some steps that are computed both ways before, and forgotten.
func (r *Run) judgeSplit(ctx context.Context, rt *weft.Runtime) error {
	on, err := workload.Able(rt.Machine(), partKernel)
	if err != nil {
		return err
	}
	r.devices = len(on)
	if r.c.Split == SplitAlways {
		return nil
	}
	if r.devices == 1 {
		return fmt.Errorf("%w: there is one device to split over", ErrSplit)
	}
	split, err := r.splitGraph(judged)
	if err != nil {
		return err
	}
	whole, err := r.round(judged).graph([]sched.Range{{Hi: 1}})
	if err != nil {
		return err
	}
	x, v := r.lane()
	bind := []weft.Binding{weft.Bind("ints", r.ints), weft.Bind("reals", r.reals), weft.Bind("ladder", r.ladder)}
	var took [2]time.Duration
	for i, try := range []struct {
		g    *graph.Graph
		bind []weft.Binding
	}{
		{split, append(bind, weft.Bind("before", x), weft.Bind("velocities", v), weft.Bind("after", make([]float64, len(x))))},
		{whole, append(bind, weft.Bind("before", r.state), weft.Bind("after", r.after), weft.Bind("seen", r.observed))},
	} {
		var begin time.Time
		for range 2 { // the first brings tables and lists
			begin = time.Now()
			if _, err := rt.Run(ctx, try.g, try.bind...); err != nil {
				return err
			}
		}
		measured := time.Since(begin)
		p, err := rt.Predict(ctx, try.g)
		if err != nil {
			return err
		}
		// A prediction knows what tasks take, and not that a processor may be slow to wake.
		took[i] = max(measured, p.Median) / judged
	}
	return r.pays(took[0], took[1])
}

// pays errs unless a step takes less time split than whole.
func (r *Run) pays(split, whole time.Duration) error {
	if split < whole {
		return nil
	}
	n := r.model.Beads()
	return fmt.Errorf("%w: a step of %d beads, after which devices gather %d bytes, is predicted to take %v over %d devices and %v on one", ErrSplit, n, 24*n, split, r.devices, whole)
}

// lane returns the positions and velocities of the one replica.
func (r *Run) lane() (x, v []float64) {
	n := 3 * r.model.Beads()
	x, v = make([]float64, n), make([]float64, n)
	for k := range n {
		x[k], v[k] = r.state[k][0], r.state[n+k][0]
	}
	return x, v
}

// launchSplit advances the one replica by some steps.
func (r *Run) launchSplit(ctx context.Context, rt *weft.Runtime, _, steps int) (*weft.Report, error) {
	n := 3 * r.model.Beads()
	x, v := r.lane()
	after := make([]float64, n)
	g := r.splits[steps]
	if g == nil {
		var err error
		if g, err = r.splitGraph(steps); err != nil {
			return nil, err
		}
		r.splits[steps] = g
	}
	rep, err := rt.Run(ctx, g, weft.Bind("ints", r.ints), weft.Bind("reals", r.reals), weft.Bind("ladder", r.ladder),
		weft.Bind("before", x), weft.Bind("velocities", v), weft.Bind("after", after))
	if err != nil {
		return nil, err
	}
	for k := range n {
		for l := range lanes {
			r.after[k][l], r.after[n+k][l] = after[k], v[k]
		}
	}
	one := &group{portable: true}
	one.bind(r.tables, r.after[:n], r.after[n:])
	one.list()
	one.do(doForce)
	r.observed[0][seenEnergy] = one.args.energy
	for l := range lanes {
		r.observed[0][seenQ][l], r.observed[0][seenRg][l], r.observed[0][seenRMSD][l] = r.tables.q(after), protein.Rg(after), protein.RMSD(after, r.tables.xyz)
	}
	return rep, nil
}
