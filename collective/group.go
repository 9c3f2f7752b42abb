package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// Loss says what an operation does when a device that takes part is lost. The
// survivors abort in every case, and what they had written of the results is
// written anew or must not be looked at.
type Loss uint8

const (
	// Again runs the operation once more on the devices left, with what all
	// ranks bring: it is in host memory, so nothing of it was lost. With
	// Options.Exact the result is the same bit by bit; else another order may
	// suit the devices left.
	Again Loss = iota
	// Fail returns a LostError.
	Fail
	// Without goes on with the ranks left: what the lost ones bring is left out
	// of the fold, an average is over those left, and what they would get is not
	// written. Only allreduce, reduce, broadcast and barrier can be done so, and
	// only while the root is there; others fail as with Fail.
	Without
)

// LostError is returned when a device was lost and the operation could not or
// was not to go on.
type LostError struct {
	Op      Op
	Devices []string // by name
	Ranks   []int
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%v: lost %v, which took part as rank %v", e.Op, e.Devices, e.Ranks)
}

// Options say who takes part and how.
type Options struct {
	// Devices are the names of the devices in the order of ranks; empty means
	// all of the runtime. A name may be there more than once.
	Devices []string
	// Algorithm is one of Algorithms, or empty. If empty, the devices' own
	// library runs the operation where they have one (Native), the calling
	// goroutine runs small operations in host memory (Inline), and for all
	// others the algorithm with the earliest predicted end is chosen for each size.
	Algorithm string
	// Exact asks for folds in the order of ranks.
	Exact bool
	// OnLoss says what to do when a device is lost.
	OnLoss Loss
}

// Group is the devices that take part in operations. It is safe for concurrent
// use.
type Group struct {
	rt   *weft.Runtime
	o    Options
	devs []machine.DeviceID // by rank
	cost machine.Cost

	mu      sync.Mutex // guards what is below; held for moments only
	plans   map[key]*ready
	lost    []bool // ranks whose device is known to be lost
	changes int    // of lost
	stats   [NumOps]Stats

	uses uses // of operations done inline that are in progress

	joining sync.Mutex // held while the devices join one another
	comm    uint64     // the communicator all have joined, or 0
	fails   int        // of native operations and of joining, in a row
	failure error      // the last of them
}

// key holds everything that a plan depends on within a group.
type key struct {
	op         Op
	count      int64
	typ        Type
	fold       Fold
	root, peer int
	lost       string
	comm       uint64
}

// ready is a plan to be run.
type ready struct {
	plan  *Plan
	run   *weft.Prepared
	ranks []int // of the group, for each of the plan
}

// keptPlans is the number of plans that are kept. One more, and all are dropped and
// made anew.
const keptPlans = 256

// New makes a group of devices of a runtime, which must have been opened with
// Funcs among its kernels.
func New(rt *weft.Runtime, o Options) (*Group, error) {
	if rt == nil {
		return nil, fmt.Errorf("collective group: %w: the runtime is nil; weft.Open returns one", ErrSpec)
	}
	m := rt.Machine()
	g := &Group{rt: rt, o: o, cost: machine.NewRoofline(m), plans: make(map[key]*ready)}
	for _, name := range o.Devices {
		d, ok := m.Lookup(name)
		if !ok || d == machine.Host {
			return nil, fmt.Errorf("collective group: %w: no device %q is open", ErrSpec, name)
		}
		g.devs = append(g.devs, d)
	}
	if len(o.Devices) == 0 {
		for i := range m.Devices {
			g.devs = append(g.devs, machine.DeviceID(i))
		}
	}
	if o.Algorithm != "" && !slices.Contains(Algorithms(), o.Algorithm) {
		return nil, fmt.Errorf("collective group: %w: unknown algorithm %q; use one of %v", ErrSpec, o.Algorithm, Algorithms())
	}
	g.lost = make([]bool, len(g.devs))
	return g, nil
}

