package fold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// Frame is the state of a replica at the end of a round. A round has [Config.Every] steps.
type Frame struct {
	Step        int     `json:"step"`
	Replica     int     `json:"replica"`
	Temperature float64 `json:"temperature"` // at which it got there
	Energy      float64 `json:"energy"`      // in contact energies
	Q           float64 `json:"q"`           // the share of native contacts that it has
	Rg          float64 `json:"rg"`          // its radius of gyration, in angstrom
	RMSD        float64 `json:"rmsd"`        // from the native structure, turned to fit best, in angstrom
}

// Folded is the RMSD in angstrom below which, and the share of native contacts above which, a
// replica is folded.
const (
	FoldedRMSD = 1.5
	FoldedQ    = 0.9
)

// Folded reports whether the frame shows a folded chain.
func (f Frame) Folded() bool { return f.RMSD < FoldedRMSD && f.Q > FoldedQ }

// Run is a folding: replicas of a chain that begin straight.
type Run struct {
	c            Config
	name         string
	kept         string // its name in checkpoints
	structure    *protein.Structure
	model        *protein.Model
	tables       *tables
	ints         []int32
	reals        []float64
	temperatures []float64   // of the ladder in the first round
	moved        [][]float64 // ladders that a tuned one became
	groups       int

	// The state, which checkpoints keep.
	state  [][lanes]float64            // positions, then velocities, of each group
	last   [][lanes]float64            // the state before the last launch
	ladder [][rungCount][lanes]float64 // of the next round, by group
	rung   []int32                     // of each replica, in the next round
	seen   []float64                   // of each round and replica
	rungs  []int32                     // at which each replica got there
	trace  []float32                   // positions of the replica on the lowest rung after each round
	asked  []int64                     // pairs asked to exchange, and those that did
	best   []float64                   // positions of the frame with the lowest RMSD, and that
	other  []int32                     // 1 once devices that do not run the kernels in Go, and so round differently, took part

	after    [][lanes]float64
	observed [][seenCount][lanes]float64
	plans    map[int]*weft.Plan     // by steps
	splits   map[int]*graph.Graph   // of the one trajectory that is split, by steps
	devices  int                    // over which it is split
	most     int                    // steps of a launch
	among    *together              // runs that are folded at the same time; nil for none
	number   int                    // of this one among them
	prepared map[int]*weft.Prepared // rounds among others, by steps
	verified weft.Report            // what was verified, over all launches
	done     bool                   // all rounds
	heat     *Heat                  // that Heat returned last

	// The rounds that Rate counts: those of this process without the first, which brings kernels and
	// tables to devices, unless it is the only one.
	computed int // their steps, of each replica
	took     time.Duration
}

// New reads the structure and puts its replicas on straight lines.
func New(c Config) (*Run, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.settled()
	s, err := protein.Open(c.Structure, c.Select)
	if err != nil {
		return nil, err
	}
	return newRun(c, s)
}

// NewOf is New for a structure that was read already; c.Structure and c.Select do not matter.
func NewOf(c Config, s *protein.Structure) (*Run, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return newRun(c.settled(), s)
}

