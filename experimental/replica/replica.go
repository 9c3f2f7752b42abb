package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Errors, for errors.Is.
var (
	// ErrOptions is wrapped by every error about options and strategies.
	ErrOptions = errors.New("bad replicas")
	// ErrSnapshot is returned when a snapshot is not one of this state.
	ErrSnapshot = errors.New("snapshot does not fit")
)

// Element lists the types of the elements of a state.
type Element interface{ float32 | float64 }

// Options say where replicas are and when and how they are merged.
type Options[T Element] struct {
	// Devices are the devices of the replicas; empty means one on every device
	// of the runtime. A device may have several.
	Devices  []string
	Strategy Strategy
	// Merge makes one state of all replicas: it writes out, which has the length
	// of each. Nil means their average, on the devices. Any other merge is done
	// on the host.
	Merge func(out []T, replicas [][]T)
	// Exact asks for averages added up in the order of replicas: the same updates
	// then give the same bits wherever replicas are. Without it the devices' own
	// library, such as NCCL, averages where each replica has a device of its own
	// that has one (collective.Native), in whatever order; elsewhere nothing
	// changes.
	Exact bool
	// Sample is on how many elements divergence is measured, spread over the
	// state in runs; 0 means 1024, or all of a smaller state. Fewer elements
	// are fewer bytes, and a coarser estimate.
	Sample int
	// Now tells the time for periodic strategies; nil means the clock.
	Now func() time.Duration
}

// Stats are what a state has done so far.
type Stats struct {
	Epoch   uint64 // merges so far, those before a snapshot that was restored included
	Updates int
	Pending int // updates since the last merge
	Checks  int // measurements of divergence
	// Bytes are what replicas had to send: 2(n-1) states for each merge of n
	// replicas, which is what an all-reduce needs, and the sample of each for
	// each check. Where devices share memory they are read in place.
	Bytes int64
}

// State is one state with a replica on each of several devices. It must be used
// by one goroutine at a time; runs that update different replicas may overlap.
type State[T Element] struct {
	rt      *weft.Runtime
	o       Options[T]
	n       int
	devices []machine.DeviceID
	now     []*weft.Data[T] // the replicas
	next    []*weft.Data[T] // what the next merge writes; the two change places
	merged  time.Duration   // when last
	stats   Stats
	// What is run for a merge and a check, nil when the replicas have changed.
	reduce, probe *weft.Prepared
	comm          uint64 // what the devices have joined for merging by their library, or 0
	failure       error  // why that library is left alone, until the replicas change
}

// New makes replicas of an initial state, which is epoch 0. The runtime must have
// been opened with the kernels of collective.Funcs. Release gives them up.
func New[T Element](rt *weft.Runtime, initial []T, o Options[T]) (*State[T], error) {
	if err := o.Strategy.Validate(); err != nil {
		return nil, err
	}
	if rt == nil {
		return nil, fmt.Errorf("replicas: %w: the runtime is nil; weft.Open returns one", ErrOptions)
	}
	if len(initial) == 0 || o.Sample < 0 {
		return nil, fmt.Errorf("replicas of %d elements, sample of %d: %w: there must be one at least, and a sample of 0 or more", len(initial), o.Sample, ErrOptions)
	}
	if len(o.Devices) == 0 {
		for _, d := range rt.Machine().Devices {
			o.Devices = append(o.Devices, d.Name)
		}
	}
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	if o.Sample == 0 {
		o.Sample = 1024
	}
	o.Sample = min(o.Sample, len(initial))
	s := &State[T]{rt: rt, o: o, n: len(initial)}
	s.merged = o.Now()
	for _, name := range o.Devices {
		if err := s.add(name, initial); err != nil {
			s.Release()
			return nil, err
		}
	}
	return s, nil
}

// add adds a replica with a value.
func (s *State[T]) add(device string, value []T) error {
	d, err := s.lookup(device)
	if err != nil {
		return err
	}
	now, err := weft.Put(s.rt, "replica on "+device, value)
	if err != nil {
		return err
	}
	next, err := weft.Alloc[T](s.rt, "next replica on "+device, s.n)
	if err != nil {
		now.Release()
		return err
	}
	s.devices, s.now, s.next = append(s.devices, d), append(s.now, now), append(s.next, next)
	s.changed()
	return nil
}