// Size is the number of ranks.
func (g *Group) Size() int { return len(g.devs) }

// Plan works an operation out for the group without running it. Its Explain says what
// would be done and why, unless the operation is done inline. The group sets Ranks,
// Algorithm and Exact of the specification.
func (g *Group) Plan(s Spec) (*Plan, error) {
	s.Ranks = g.devs
	s = g.fill(s)
	s.Communicator = g.communicator(context.Background(), &s)
	return NewPlan(g.rt.Machine(), g.cost, s)
}

// Close gives up what the group holds of its devices' own library. The group may
// still be used.
func (g *Group) Close() {
	g.mu.Lock()
	comm := g.comm
	g.comm = 0
	g.mu.Unlock()
	if comm != 0 {
		g.rt.Leave(comm)
	}
}

// maxFails is the number of failures in a row after which the devices' own library is
// not used any more.
const maxFails = 3

// communicator returns what the devices have joined for an operation they could
// do by their own library, 0 if they could not.
func (g *Group) communicator(ctx context.Context, s *Spec) uint64 {
	if g.o.Algorithm != "" || s.Native(g.rt.Machine()) != nil || !slices.Equal(s.Ranks, g.devs) {
		return 0
	}
	g.joining.Lock()
	defer g.joining.Unlock()
	g.mu.Lock()
	comm, fails := g.comm, g.fails
	g.mu.Unlock()
	if comm != 0 || fails >= maxFails {
		return comm
	}
	comm, err := g.rt.Join(ctx, g.devs)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		g.fails, g.failure = g.fails+1, err
	}
	g.comm = comm
	return comm
}

// nativeEnded takes in how a native operation ended. After a failure, or when it
// was not waited for, its communicator is of no more use.
func (g *Group) nativeEnded(comm uint64, err error, cancelled bool) {
	g.mu.Lock()
	if err == nil {
		g.fails = 0
	} else if g.comm == comm {
		g.comm = 0
		if !cancelled {
			g.fails, g.failure = g.fails+1, err
		}
	}
	g.mu.Unlock()
	if err != nil {
		g.rt.Leave(comm)
	}
}

// Failure is why the devices' own library last failed where it could have been
// used, nil if it did not. The operation was then done without it.
func (g *Group) Failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failure
}

func (g *Group) fill(s Spec) Spec {
	s.Exact, s.Algorithm = g.o.Exact, g.o.Algorithm
	if s.Op == OpAllToAll || s.Op == OpSend {
		s.Algorithm = "" // there is only one algorithm
	}
	return s
}

// Result describes a finished operation.
type Result struct {
	Report    *weft.Report // of the run that succeeded; nil when there was none, as for Inline
	Algorithm string
	Lost      []string // devices that were lost or take no work, and done without
}

// Element lists the types of vector elements.
type Element interface {
	float32 | float64 | Half | BFloat | int32 | int64
}

// typeOf is the type of elements.
func typeOf[T Element]() Type {
	var x T
	switch any(x).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case Half:
		return F16
	case BFloat:
		return BF16
	case int32:
		return I32
	}
	return I64
}

// AllReduce folds the vectors of all ranks, in[r] for rank r, into each vector of
// out. All vectors have the same length, and none of out may overlap one of in. Like
// all operations it ends early when ctx does, and out is then undefined.
func AllReduce[T Element](ctx context.Context, g *Group, op Fold, in, out [][]T) (Result, error) {
	return do(ctx, g, Spec{Op: OpAllReduce, Fold: op, Count: longest(in)}, in, out)
}

// Reduce folds vectors into out, which belongs to the rank root.
func Reduce[T Element](ctx context.Context, g *Group, op Fold, root int, in [][]T, out []T) (Result, error) {
	return do(ctx, g, Spec{Op: OpReduce, Fold: op, Root: root, Count: longest(in)}, in, at(g, root, out))
}