func newRun(c Config, s *protein.Structure) (*Run, error) {
	if s.Len() > maxBeads {
		return nil, fmt.Errorf("fold: %s has %d residues: %w: there may be %d", s.Name, s.Len(), workload.ErrConfig, maxBeads)
	}
	m, err := protein.ModelOf(s)
	if err != nil {
		return nil, err
	}
	if len(m.Contacts) == 0 {
		return nil, fmt.Errorf("fold: %s has no native contacts, so nothing holds it together: %w: take a folded structure", s.Name, workload.ErrConfig)
	}
	r := &Run{c: c, structure: s, model: m, name: s.Name, temperatures: c.temperatures(), plans: make(map[int]*weft.Plan), prepared: make(map[int]*weft.Prepared), splits: make(map[int]*graph.Graph), groups: (c.Replicas + lanes - 1) / lanes}
	r.tables, r.ints, r.reals = tablesOf(m)
	n := 3 * m.Beads()
	r.state, r.last, r.after = make([][lanes]float64, 2*n*r.groups), make([][lanes]float64, 2*n*r.groups), make([][lanes]float64, 2*n*r.groups)
	r.ladder, r.observed = make([][rungCount][lanes]float64, r.groups), make([][seenCount][lanes]float64, r.groups)
	r.rung, r.asked, r.other = make([]int32, c.Replicas), make([]int64, 2), make([]int32, 1)
	r.seen, r.rungs = make([]float64, r.Rounds()*c.Replicas*seenCount), make([]int32, r.Rounds()*c.Replicas)
	r.trace, r.best = make([]float32, r.Rounds()*n), make([]float64, n+1)
	r.best[n] = math.Inf(1)
	x, v := make([]float64, n), make([]float64, n)
	for i := range r.groups * lanes {
		replica := min(i, c.Replicas-1) // the last groups are filled with copies
		start(m, x, v, c.Seed, replica, r.temperatures[replica])
		r.rung[replica] = int32(replica)
		g, l := i/lanes, i%lanes
		for k := range n {
			r.state[2*n*g+k][l], r.state[2*n*g+n+k][l] = x[k], v[k]
		}
	}
	r.climb(0, nil)
	return r, nil
}

// climb sets the ladder of the next round, which begins at a step.
func (r *Run) climb(step int, scale []float64) {
	now := r.at(step / r.c.Every)
	for i := range r.groups * lanes {
		replica := min(i, r.c.Replicas-1)
		l := &r.ladder[i/lanes]
		l[rungTemperature][i%lanes], l[rungScale][i%lanes], l[rungStep][i%lanes] = now[r.rung[replica]], 1, float64(step)
		if scale != nil {
			l[rungScale][i%lanes] = scale[replica]
		}
	}
}

// Name describes the run in words; [Run.Structure] has the name of the structure alone.
func (r *Run) Name() string {
	at := fmt.Sprintf("temperature %.3g", r.c.Low)
	if r.c.exchanges() {
		at = fmt.Sprintf("temperatures %.3g to %.3g", r.c.Low, r.c.High)
	}
	replicas := fmt.Sprintf("%d replicas", r.c.Replicas)
	if r.c.Replicas == 1 {
		replicas = "1 replica"
	}
	return fmt.Sprintf("fold %s, %d residues, %d contacts, %s of %d steps at %s", r.name, r.model.Beads(), len(r.model.Contacts), replicas, r.c.Steps, at)
}

// Rounds returns the number of frames, after each of which replicas may exchange.
func (r *Run) Rounds() int { return (r.c.Steps + r.c.Every - 1) / r.c.Every }

// Done is the number of rounds that have been folded, here or before a run was resumed, after Do.
func (r *Run) Done() int {
	if r.done {
		return r.Rounds()
	}
	return int(r.ladder[0][rungStep][0]) / r.c.Every
}

// Model is the potential.
func (r *Run) Model() *protein.Model { return r.model }

// Structure returns the structure that was read.
func (r *Run) Structure() *protein.Structure { return r.structure }

// stepsOf is the number of steps of a round.
func (r *Run) stepsOf(round int) int { return min(r.c.Every, r.c.Steps-round*r.c.Every) }

// parts returns the number of steps of each launch of a round: one launch, or several if a launch may
// not have so many. The last launch of all is so short that Check can repeat it from the state before.
func (r *Run) parts(round int) []int {
	var out []int
	left, tail := r.stepsOf(round), 0
	if round+1 == r.Rounds() {
		tail = min(tailSteps, left, r.most)
	}
	for left -= tail; left > 0; left -= r.most {
		out = append(out, min(left, r.most))
	}
	if tail > 0 {
		out = append(out, tail)
	}
	return out
}

// tail is the number of steps of the last launch.
func (r *Run) tail() int { return r.c.Steps - int(r.ladder[0][rungStep][0]) }

