package weft

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/memcopy"
	"github.com/weft-run/weft/internal/stage"
	"github.com/weft-run/weft/trace"
)

// RunStages runs a graph as Run does and keeps what it has computed, as Options.Checkpoint
// says; without a folder it is Run. Resumed, it goes on from the last checkpoint and gives
// the bytes of a run that was never ended, for tasks that give the same bytes each time.
//
// The graph is run in stages: tasks that wait only for one another and for those of stages
// before, as many at a time as take about a quarter of the time between two checkpoints. A
// checkpoint has what later tasks still read and the outputs written so far. So a task must
// end for what it did to be kept, and between two stages devices that have nothing left to
// do wait for the others. When the context ends, what the stages before have computed is on the
// disk when RunStages returns, but for a kernel that does not return (ErrHeld).
//
// A checkpoint is of one graph with its inputs. It is resumed by the same graph, with the
// kernels it had, and inputs of the same bytes, on any devices that can run it; another one
// is refused, and the error says what differs. Data that the graph writes stays on devices
// until the end: the memory bound to an output has its value when RunStages has returned
// without an error. Only inputs and outputs may be bound. A graph with secret data
// (graph.Data.Secret), or to which resident data is bound that a run had as secret, is refused with
// ErrCheckpoint. In a Go kernel of the runtime it is refused as Run is.
func (r *Runtime) RunStages(ctx context.Context, keep Keep, g *graph.Graph, b ...Binding) (*Report, error) {
	need("RunStages", ctx, true)
	if r == nil {
		return nil, errNoRuntime
	}
	if err := r.inKernel(ctx); err != nil {
		return nil, err
	}
	p, err := r.resolve(g, b)
	if err != nil {
		return nil, err
	}
	if r.keeps == nil {
		return p.Run(ctx)
	}
	c, err := p.newCall(nil) // which sees that all is bound
	if err != nil {
		return nil, err
	}
	s := &staged{r: r, p: p, slots: c.slots, stages: stage.Of(g), made: make(map[graph.DataID]*Data[byte])}
	for i := range p.ports {
		if p.ports[i].inner {
			return nil, fmt.Errorf("%w: data %q is neither input nor output, and stages keep such data themselves", ErrBinding, p.ports[i].name)
		}
	}
	defer func() {
		for _, d := range s.made {
			d.Release()
		}
	}()
	return s.run(ctx, keep)
}

// staged is a graph that is run in stages.
type staged struct {
	r      *Runtime
	p      *Prepared // of the whole graph, never run
	slots  []Binding // by port
	stages *stage.Stages
	saver  *saver
	made   map[graph.DataID]*Data[byte] // resident data for what tasks write and the caller did not bind so
	rep    Report
	began  time.Time
	first  int // tasks that were done when it began
}

// run runs the stages that are not done yet and brings the outputs home.
func (s *staged) run(ctx context.Context, keep Keep) (*Report, error) {
	meta, sizes, err := s.identity(ctx, keep)
	if err != nil {
		return nil, err
	}
	var done int64
	if s.saver, done, err = s.r.newSaver(meta, sizes); err != nil {
		return nil, err
	}
	defer s.saver.close()
	if err := s.restore(ctx, int(done)); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCheckpoint, keep.Name, err)
	}
	s.saver.began = true
	s.began, s.first = time.Now(), int(done)
	s.rep.Devices = make([]trace.DeviceReport, len(s.r.names))
	total := s.stages.Tasks()
	finished := s.saver.loaded && int(done) == total
	s.saver.settled = finished
	tasks := s.least()
	for lo := int(done); lo < total; {
		hi := s.stages.End(lo, tasks)
		rep, err := s.stage(ctx, lo, hi)
		s.add(rep)
		if err != nil {
			if ctx.Err() != nil && !errors.Is(err, ErrHeld) {
				// A run that failed leaves resident data as it was.
				s.saver.leave(ctx, int64(lo), true, s.state(lo))
			}
			return s.report(), err
		}
		tasks = s.next(hi-lo, rep.Elapsed())
		lo = hi
		s.release(lo)
		if lo < total && s.saver.due() {
			s.saver.save(ctx, int64(lo), false, s.state(lo))
		}
	}
	if !finished {
		s.saver.save(ctx, int64(total), true, s.state(total))
	}
	return s.report(), s.deliver(ctx)
}

// minStage is the least time that stages are meant to take. To begin and end one takes some
// 100 µs.
const minStage = 10 * time.Millisecond