// ReduceScatter folds vectors and gives rank r block r of the result, as
// Cut cuts it.
func ReduceScatter[T Element](ctx context.Context, g *Group, op Fold, in, out [][]T) (Result, error) {
	return do(ctx, g, Spec{Op: OpReduceScatter, Fold: op, Count: longest(in)}, in, out)
}

// Broadcast copies the vector of the rank root to all others; out[root] is not
// looked at.
func Broadcast[T Element](ctx context.Context, g *Group, root int, src []T, out [][]T) (Result, error) {
	out = slices.Clone(out)
	if root >= 0 && root < len(out) {
		out[root] = nil
	}
	return do(ctx, g, Spec{Op: OpBroadcast, Root: root, Count: int64(len(src))}, at(g, root, src), out)
}

// AllGather puts blocks, in[r] being block r of a vector as Cut cuts
// it, together into every one of out.
func AllGather[T Element](ctx context.Context, g *Group, in, out [][]T) (Result, error) {
	return do(ctx, g, Spec{Op: OpAllGather, Count: longest(out)}, in, out)
}

// AllToAll gives rank r block r of every vector, one after the other by rank.
func AllToAll[T Element](ctx context.Context, g *Group, in, out [][]T) (Result, error) {
	return do(ctx, g, Spec{Op: OpAllToAll, Count: longest(in)}, in, out)
}

// Send copies src, which one rank has, to dst, which another gets.
func Send[T Element](ctx context.Context, g *Group, from, to int, src, dst []T) (Result, error) {
	return do(ctx, g, Spec{Op: OpSend, Root: from, Peer: to, Count: int64(len(src))}, at(g, from, src), at(g, to, dst))
}

// Barrier returns when all devices have come to it: when each has run a task
// since the call.
func Barrier(ctx context.Context, g *Group) (Result, error) {
	none := make([][]int32, g.Size())
	return do(ctx, g, Spec{Op: OpBarrier}, none, none)
}

func longest[T any](xs [][]T) (n int64) {
	for _, x := range xs {
		n = max(n, int64(len(x)))
	}
	return n
}

// at is a slice of one rank among none of the others.
func at[T any](g *Group, rank int, x []T) [][]T {
	out := make([][]T, g.Size())
	if rank >= 0 && rank < len(out) {
		out[rank] = x
	}
	return out
}

// do checks the slices of an operation, and runs it until it succeeds or no device is
// left to run it on.
func do[T Element](ctx context.Context, g *Group, s Spec, in, out [][]T) (Result, error) {
	s.Type, s.Ranks = typeOf[T](), g.devs
	if err := checkSlices(&s, in, out); err != nil {
		return Result{}, err
	}
	began := time.Now()
	res, err := runUntilDone(ctx, g, s, in, out)
	g.count(&s, time.Since(began), err)
	return res, err
}

// runUntilDone is do after the slices are checked.
func runUntilDone[T Element](ctx context.Context, g *Group, s Spec, in, out [][]T) (Result, error) {
	// Only with Again is the result the same whichever devices are there.
	if s.Count > 0 && g.o.Algorithm == "" && g.o.OnLoss == Again && s.Inline(g.rt.Machine()) {
		if err := g.open(ctx); err != nil {
			return Result{}, fmt.Errorf("%v: %w", s.Op, err)
		}
		mine, err := claim(&g.uses, in, out)
		if err != nil {
			return Result{}, fmt.Errorf("%v: %w", s.Op, err)
		}
		defer g.uses.release(mine)
		inline(&s, in, out)
		return Result{Algorithm: Inline}, nil
	}
	var res Result
	native := true
	for {
		// Before it is worked out: another operation may find a loss meanwhile.
		known := g.known()
		r, err := g.prepare(ctx, s, &res, native)
		if err != nil || r.plan == nil {
			return res, err
		}
		res.Algorithm = r.plan.Spec.Algorithm
		bind := make([]weft.Binding, 0, 2*len(r.ranks))
		for k, rank := range r.ranks {
			if x := in[rank]; r.plan.Spec.InCount(k) > 0 {
				bind = append(bind, weft.Bind(InName(k), x))
			}
			if x := out[rank]; r.plan.Spec.OutCount(k) > 0 {
				bind = append(bind, weft.Bind(OutName(k), x))
			}
		}
		var again bool
		res.Report, again, err = g.run(ctx, r.run, bind, known)
		if res.Algorithm == Native {
			g.nativeEnded(r.plan.Spec.Communicator, err, ctx.Err() != nil)
			native = false // whatever failed: it is done without, then
			again = again || err != nil && ctx.Err() == nil
		}
		if !again {
			if err != nil {
				err = fmt.Errorf("%v by %s: %w", s.Op, res.Algorithm, err)
			}
			return res, err
		}
	}
}