// round is a number of steps as tasks.
func (r *Run) round(steps int) *round {
	c := r.tables.counts
	return &round{counts: c, replicas: r.c.Replicas, params: params{
		beads: c.beads, bonds: c.bonds, angles: c.angles, dihedrals: c.dihedrals, contacts: c.contacts, degree: c.degree,
		seed: r.c.Seed, steps: steps, dt: r.c.TimeStep, gamma: r.c.Friction, c1: math.Exp(-r.c.Friction * r.c.TimeStep),
	}}
}

// KeepAs gives the run a name in checkpoints, so that several can be kept in one folder; without one it is "run".
func (r *Run) KeepAs(name string) { r.kept = name }

// keep names the computation for checkpoints: what the result depends on.
func (r *Run) keep() weft.Keep {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	k := weft.Keep{Name: cmp.Or(r.kept, "run"), Params: map[string]string{
		"workload": "fold", "structure": r.name, "residues": fmt.Sprint(r.model.Beads()), "native": fmt.Sprintf("%x", r.fingerprint()),
		"steps": fmt.Sprint(r.c.Steps), "every": fmt.Sprint(r.c.Every), "replicas": fmt.Sprint(r.c.Replicas),
		"low": number(r.c.Low), "high": number(r.c.High), "seed": fmt.Sprint(r.c.Seed),
		"time_step": number(r.c.TimeStep), "friction": number(r.c.Friction),
	}}
	if r.c.Tuned {
		k.Params["ladder"] = "tuned in the first half"
	}
	if r.among != nil {
		k.Params["structures"] = r.among.names
		if r.number > 0 {
			k.Name = fmt.Sprintf("%s-%d", k.Name, r.number+1)
		}
	}
	return k
}

// fingerprint tells native structures from each other.
func (r *Run) fingerprint() uint64 {
	h := uint64(14695981039346656037)
	for _, v := range r.reals {
		h = (h ^ math.Float64bits(v)) * 1099511628211
	}
	return h
}

// replanned is the number of rounds between two plans, once the speeds of devices are known.
const replanned = 32

// Do folds on the devices of a runtime that was opened with [Funcs] among its kernels: groups
// of replicas are dealt out by the measured speed of the devices, round by round, and the
// state is kept between rounds as the runtime's checkpoints say. After each round it calls
// told with its number, from 0 on, unless that is nil. Do is called once.
func (r *Run) Do(ctx context.Context, rt *weft.Runtime, told func(round int)) error {
	if rt == nil {
		return fmt.Errorf("%s: the runtime is nil; weft.Open returns one", r.Name())
	}
	if _, err := workload.Able(rt.Machine(), r.tables.kernel()); err != nil {
		return fmt.Errorf("%s: %w", r.Name(), err)
	}
	if r.c.Split != SplitNever {
		if err := r.judgeSplit(ctx, rt); err != nil {
			return fmt.Errorf("%s: %w", r.Name(), err)
		}
	}
	other := r.c.Split == SplitNever && slices.ContainsFunc(rt.Machine().Devices, func(d machine.Device) bool { return !d.Runs(graph.Go) })
	r.most = maxSteps
	for _, d := range rt.Machine().Devices {
		if d.LoopRounds > 0 && r.tables.beads <= middleBeads {
			r.most = min(r.most, r.tables.stepsWithin(d.LoopRounds))
		}
	}
	if r.among != nil {
		if devices := r.hosts(rt); devices > 0 {
			r.most = min(r.most, r.shortSteps(devices))
		}
	}
	state := []weft.Binding{
		weft.Bind("state", r.state), weft.Bind("last", r.last), weft.Bind("ladder", r.ladder), weft.Bind("rung", r.rung),
		weft.Bind("seen", r.seen), weft.Bind("rungs", r.rungs), weft.Bind("trace", r.trace), weft.Bind("asked", r.asked),
		weft.Bind("best", r.best), weft.Bind("other", r.other),
	}
	ran := 0
	err := rt.Steps(ctx, r.keep(), r.Rounds(), state, func(ctx context.Context, i int) error {
		if ran++; ran == 2 {
			r.computed, r.took = 0, 0
		}
		if other {
			r.other[0] = 1
		}
		if err := r.one(ctx, rt, i); err != nil {
			return err
		}
		r.computed += r.stepsOf(i)
		if told != nil {
			told(i)
		}
		return nil
	})
	if errors.Is(err, weft.ErrNoFunc) {
		return fmt.Errorf("%s: %w: open the runtime with weft.Options{Funcs: fold.Funcs()}", r.Name(), weft.ErrNoFunc)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name(), err)
	}
	r.at(r.Rounds() - 1)
	r.done = true
	return nil
}