// least is the fewest tasks of a stage: two for each that devices run at a time, so that all
// of them have work for about as long.
func (s *staged) least() (n int) {
	for _, lanes := range s.r.lanes {
		n += 2 * max(lanes, 1)
	}
	return n
}

// next is how many tasks the next stage has: as many as are to take a quarter of the time
// between checkpoints, at most four times as many as before.
func (s *staged) next(tasks int, took time.Duration) int {
	target := max(s.r.keeps.o.Every/4, minStage)
	if s.r.keeps.o.Every < 0 {
		target = everyDefault / 4
	}
	if took <= target/(4*4) {
		return 4 * tasks
	}
	return max(s.least(), min(4*tasks, int(float64(tasks)*float64(target)/float64(took))))
}

// graphParam is the parameter that says which graph a checkpoint is of.
const graphParam = "graph"

// identity returns what must match before a checkpoint is resumed: parameters, input checksums and
// graph hash.
func (s *staged) identity(ctx context.Context, keep Keep) (meta checkpoint.Meta, sizes map[string]int64, err error) {
	for d := range s.p.g.NumData() {
		h, slot := s.p.g.Data(graph.DataID(d)), s.slot(graph.DataID(d))
		if h.Secret || slot != nil && slot.res != nil && slot.res.secret.Load() {
			return meta, nil, fmt.Errorf("%w: data %q is secret, and a checkpoint would write it, or a hash of it, to the disk; run the graph without one", ErrCheckpoint, h.Name)
		}
	}
	meta = checkpoint.Meta{Name: keep.Name, Params: paramsOf(keep.Params), Total: int64(s.stages.Tasks())}
	for i := range s.p.ports {
		port, slot := &s.p.ports[i], &s.slots[i]
		if !s.p.g.Data(port.data).Input {
			continue
		}
		var sum [sha256.Size]byte // a checksum would let inputs be made that it does not tell apart
		in := part{mem: slot.mem, res: slot.res}
		if err := in.read(ctx, func(mem []byte) { sum = sha256.Sum256(mem) }); err != nil {
			return meta, nil, fmt.Errorf("input %q: %w", port.name, err)
		}
		meta.Params = append(meta.Params, checkpoint.Param{Key: "input " + port.name, Value: "sha256 " + hex.EncodeToString(sum[:])})
	}
	src, err := graph.Encode(s.p.g)
	if err != nil {
		return meta, nil, fmt.Errorf("%w: the graph cannot be recognised again: %w", ErrCheckpoint, err)
	}
	hash := sha256.Sum256(src)
	meta.Params = append(meta.Params, checkpoint.Param{Key: graphParam, Value: "sha256 " + hex.EncodeToString(hash[:])})
	sizes = make(map[string]int64)
	for d := range s.p.g.NumData() {
		if h := s.p.g.Data(graph.DataID(d)); s.stages.Written(graph.DataID(d)) {
			if _, twice := sizes[h.Name]; twice || h.Name == "" {
				return meta, nil, fmt.Errorf("%w: data %q: to be kept, each that tasks write needs a name of its own", ErrCheckpoint, h.Name)
			}
			sizes[h.Name] = h.Bytes
		}
	}
	return meta, sizes, nil
}

// slot is what the caller has bound to data; nil for nothing.
func (s *staged) slot(d graph.DataID) *Binding {
	if i := s.p.at[d]; i >= 0 {
		return &s.slots[i]
	}
	return nil
}

// resident returns the resident data that stands for data which tasks write. It is made when
// it is first needed, with the caller's value if it is an input.
func (s *staged) resident(d graph.DataID) (*resident, error) {
	slot := s.slot(d)
	if slot != nil && slot.res != nil {
		return slot.res, nil
	}
	if s.made[d] == nil {
		h := s.p.g.Data(d)
		var err error
		if h.Input {
			s.made[d], err = Put(s.r, h.Name, slot.mem)
		} else {
			s.made[d], err = Alloc[byte](s.r, h.Name, int(h.Bytes))
		}
		if err != nil {
			delete(s.made, d)
			return nil, err
		}
	}
	return s.made[d].resident, nil
}

// state is what has to be kept after the tasks before at. All of it is resident.
func (s *staged) state(at int) (out []part) {
	for i := range s.p.g.NumData() {
		d := graph.DataID(i)
		if live := s.stages.Live(d, at); len(live) > 0 {
			res, _ := s.resident(d) // it was written, so it is there
			out = append(out, part{name: s.p.g.Data(d).Name, res: res, live: live})
		}
	}
	return out
}