// changed forgets what was made for the replicas there were.
func (s *State[T]) changed() {
	s.part()
	s.probe, s.failure = nil, nil
}

// part has the devices leave one another's communicator, if they had joined one,
// and forgets the merge that used it.
func (s *State[T]) part() {
	if s.comm != 0 {
		s.rt.Leave(s.comm)
	}
	s.comm, s.reduce = 0, nil
}

// lookup finds a device that can have a replica.
func (s *State[T]) lookup(device string) (machine.DeviceID, error) {
	d, ok := s.rt.Machine().Lookup(device)
	if !ok || d == machine.Host {
		return d, fmt.Errorf("replica on %q: %w: no such device is open", device, ErrOptions)
	}
	return d, nil
}

// Size is the number of replicas.
func (s *State[T]) Size() int { return len(s.now) }

// Device is the name of the device of a replica: where tasks that update it
// should run.
func (s *State[T]) Device(r int) string { return s.rt.Machine().DeviceName(s.devices[r]) }

// Replica is a replica as resident data, for runs to bind. It is the same until
// the next merge, which puts another in its place: ask anew for each run.
func (s *State[T]) Replica(r int) *weft.Data[T] { return s.now[r] }

// Stats returns what the state has done so far.
func (s *State[T]) Stats() Stats { return s.stats }

// Outcome describes the effect of an update.
type Outcome struct {
	Merged bool
	Epoch  uint64 // after it
	// Divergence is the distance of the replicas, if it was measured.
	Divergence float64
}

// Updated says that every replica has been updated, and merges them if the
// strategy says so.
func (s *State[T]) Updated(ctx context.Context) (out Outcome, err error) {
	s.stats.Updates++
	s.stats.Pending++
	merge := false
	switch k := s.o.Strategy; k.Kind {
	case Periodic:
		merge = s.o.Now()-s.merged >= k.Every
	case Adaptive:
		if out.Divergence, err = s.Divergence(ctx); err != nil {
			return out, err
		}
		merge = !(out.Divergence <= k.Threshold) // also where it is no number
	case None:
	default:
		merge = true
	}
	if merge {
		if err := s.Sync(ctx); err != nil {
			return out, err
		}
	}
	out.Merged, out.Epoch = merge, s.stats.Epoch
	return out, nil
}

// Sync merges the replicas now, whatever the strategy, and begins a new epoch. If
// it fails, replicas and epoch are as they were.
func (s *State[T]) Sync(ctx context.Context) error {
	var err error
	switch {
	case s.Size() == 1:
	case s.o.Merge == nil:
		err = s.average(ctx)
	default:
		var value []T
		if value, err = s.merge(ctx); err == nil {
			err = s.set(slices.Repeat([][]T{value}, s.Size()))
		}
	}
	if err != nil {
		return fmt.Errorf("merge replicas: %w", err)
	}
	s.stats.Bytes += 2 * int64(s.Size()-1) * s.bytes()
	s.begin(s.stats.Epoch + 1)
	return nil
}

// begin begins an epoch.
func (s *State[T]) begin(epoch uint64) {
	s.stats.Epoch, s.stats.Pending, s.merged = epoch, 0, s.o.Now()
}

// bytes is the size of the state.
func (s *State[T]) bytes() int64 { return int64(s.n) * typeOf[T]().Size() }

func typeOf[T Element]() collective.Type {
	var x T
	if _, ok := any(x).(float64); ok {
		return collective.F64
	}
	return collective.F32
}

// average merges on the devices. What their own library fails to do is done
// without it.
func (s *State[T]) average(ctx context.Context) error {
	for {
		if s.reduce == nil {
			if err := s.prepare(ctx); err != nil {
				return err
			}
		}
		_, err := s.reduce.Run(ctx, s.bind(nil)...)
		if err == nil {
			s.now, s.next = s.next, s.now
			return nil
		}
		if s.comm == 0 {
			return err
		}
		s.part() // a communicator that failed, or was not waited for, is of no more use
		if ctx.Err() != nil {
			return err
		}
		s.failure = err
	}
}