// one runs a round and exchanges temperatures.
func (r *Run) one(ctx context.Context, rt *weft.Runtime, i int) error {
	begin := time.Now()
	step := i * r.c.Every
	for k, n := range r.parts(i) {
		if k > 0 {
			r.climb(step, nil)
		}
		if err := r.launch(ctx, rt, i, n); err != nil {
			return err
		}
		step += n
	}
	r.note(i)
	r.took += time.Since(begin)
	return nil
}

// launchGroups advances all replicas by some steps of a round, group by group.
func (r *Run) launchGroups(ctx context.Context, rt *weft.Runtime, i, steps int) (*weft.Report, error) {
	bind := []weft.Binding{
		weft.Bind("ints", r.ints), weft.Bind("reals", r.reals), weft.Bind("ladder", r.ladder),
		weft.Bind("before", r.state), weft.Bind("after", r.after), weft.Bind("seen", r.observed),
	}
	if r.among != nil {
		if devices := r.hosts(rt); devices > 0 {
			return r.launchAmong(ctx, rt, i, steps, devices, bind)
		}
	}
	plan := r.plans[steps]
	if plan == nil || i < 4 || i%replanned == 0 {
		round := r.round(steps)
		// Not streamed: a GPU takes as long for a part of the replicas as for all that it has room for.
		p, err := rt.Plan(ctx, weft.Divisible{Items: round.items(), Whole: round.task(0, int64(r.groups)), Graph: round.graph, Bind: bind})
		if err != nil {
			return nil, err
		}
		r.plans[steps], plan = p, p
	}
	return rt.Run(ctx, plan.Graph, bind...)
}

// launch advances all replicas by some steps of a round.
func (r *Run) launch(ctx context.Context, rt *weft.Runtime, i, steps int) error {
	with := r.launchGroups
	if r.c.Split != SplitNever {
		with = r.launchSplit
	}
	rep, err := with(ctx, rt, i, steps)
	if err != nil {
		return err
	}
	v := &r.verified
	v.Verified, v.Unverified = v.Verified+rep.Verified, v.Unverified+rep.Unverified
	v.Wrong, v.VerifyErrors = append(v.Wrong, rep.Wrong...), append(v.VerifyErrors, rep.VerifyErrors...)
	if err := r.nowhere(uint64(r.ladder[0][rungStep][0]) + uint64(steps)); err != nil {
		return err
	}
	copy(r.last, r.state)
	copy(r.state, r.after)
	return nil
}

// nowhere errs if a replica has no finite energy after a step, because its beads have no positions:
// kernels on a GPU cannot return an error.
func (r *Run) nowhere(step uint64) error {
	n := 3 * r.model.Beads()
	for k := range r.c.Replicas {
		g, l := k/lanes, k%lanes
		if e := r.observed[g][seenEnergy][l]; !math.IsNaN(e) && !math.IsInf(e, 0) {
			continue
		}
		for q := range n {
			if !(math.Abs(r.after[2*n*g+q][l]) <= 1e12) {
				return &errNowhere{step, k, q / 3}
			}
		}
	}
	return nil
}