// open returns an error if the context or the runtime has ended.
func (g *Group) open(ctx context.Context) error {
	select {
	case <-g.rt.Done():
		return weft.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), weft.ErrCancelled)
	}
	return nil
}

// checkSlices makes sure that ranks bring and get as many elements as they should,
// and that nothing is written over what may have to be read again.
func checkSlices[T Element](s *Spec, in, out [][]T) error {
	n := len(s.Ranks)
	if len(in) != n || len(out) != n {
		return fmt.Errorf("%v: %w: %d slices in and %d out for %s", s.Op, ErrSpec, len(in), len(out), text.Count(n, "rank"))
	}
	if s.Root < 0 || s.Root >= n || s.Peer < 0 || s.Peer >= n {
		return fmt.Errorf("%v: %w: rank %d or %d of %d; number ranks from 0", s.Op, ErrSpec, s.Root, s.Peer, n)
	}
	for r := range n {
		if want := s.InCount(r); int64(len(in[r])) != want {
			return fmt.Errorf("%v: %w: rank %d brings %s, must bring %d", s.Op, ErrSpec, r, text.Count(len(in[r]), "element"), want)
		}
		if want := s.OutCount(r); int64(len(out[r])) != want {
			return fmt.Errorf("%v: %w: rank %d gets %s, must get %d", s.Op, ErrSpec, r, text.Count(len(out[r]), "element"), want)
		}
		for q := range n {
			if overlap(in[q], out[r]) || q < r && overlap(out[q], out[r]) {
				return fmt.Errorf("%v: %w: the result of rank %d overlaps what rank %d has; give results memory of their own", s.Op, ErrSpec, r, q)
			}
		}
	}
	return nil
}

// prepare returns the plan of an operation for the devices that are there; one
// without a plan when there is nothing to do.
func (g *Group) prepare(ctx context.Context, s Spec, res *Result, native bool) (ready, error) {
	res.Lost = nil
	if g.anyLost() {
		if err := g.without(&s, res); err != nil {
			return ready{}, err
		}
	}
	if s.Count == 0 && s.Op != OpBarrier {
		return ready{}, nil
	}
	s = g.fill(s)
	if native {
		s.Communicator = g.communicator(ctx, &s)
	}
	g.mu.Lock()
	k := key{op: s.Op, count: s.Count, typ: s.Type, fold: s.Fold, root: s.Root, peer: s.Peer, lost: strings.Join(res.Lost, ","), comm: s.Communicator}
	r := g.plans[k]
	g.mu.Unlock()
	if r != nil {
		return *r, nil
	}
	ranks := make([]int, 0, len(g.devs))
	for rank := range g.devs {
		if g.o.OnLoss != Without || !slices.Contains(res.Lost, g.name(rank)) {
			ranks = append(ranks, rank)
		}
	}
	plan, err := NewPlan(g.rt.Machine(), g.cost, s)
	if err != nil {
		return ready{}, err
	}
	graph, err := plan.Graph()
	if err != nil {
		return ready{}, err
	}
	run, err := g.rt.Prepare(graph)
	if err != nil {
		return ready{}, fmt.Errorf("%v: %w (open the runtime with live.Funcs among its kernels)", s.Op, err)
	}
	r = &ready{plan, run, ranks}
	g.mu.Lock()
	if len(g.plans) >= keptPlans {
		clear(g.plans)
	}
	g.plans[k] = r
	g.mu.Unlock()
	return *r, nil
}