// prepare works out how to average.
func (s *State[T]) prepare(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			s.part()
		}
	}()
	m := s.rt.Machine()
	spec := collective.Spec{
		Op: collective.OpAllReduce, Ranks: s.devices, Count: int64(s.n), Type: typeOf[T](), Fold: collective.Average, Exact: s.o.Exact,
	}
	if s.failure == nil && spec.Native(m) == nil {
		if s.comm, err = s.rt.Join(ctx, s.devices); err != nil {
			if ctx.Err() != nil {
				return err
			}
			s.failure = err
		}
	}
	spec.Communicator, spec.Exact = s.comm, s.comm == 0
	plan, err := collective.NewPlan(m, machine.NewRoofline(m), spec)
	if err != nil {
		return err
	}
	g, err := plan.Graph()
	if err != nil {
		return err
	}
	s.reduce, err = s.rt.Prepare(g)
	return err
}

// Failure is why the devices' own library is not used for merging where it could
// be, nil if there is no such reason. Replicas that join or leave let it be tried
// again.
func (s *State[T]) Failure() error { return s.failure }

// bind ties replicas to what a graph of collectives calls them, as inputs and,
// where out has nothing else, the next ones as outputs.
func (s *State[T]) bind(out [][]T) []weft.Binding {
	var b []weft.Binding
	for r := range s.now {
		b = append(b, s.now[r].As(collective.InName(r)))
		if out == nil {
			b = append(b, s.next[r].As(collective.OutName(r)))
		} else {
			b = append(b, weft.Bind(collective.OutName(r), out[r]))
		}
	}
	return b
}

// merge merges on the host.
func (s *State[T]) merge(ctx context.Context) ([]T, error) {
	all, err := s.values(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]T, s.n)
	if s.o.Merge != nil {
		s.o.Merge(out, all)
		return out, nil
	}
	copy(out, all[0])
	for _, x := range all[1:] {
		for i, v := range x {
			out[i] += v
		}
	}
	for i := range out {
		out[i] /= T(len(all))
	}
	return out, nil
}