// note records a round and lets replicas exchange temperatures.
func (r *Run) note(i int) {
	energy, scale := make([]float64, r.c.Replicas), []float64(nil)
	for k := range r.c.Replicas {
		at := r.seen[(i*r.c.Replicas+k)*seenCount:][:seenCount]
		for q := range at {
			at[q] = r.observed[k/lanes][q][k%lanes]
		}
		energy[k] = at[seenEnergy]
	}
	copy(r.rungs[i*r.c.Replicas:], r.rung)
	n := 3 * r.model.Beads()
	for k, v := range r.positions(slices.Index(r.rung, 0)) {
		r.trace[i*n+k] = float32(v)
	}
	for k := range r.c.Replicas {
		if f := r.Frame(i, k); f.RMSD < r.best[n] {
			copy(r.best, r.positions(k))
			r.best[n] = f.RMSD
		}
	}
	if r.c.exchanges() && i+1 < r.Rounds() {
		scale = make([]float64, r.c.Replicas)
		now := r.at(i)
		asked, done := exchange(r.rung, scale, energy, now, r.c.Seed, i)
		r.asked[0] += int64(asked)
		r.asked[1] += int64(done)
		if next := r.at(i + 1); &next[0] != &now[0] {
			for k, t := range r.rung {
				scale[k] *= math.Sqrt(next[t] / now[t])
			}
		}
		if i+1 == r.Tuned() {
			r.asked[0], r.asked[1] = 0, 0
		}
	}
	if i+1 < r.Rounds() {
		r.climb((i+1)*r.c.Every, scale)
	}
}

// positions returns the present positions of a replica.
func (r *Run) positions(replica int) []float64 {
	n := 3 * r.model.Beads()
	x := make([]float64, n)
	for k := range x {
		x[k] = r.state[2*n*(replica/lanes)+k][replica%lanes]
	}
	return x
}

// Frame returns the observables of a replica at the end of a round.
func (r *Run) Frame(round, replica int) Frame {
	at := round*r.c.Replicas + replica
	s := r.seen[at*seenCount:][:seenCount]
	return Frame{
		Step: min((round+1)*r.c.Every, r.c.Steps), Replica: replica, Temperature: r.at(round)[r.rungs[at]],
		Energy: s[seenEnergy], Q: s[seenQ], Rg: s[seenRg], RMSD: s[seenRMSD],
	}
}

// Best is the frame with the lowest RMSD of the first rounds; [Run.Rounds] is all of them.
func (r *Run) Best(rounds int) Frame {
	best := r.Frame(0, 0)
	for i := range rounds {
		for k := range r.c.Replicas {
			if f := r.Frame(i, k); f.RMSD < best.RMSD {
				best = f
			}
		}
	}
	return best
}

// Folded is the first frame of each replica in which it is folded, of those that came to it within the
// first rounds.
func (r *Run) Folded(rounds int) []Frame {
	var out []Frame
	for k := range r.c.Replicas {
		for i := range rounds {
			if f := r.Frame(i, k); f.Folded() {
				out = append(out, f)
				break
			}
		}
	}
	return out
}

// Exchanges returns the numbers of pairs of replicas that were asked to exchange temperatures and that did,
// without the rounds in which a ladder was tuned.
func (r *Run) Exchanges() (asked, done int) { return int(r.asked[0]), int(r.asked[1]) }

// Rate is the steps of replicas per second in the rounds that Do ran. The first round does not count,
// because it brings kernels to devices, unless it is the only one.
func (r *Run) Rate() float64 {
	if r.took == 0 {
		return 0
	}
	return float64(r.computed) * float64(r.c.Replicas) / r.took.Seconds()
}

// Verified returns the counts of verified tasks, of wrong results and of errors of second
// executions, over all rounds that Do ran. The other fields of the report are zero.
func (r *Run) Verified() weft.Report { return r.verified }

// Positions are the coordinates of the beads of a replica after the last round.
func (r *Run) Positions(replica int) []float64 { return r.positions(replica) }

// Replicas is their number.
func (r *Run) Replicas() int { return r.c.Replicas }

// Temperatures returns the ladder, from the lowest temperature on; each replica begins at its own.
// For a tuned ladder it returns the final temperatures once Do has ended.
func (r *Run) Temperatures() []float64 {
	if !r.done {
		return slices.Clone(r.temperatures)
	}
	return slices.Clone(r.at(r.Rounds() - 1))
}

// Lowest is the frame of a round at the lowest temperature.
func (r *Run) Lowest(round int) Frame {
	return r.Frame(round, slices.Index(r.rungs[round*r.c.Replicas:][:r.c.Replicas], 0))
}