func (g *Group) name(rank int) string { return g.rt.Machine().Devices[g.devs[rank]].Name }

// known finds out which devices are lost, if one was when we last knew, and
// returns how often that has changed.
func (g *Group) known() (changes int) {
	g.mu.Lock()
	changes, lost := g.changes, slices.Contains(g.lost, true)
	g.mu.Unlock()
	if lost {
		return g.refresh()
	}
	return changes
}

// anyLost reports whether a device is known to be lost.
func (g *Group) anyLost() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.lost, true)
}

// refresh asks the runtime which devices are lost and returns how often that has
// changed.
func (g *Group) refresh() (changes int) {
	status := g.rt.Devices()
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := false
	for r, d := range g.devs {
		// One that takes no work would keep the others waiting as well.
		lost := !slices.Contains([]string{"healthy", "unresponsive"}, status[d].State)
		changed = changed || lost != g.lost[r]
		g.lost[r] = lost
	}
	if changed {
		g.changes++
	}
	return g.changes
}

// without makes an operation one of the devices left, as the options say.
func (g *Group) without(s *Spec, res *Result) error {
	g.mu.Lock()
	lost := slices.Clone(g.lost)
	g.mu.Unlock()
	err := &LostError{Op: s.Op}
	var left []int
	for r := range lost {
		if lost[r] {
			err.Ranks = append(err.Ranks, r)
			if !slices.Contains(err.Devices, g.name(r)) {
				err.Devices = append(err.Devices, g.name(r))
			}
		} else {
			left = append(left, r)
		}
	}
	res.Lost = err.Devices
	rooted := s.Op == OpReduce || s.Op == OpBroadcast
	can := s.Op == OpAllReduce || s.Op == OpBarrier || rooted && !lost[s.Root]
	switch {
	case len(left) == 0 || g.o.OnLoss == Fail || g.o.OnLoss == Without && !can:
		return err
	case g.o.OnLoss == Again:
		// The next one that is left stands in.
		s.Ranks = slices.Clone(s.Ranks)
		for _, r := range err.Ranks {
			heir := r
			for lost[heir] {
				heir = (heir + 1) % len(lost)
			}
			s.Ranks[r] = g.devs[heir]
		}
	default:
		s.Root = max(slices.Index(left, s.Root), 0) // where there is a root, it is left
		s.Ranks = nil
		for _, r := range left {
			s.Ranks = append(s.Ranks, g.devs[r])
		}
	}
	return nil
}

// watchEvery is the interval at which a running operation is checked for lost
// devices. A run waits for a lost device until its recovery is given up, which takes
// seconds; the other devices need not wait that long.
const watchEvery = 10 * time.Millisecond

// errAgain ends a run of which a device was lost.
var errAgain = errors.New("a device was lost")

// run runs a prepared operation; again says that which devices are lost has
// changed since it was worked out, at changes, and it is to be worked out anew.
func (g *Group) run(ctx context.Context, p *weft.Prepared, bind []weft.Binding, changes int) (rep *weft.Report, again bool, err error) {
	inner, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	watch := time.AfterFunc(watchEvery, func() {
		defer close(ended)
		for inner.Err() == nil {
			if g.refresh() != changes {
				cancel(errAgain)
				return
			}
			select {
			case <-inner.Done():
			case <-time.After(watchEvery):
			}
		}
	})
	rep, err = p.Run(inner, bind...)
	cancel(nil)
	if !watch.Stop() {
		<-ended
	}
	if err == nil || ctx.Err() != nil {
		return rep, false, err
	}
	// It may also have ended by itself because of a loss.
	return rep, g.refresh() != changes, err
}