// values copies all replicas to the host.
func (s *State[T]) values(ctx context.Context) ([][]T, error) {
	all := make([][]T, s.Size())
	for r, d := range s.now {
		var err error
		if all[r], err = d.Get(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// set gives all replicas values, or none.
func (s *State[T]) set(values [][]T) error {
	put := make([]*weft.Data[T], len(values))
	for r, v := range values {
		var err error
		if put[r], err = weft.Put(s.rt, "replica on "+s.Device(r), v); err != nil {
			for _, d := range put[:r] {
				d.Release()
			}
			return err
		}
	}
	for r := range put {
		s.now[r].Release()
	}
	s.now = put
	return nil
}

// probeRuns is in how many runs the elements of a sample lie.
const probeRuns = 16

// runs are the elements of the sample, spread evenly over the state.
func (s *State[T]) runs() (out [][2]int) {
	k := min(probeRuns, s.o.Sample)
	for i := range k {
		n := (i+1)*s.o.Sample/k - i*s.o.Sample/k
		lo := i * s.n / k
		out = append(out, [2]int{lo, lo + n})
	}
	return out
}

// Divergence returns how far replicas are apart: the largest ‖x_r − mean‖ ÷ ‖mean‖
// on the sample. It is infinite when the mean is zero and the replicas are not, and
// 0 for one replica or equal ones.
func (s *State[T]) Divergence(ctx context.Context) (float64, error) {
	s.stats.Checks++
	if s.Size() == 1 {
		return 0, nil
	}
	sample := make([][]T, s.Size())
	for r := range sample {
		sample[r] = make([]T, s.o.Sample)
	}
	if s.probe == nil {
		g, err := s.probeGraph()
		if err == nil {
			s.probe, err = s.rt.Prepare(g)
		}
		if err != nil {
			return 0, fmt.Errorf("measure divergence: %w", err)
		}
	}
	if _, err := s.probe.Run(ctx, s.bind(sample)...); err != nil {
		return 0, fmt.Errorf("measure divergence: %w", err)
	}
	s.stats.Bytes += int64(s.Size()*s.o.Sample) * typeOf[T]().Size()
	return divergence(sample), nil
}

// probeGraph copies the sample of every replica on its device.
func (s *State[T]) probeGraph() (*graph.Graph, error) {
	m, size := s.rt.Machine(), typeOf[T]().Size()
	cost := machine.NewRoofline(m)
	var b graph.Builder
	for r, d := range s.devices {
		in := b.Data(graph.Data{Name: collective.InName(r), Bytes: s.bytes(), Input: true})
		out := b.Data(graph.Data{Name: collective.OutName(r), Bytes: int64(s.o.Sample) * size, Output: true})
		at := int64(0)
		for _, run := range s.runs() {
			// An all-gather of one rank is a copy.
			n := int64(run[1] - run[0])
			plan, err := collective.NewPlan(m, cost, collective.Spec{Op: collective.OpAllGather, Ranks: []machine.DeviceID{d}, Count: n, Type: typeOf[T]()})
			if err != nil {
				return nil, err
			}
			plan.Add(&b, []collective.Buffer{{Data: in, Offset: int64(run[0]) * size}}, []collective.Buffer{{Data: out, Offset: at * size}})
			at += n
		}
	}
	return b.Build()
}

// divergence is the largest relative distance of any from their mean.
func divergence[T Element](all [][]T) float64 {
	var mean2 float64
	apart2 := make([]float64, len(all))
	for i := range all[0] {
		mean := 0.
		for _, x := range all {
			mean += float64(x[i])
		}
		mean /= float64(len(all))
		mean2 += mean * mean
		for r, x := range all {
			d := float64(x[i]) - mean
			apart2[r] += d * d
		}
	}
	most := slices.Max(apart2)
	if most == 0 {
		return 0
	}
	return math.Sqrt(most / mean2)
}

// Value returns the merge of the replicas at this moment. It changes nothing.
func (s *State[T]) Value(ctx context.Context) ([]T, error) {
	v, err := s.merge(ctx)
	if err != nil {
		return nil, fmt.Errorf("value of replicas: %w", err)
	}
	return v, nil
}

// Join adds a replica on a device. It gets what all others have: they are merged
// first if there are updates since the last merge, unless the strategy is none;
// then only the new one gets the merged state and the others stay as they are.
func (s *State[T]) Join(ctx context.Context, device string) error {
	if _, err := s.lookup(device); err != nil {
		return err // before anything is merged for it
	}
	if s.stats.Pending > 0 && s.o.Strategy.Kind != None {
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	get := s.merge
	if s.stats.Pending == 0 { // they are the same, and stay so to the last bit
		get = s.now[0].Get
	}
	value, err := get(ctx)
	if err != nil {
		return fmt.Errorf("join on %s: %w", device, err)
	}
	if err := s.add(device, value); err != nil {
		return err
	}
	s.stats.Bytes += s.bytes()
	return nil
}

// Leave gives a replica up, with the updates only it had: what goes on without a
// device that was lost. The last one must stay.
func (s *State[T]) Leave(r int) error {
	if r < 0 || r >= s.Size() || s.Size() == 1 {
		return fmt.Errorf("leave: %w: replica %d of %d; the last must stay", ErrOptions, r, s.Size())
	}
	s.now[r].Release()
	s.next[r].Release()
	s.devices, s.now, s.next = slices.Delete(s.devices, r, r+1), slices.Delete(s.now, r, r+1), slices.Delete(s.next, r, r+1)
	s.changed()
	return nil
}

// Snapshot is a state at one time: all replicas, with what was not merged yet.
type Snapshot[T Element] struct {
	Epoch    uint64
	Pending  int
	Replicas [][]T
}

// Snapshot copies the state to host memory.
func (s *State[T]) Snapshot(ctx context.Context) (*Snapshot[T], error) {
	all, err := s.values(ctx)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return &Snapshot[T]{Epoch: s.stats.Epoch, Pending: s.stats.Pending, Replicas: all}, nil
}

// Restore goes back to a snapshot, which may come from another State with as many
// replicas of the same length. A periodic strategy counts its time anew.
func (s *State[T]) Restore(snap *Snapshot[T]) error {
	if len(snap.Replicas) != s.Size() {
		return fmt.Errorf("restore: %w: it has %d replicas, the state has %d", ErrSnapshot, len(snap.Replicas), s.Size())
	}
	for r, x := range snap.Replicas {
		if len(x) != s.n {
			return fmt.Errorf("restore: %w: replica %d has %d elements, the state has %d", ErrSnapshot, r, len(x), s.n)
		}
	}
	if err := s.set(snap.Replicas); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	s.begin(snap.Epoch)
	s.stats.Pending = snap.Pending
	return nil
}

// Release gives the replicas up. The state must not be used after it.
func (s *State[T]) Release() {
	s.part()
	for r := range s.now {
		s.now[r].Release()
		s.next[r].Release()
	}
}