// restore gives data the value it had after the tasks before at.
func (s *staged) restore(ctx context.Context, at int) error {
	if !s.saver.loaded {
		return nil
	}
	for i := range s.p.g.NumData() {
		d := graph.DataID(i)
		live := s.stages.Live(d, at)
		if len(live) == 0 {
			continue
		}
		res, err := s.resident(d)
		if err != nil {
			return err
		}
		name := s.p.g.Data(d).Name
		if err := s.saver.restore(ctx, part{name: name, res: res, live: live}); err != nil {
			return fmt.Errorf("data %q: %w", name, err)
		}
	}
	return nil
}

// stage runs the tasks lo to hi-1.
func (s *staged) stage(ctx context.Context, lo, hi int) (*Report, error) {
	g, bound, err := s.stages.Graph(lo, hi)
	if err != nil {
		return nil, err
	}
	var bs []Binding
	for _, d := range bound {
		if !s.stages.Written(d) {
			bs = append(bs, *s.slot(d))
			continue
		}
		res, err := s.resident(d)
		if err != nil {
			return nil, err
		}
		bs = append(bs, Binding{Name: s.p.g.Data(d).Name, res: res})
	}
	if fn, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		ctx = WithProgress(ctx, s.progress(fn, lo, hi))
	}
	return s.r.Run(ctx, g, bs...)
}

// progress makes of the progress of a stage that of the whole graph.
func (s *staged) progress(fn func(Progress), lo, hi int) func(Progress) {
	total := s.stages.Tasks()
	part := float64(hi-lo) / float64(total)
	began := float64(lo) / float64(total)
	first := float64(s.first) / float64(total)
	return func(p Progress) {
		p.Tasks, p.Done = total, p.Done+lo
		p.Part = began + p.Part*part
		p.Elapsed, p.Left = time.Since(s.began), -1
		if now := p.Part - first; now > 0 {
			p.Left = time.Duration(float64(p.Elapsed) * (1 - p.Part) / now)
		}
		fn(p)
	}
}

// release gives up data that no task from at on uses, but for outputs.
func (s *staged) release(at int) {
	for d, made := range s.made {
		if s.stages.Done(d, at) && !s.p.g.Data(d).Output {
			made.Release()
			delete(s.made, d)
			delete(s.saver.copies, s.p.g.Data(d).Name)
		}
	}
}

// deliver copies outputs to the memory that the caller bound.
func (s *staged) deliver(ctx context.Context) error {
	for i := range s.p.ports {
		port, slot := &s.p.ports[i], &s.slots[i]
		d := s.made[port.data]
		if !port.output || slot.res != nil || d == nil {
			continue
		}
		if err := d.read(ctx, func(home []byte) { memcopy.Copy(slot.mem, home, memcopy.Cores) }); err != nil {
			return fmt.Errorf("output %q: %w", port.name, err)
		}
	}
	return nil
}

// add counts the report of a stage.
func (s *staged) add(rep *Report) {
	if rep == nil {
		return
	}
	t := &s.rep
	if t.Tasks == 0 {
		t.Submitted, t.Started = rep.Submitted, rep.Started
	}
	t.Run, t.Ended = rep.Run, rep.Ended
	t.Tasks += rep.Tasks
	t.Executed += rep.Executed
	t.Retries += rep.Retries
	t.Replays += rep.Replays
	t.Moves += rep.Moves
	t.Copies += rep.Copies
	t.CopyBytes += rep.CopyBytes
	t.CopyTime += rep.CopyTime
	t.Evictions += rep.Evictions
	t.Commits += rep.Commits
	t.Verified += rep.Verified
	t.Unverified += rep.Unverified
	t.Wrong = append(t.Wrong, rep.Wrong...)
	t.VerifyErrors = append(t.VerifyErrors, rep.VerifyErrors[:min(len(rep.VerifyErrors), maxVerifyErrors-len(t.VerifyErrors))]...)
	t.LongestReplay = max(t.LongestReplay, rep.LongestReplay)
	for i := range rep.Devices {
		addDevice(&t.Devices[i], &rep.Devices[i])
		t.Devices[i].Health = rep.Devices[i].Health
	}
}

// report is the account of all stages that this process ran.
func (s *staged) report() *Report { return s.r.named(&s.rep) }
