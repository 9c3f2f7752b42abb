package weft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/checkpoint/disk"
	"github.com/weft-run/weft/internal/memcopy"
	"github.com/weft-run/weft/internal/stage"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/task"
)

// saver takes the checkpoints of one computation. Its caller, which computes, calls it
// between two steps; the state is copied there and then, and written by a goroutine of the
// saver while the caller goes on. The copies stay, so that the next time only what differs
// is copied and written.
type saver struct {
	r      *Runtime
	meta   checkpoint.Meta
	store  *checkpoint.Store
	folder *disk.Folder
	copies map[string]*shadow
	held   int64         // steps that copies have; -1 while they are of no moment
	copied time.Time     // when the state was last copied; zero for never
	took   time.Duration // by that
	waited time.Duration // by copying since the last checkpoint
	last   time.Time     // when the last checkpoint was begun
	at     int64         // steps that the last one written has, or the one resumed; set while busy
	busy   chan struct{} // closed when what is being written is; nil before the first
	loaded bool          // a checkpoint was resumed, and is in copies
	began  bool          // what was resumed was accepted: from here on its name is used
	failed error         // why the last checkpoint was not written
	// settled says that the last checkpoint, which may be being written, has all that is kept.
	settled bool
	ending  bool          // the computation has ended; guarded by keeps.mu
	over    chan struct{} // closed when its last checkpoint is written too

	mu      sync.Mutex // guards the fields below
	waiting []chan error
}

// part is one part of the state.
type part struct {
	name string
	mem  []byte        // the caller's memory
	res  *resident     // in place of mem
	live []stage.Range // what matters of it; nil for all
}

func (p *part) bytes() int64 {
	if p.res != nil {
		return p.res.bytes
	}
	return int64(len(p.mem))
}

// read calls fn with the current value.
func (p *part) read(ctx context.Context, fn func(mem []byte)) error {
	if p.res != nil {
		return p.res.read(ctx, fn)
	}
	fn(p.mem)
	return nil
}

// shadow is the value that a part had when the last checkpoint was taken.
type shadow struct{ checkpoint.Source }

func newShadow(name string, bytes int64) *shadow {
	n := checkpoint.NumBlocks(bytes)
	return &shadow{checkpoint.Source{Name: name, Mem: disk.Aligned(bytes), Live: make([]bool, n), Dirty: make([]bool, n)}}
}

// mark notes which blocks have something in them that matters.
func (s *shadow) mark(live []stage.Range) {
	clear(s.Live)
	if live == nil {
		live = []stage.Range{{Lo: 0, Hi: int64(len(s.Mem))}}
	}
	for _, r := range live {
		for b := r.Lo / checkpoint.BlockBytes; b*checkpoint.BlockBytes < r.Hi; b++ {
			s.Live[b] = true
		}
	}
}

// has reports whether all that matters is in live blocks.
func (s *shadow) has(live []stage.Range) bool {
	all := shadow{checkpoint.Source{Mem: s.Mem, Live: make([]bool, len(s.Live))}}
	all.mark(live)
	for b, need := range all.Live {
		if need && !s.Live[b] {
			return false
		}
	}
	return true
}

// update copies the live blocks that differ, with several cores.
func (s *shadow) update(mem []byte) {
	memcopy.Each(len(s.Live), memcopy.Cores, func(b int) {
		lo := int64(b) * checkpoint.BlockBytes
		hi := lo + checkpoint.BlockSize(int64(len(s.Mem)), b)
		if s.Live[b] && !bytes.Equal(s.Mem[lo:hi], mem[lo:hi]) {
			memcopy.Copy(s.Mem[lo:hi], mem[lo:hi], 1)
			s.Dirty[b] = true
		}
	})
}

// newSaver begins to keep a computation. Where it is resumed, done is how many of its steps
// the checkpoint has, and s.restore gives its state.
func (r *Runtime) newSaver(meta checkpoint.Meta, sizes map[string]int64) (s *saver, done int64, err error) {
	if err := recognisable(meta, sizes); err != nil {
		return nil, 0, err
	}
	folder, err := r.keeps.begin(meta.Name)
	if err != nil {
		return nil, 0, err
	}
	s = &saver{r: r, meta: meta, folder: folder, copies: make(map[string]*shadow), held: -1, last: time.Now(), over: make(chan struct{})}
	defer func() {
		if err != nil {
			_ = folder.Close() // nothing was written
			r.keeps.free(meta.Name)
			err = fmt.Errorf("%w: %s: %w", ErrCheckpoint, meta.Name, err)
		}
	}()
	if s.store, err = checkpoint.Open(folder, folderName()); err != nil {
		return nil, 0, err
	}
	if r.keeps.resumes() {
		if done, err = s.resume(sizes); err != nil {
			return nil, 0, err
		}
	}
	return s, done, r.keeps.enter(s)
}

// resume reads the newest checkpoint that is whole, if there is any. sizes are those of all
// data there may be.
func (s *saver) resume(sizes map[string]int64) (int64, error) {
	m, refused, err := s.store.Restore(func(m *checkpoint.Manifest) (func(d *checkpoint.Data) []byte, error) {
		if why := checkpoint.Differ(m.Meta, s.meta); why != "" {
			return nil, fmt.Errorf("%w: %s", ErrOtherCheckpoint, why)
		}
		clear(s.copies)
		for _, d := range m.Data {
			if size, ok := sizes[d.Name]; !ok || size != d.Bytes {
				return nil, fmt.Errorf("%w: it has %s of %q, and there are %d here", ErrOtherCheckpoint, text.Count(d.Bytes, "byte"), d.Name, size)
			}
			c := newShadow(d.Name, d.Bytes)
			for b, at := range d.Blocks {
				c.Live[b] = at.File > 0
			}
			s.copies[d.Name] = c
		}
		return func(d *checkpoint.Data) []byte { return s.copies[d.Name].Mem }, nil
	})
	told := Saved{Name: s.meta.Name, Total: int(s.meta.Total), Resumed: true}
	for _, r := range refused {
		s.r.o.Log.Warn("a checkpoint cannot be used", "name", s.meta.Name, "err", r)
		told.Refused = append(told.Refused, r)
	}
	switch {
	case errors.Is(err, checkpoint.ErrNone) && len(refused) == 0:
		return 0, nil // killed before it had one
	case errors.Is(err, checkpoint.ErrNone):
		return 0, fmt.Errorf("%w; remove %s, or name another folder, to begin anew", err, s.r.keeps.o.Dir)
	}
	if err != nil {
		return 0, err
	}
	s.loaded, s.at, s.held = true, m.Done, m.Done
	told.Done, told.Finished, told.State = int(m.Done), m.Finished, m.Live()
	s.tell(told)
	return m.Done, nil
}

// restore gives a part the value that was resumed.
func (s *saver) restore(ctx context.Context, p part) error {
	if !s.loaded {
		return nil
	}
	c := s.copies[p.name]
	if c == nil || !c.has(p.live) {
		return fmt.Errorf("%w: it lacks this part of the state", ErrOtherCheckpoint)
	}
	live := p.live
	if live == nil {
		live = []stage.Range{{Lo: 0, Hi: p.bytes()}}
	}
	put := func(dst []byte) {
		for _, r := range live {
			memcopy.Copy(dst[r.Lo:r.Hi], c.Mem[r.Lo:r.Hi], memcopy.Cores)
		}
	}
	if p.res == nil {
		put(p.mem)
		return nil
	}
	var old []byte // what lies between
	if p.live != nil {
		if err := p.res.read(ctx, func(home []byte) { old = home }); err != nil {
			return err
		}
	}
	return p.res.replace(func(home []byte) {
		memcopy.Copy(home[:len(old)], old, memcopy.Cores)
		put(home)
	})
}

// prepare makes memory for the copies of parts, and has the system provide it meanwhile, so
// that the first checkpoint need not wait for that. Values of resident data come home by way of
// memory that is shared with devices (warm).
func (s *saver) prepare(state []part) {
	var fresh []*shadow
	var onTheWay []int64
	size := int64(0)
	for i := range state {
		p := &state[i]
		size += p.bytes()
		if s.copies[p.name] == nil {
			c := newShadow(p.name, p.bytes())
			s.copies[p.name] = c
			fresh = append(fresh, c)
		}
		if p.res != nil {
			onTheWay = append(onTheWay, p.bytes())
		}
	}
	busy := make(chan struct{})
	s.busy = busy
	provide := func() {
		defer close(busy)
		s.warm(onTheWay)
		for _, c := range fresh {
			for i := 0; i < len(c.Mem); i += checkpoint.AlignBytes {
				c.Mem[i] = 0
			}
		}
	}
	if size <= soonThere {
		provide()
		return
	}
	go provide()
}

// soonThere is the size of memory that the system provides within about 10 ms.
const soonThere = 16 << 20

// warm has the memory that devices share grow, unless it has room for buffers of some sizes, by taking and
// returning them. Otherwise the first checkpoint would wait for the system to provide it.
func (s *saver) warm(sizes []int64) {
	shared := s.r.x.Shared()
	if shared == nil || !s.r.hold() { // it may be closed meanwhile
		return
	}
	defer s.r.forget()
	for _, n := range sizes {
		if mem, err := shared.Get(n); err == nil {
			shared.Put(mem) // one at a time, as they come home: others may need the rest
		}
	}
}

// due reports whether it is time for a checkpoint: somebody asked for it, or it is time and
// the one before is written.
func (s *saver) due() bool {
	s.mu.Lock()
	asked := len(s.waiting) > 0
	s.mu.Unlock()
	if asked || s.r.keeps.o.Every < 0 {
		return asked
	}
	return s.idle() && time.Since(s.last) >= s.r.keeps.o.Every
}

// idle reports whether nothing is being written.
func (s *saver) idle() bool {
	select {
	case <-s.busy:
		return true
	default:
		return s.busy == nil
	}
}

// wait waits until nothing is being written.
func (s *saver) wait(ctx context.Context) {
	if s.busy != nil {
		task.Block(ctx, func() { <-s.busy })
	}
}

// ask has the next checkpoint taken as soon as may be. The answer comes when it is written.
func (s *saver) ask() chan error {
	answer := make(chan error, 1)
	s.mu.Lock()
	s.waiting = append(s.waiting, answer)
	s.mu.Unlock()
	return answer
}

// save takes a checkpoint: it copies the state and has it written, also when the context has
// ended. What goes wrong is logged and told.
func (s *saver) save(ctx context.Context, done int64, finished bool, state []part) {
	err := s.copy(ctx, done, state)
	s.settled = finished
	s.write(done, finished, state, err)
}

// copy copies the state after some steps, once what is being written is.
func (s *saver) copy(ctx context.Context, done int64, state []part) error {
	s.wait(ctx)
	ctx, cancel := s.r.bound(context.WithoutCancel(ctx))
	defer cancel()
	began := time.Now()
	defer func() {
		s.copied = time.Now()
		s.took = s.copied.Sub(began)
		s.waited += s.took
	}()
	s.held = -1
	for i := range state {
		p := &state[i]
		c := s.copies[p.name]
		if c == nil {
			c = newShadow(p.name, p.bytes())
			s.copies[p.name] = c
		}
		c.mark(p.live)
		if err := p.read(ctx, c.update); err != nil {
			return fmt.Errorf("%q: %w", p.name, err)
		}
	}
	s.held = done
	return nil
}

// holdPart is the part of the time that hold may take: a five-hundredth. Between checkpoints 10 s apart it
// then copies nothing that takes over 20 ms, which saves little there: a step that is ended costs what was computed since
// the last copy.
const holdPart = 500

// hold copies the state after a step that changed it in parts, for the case that the next one is ended amid its work: as soon
// as there is memory for it, and then as often as takes little of the time.
func (s *saver) hold(ctx context.Context, done int64, state []part) {
	if s.idle() && (s.copied.IsZero() || time.Since(s.copied) >= holdPart*s.took) {
		_ = s.copy(ctx, done, state) // what goes wrong is told by the next checkpoint
	}
}

// write has the copies of the state written, while nothing else is. failed is why there are
// none.
func (s *saver) write(done int64, finished bool, state []part, failed error) {
	s.mu.Lock()
	answers := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	s.last = time.Now()
	meta := s.meta
	meta.Done, meta.Finished, meta.Unix = done, finished, s.last.UnixNano()
	told := Saved{Name: meta.Name, Done: int(done), Total: int(meta.Total), Finished: finished, Held: s.waited, Err: failed}
	s.waited = 0
	if failed != nil {
		s.ended(told, answers)
		return
	}
	var sources []checkpoint.Source
	for i := range state {
		sources = append(sources, s.copies[state[i].name].Source)
	}
	began, busy := s.last.Add(-s.took), make(chan struct{})
	s.busy = busy
	go func() {
		defer close(busy)
		w, err := s.store.Write(meta, sources)
		told.Bytes, told.State, told.Took, told.Err = w.Bytes, w.Live, time.Since(began), err
		if err == nil {
			s.at = done
		}
		s.ended(told, answers)
	}()
}

// leave writes the state of a computation whose context has ended, if it went on since the
// last checkpoint, and waits for that: the program may be about to end. Where the state is not
// whole, for a step was ended amid its work, it is what was copied last.
func (s *saver) leave(ctx context.Context, done int64, whole bool, state []part) {
	s.wait(ctx)
	switch {
	case whole && done > s.at:
		s.save(ctx, done, false, state)
	case !whole && s.held > s.at:
		s.write(s.held, false, state, nil)
	}
	s.settled = true
	s.wait(ctx)
}

// ended tells everybody how a checkpoint went.
func (s *saver) ended(told Saved, answers []chan error) {
	if told.Err != nil {
		told.Err = fmt.Errorf("%w: %s: %w", ErrCheckpoint, told.Name, told.Err)
		level := slog.LevelWarn
		if s.failed != nil && s.failed.Error() == told.Err.Error() {
			level = slog.LevelDebug // it has been said
		}
		s.r.o.Log.Log(context.Background(), level, "a checkpoint was not written", "dir", s.r.keeps.o.Dir, "name", told.Name, "done", told.Done, "err", told.Err)
	} else {
		s.r.o.Log.Info("checkpoint written", "name", told.Name, "done", told.Done, "total", told.Total, "bytes", told.Bytes, "held", told.Held, "dur", told.Took)
	}
	s.failed = told.Err
	s.tell(told)
	for _, a := range answers {
		a <- told.Err
	}
}

func (s *saver) tell(told Saved) {
	if s.r.keeps.o.Saved != nil {
		s.r.keeps.o.Saved(told)
	}
}

// close ends the saver, once what is being written is.
func (s *saver) close() {
	if s == nil {
		return
	}
	s.r.keeps.mu.Lock()
	s.ending = true // from here on nobody asks
	closed := s.r.keeps.closed
	s.r.keeps.mu.Unlock()
	s.mu.Lock()
	late := s.waiting // since the last checkpoint was begun
	s.waiting = nil
	s.mu.Unlock()
	end := func() {
		_ = s.folder.Close() // its files are closed
		s.r.keeps.leave(s)
		close(s.over)
		for _, a := range late {
			if s.settled {
				a <- s.failed
			} else {
				a <- fmt.Errorf("%w: %s ended meanwhile", ErrCheckpoint, s.meta.Name)
			}
		}
	}
	if s.busy == nil || closed { // Close, which would wait, has gone by
		s.wait(context.Background())
		end()
		return
	}
	go func() {
		s.wait(context.Background())
		end()
	}()
}

// Steps calls step for 0 to total-1, one after another, and keeps the state in between as
// Options.Checkpoint says; without a folder it only calls step. State is the memory
// ([Bind]) and resident data ([Data.As]) that steps change, each with a name of its own; its
// first value is what it holds when Steps is called. Resumed, it holds what it held after
// the last step that was kept, and step is called from the next one on; after a computation
// that was finished it is not called at all. Resident data that a run had as secret
// (graph.Data.Secret) is refused; memory is written as it is, so no secret must be in it.
//
// What can be resumed is data and a number: a function cannot. A step must therefore depend
// on nothing that changes from step to step but the state and its number, and change nothing
// else: variables that it captures, random numbers without a seed made of its number, and files
// that it appends to are not in a checkpoint. It must have ended what it began, and not use
// the state after it has returned. The resumed result is then the same bytes, if what a step
// runs gives the same bytes each time.
//
// Nothing but step may use the state until Steps returns. An error of step ends it; the last
// checkpoint stays. That no checkpoint could be written is no error: see [Checkpoint].
//
// When the context ends, a last checkpoint is on the disk when Steps returns. Between two steps,
// or if all of the state is resident and the step that it ended had changed none of it, as with
// one run that was cancelled, it is of all steps that were done. A step that changes memory, or
// resident data by several runs, may have left half of its work there, which is in no checkpoint.
// After a step that did so Steps copies the state, as soon as there is memory for that and then as
// often as takes at most a five-hundredth of the time, and the last copy is written. After a step of
// another kind none is taken, and what a step leaves half done costs the steps since the last checkpoint.
// In a Go kernel of the runtime Steps is refused as Run is.
func (r *Runtime) Steps(ctx context.Context, keep Keep, total int, state []Binding, step func(ctx context.Context, i int) error) error {
	need("Steps", ctx, r == nil || step != nil)
	if r == nil {
		return errNoRuntime
	}
	if err := r.inKernel(ctx); err != nil {
		return err
	}
	parts, sizes, err := r.parts(state)
	if err != nil {
		return err
	}
	if total < 0 {
		return fmt.Errorf("%w: %d steps", ErrCheckpoint, total)
	}
	if r.keeps == nil {
		for i := range total {
			if ctx.Err() != nil {
				return endedAfter(keep, i, total, fmt.Errorf("%w: %w", context.Cause(ctx), ErrCancelled))
			}
			if err := step(ctx, i); err != nil {
				if ctx.Err() != nil {
					err = endedAfter(keep, i, total, err)
				}
				return err
			}
		}
		return nil
	}
	if err := noSecret(keep, parts); err != nil {
		return err
	}
	s, done, err := r.newSaver(checkpoint.Meta{Name: keep.Name, Params: paramsOf(keep.Params), Total: int64(total)}, sizes)
	if err != nil {
		return err
	}
	defer s.close()
	for _, p := range parts {
		if err := s.restore(ctx, p); err != nil {
			return fmt.Errorf("%w: %s: %q: %w", ErrCheckpoint, keep.Name, p.name, err)
		}
	}
	s.began = true
	if s.settled = s.loaded && int(done) == total; s.settled {
		return nil
	}
	s.prepare(parts)
	for i := int(done); i < total; i++ {
		if ctx.Err() != nil {
			s.leave(ctx, int64(i), true, parts)
			return endedAfter(keep, i, total, fmt.Errorf("%w: %w", context.Cause(ctx), ErrCancelled))
		}
		before := writesOf(parts)
		err := step(ctx, i)
		changed := changesOf(parts, before)
		secret := noSecret(keep, parts)
		if err != nil {
			if ctx.Err() != nil {
				if secret == nil {
					s.leave(ctx, int64(i), changed == unchanged && !errors.Is(err, ErrHeld), parts)
				}
				err = endedAfter(keep, i, total, err)
			}
			return err
		}
		if secret != nil {
			return secret
		}
		switch {
		case i+1 == total:
		case s.due():
			s.save(ctx, int64(i+1), false, parts)
		case changed == inParts:
			s.hold(ctx, int64(i+1), parts)
		}
	}
	s.save(ctx, int64(total), true, parts)
	return nil
}

// endedAfter says how far a computation was when its context ended.
func endedAfter(keep Keep, done, total int, err error) error {
	return fmt.Errorf("%s: ended after %d of %s: %w", keep.Name, done, text.Count(total, "step"), err)
}

// noSecret errs if a part of the state is secret, as far as runs have said: a checkpoint would write it to
// the disk.
func noSecret(keep Keep, state []part) error {
	for i := range state {
		if res := state[i].res; res != nil && res.secret.Load() {
			return fmt.Errorf("%w: %s: %q is secret in a graph that was run, and a checkpoint would write it to the disk", ErrCheckpoint, keep.Name, state[i].name)
		}
	}
	return nil
}

// changes says whether a step changed the state, and whether an interrupted step could have changed only part of it.
type changes int

const (
	unchanged changes = iota
	atOnce            // one run did, which leaves the state as it was if it is ended
	inParts           // several runs did, or it has memory: a step that is ended may leave half of its work
)

// writesOf counts the runs that changed each part of the state that is resident.
func writesOf(state []part) []int64 {
	n := make([]int64, len(state))
	for i := range state {
		if res := state[i].res; res != nil {
			n[i] = res.writes.Load()
		}
	}
	return n
}

// changesOf says how the state has changed since writesOf counted before.
func changesOf(state []part, before []int64) (c changes) {
	var by int64
	for i := range state {
		res := state[i].res
		if res == nil {
			return inParts
		}
		switch n := res.writes.Load() - before[i]; {
		case n == 0:
		case n > 1 || c == atOnce && res.by.Load() != by:
			return inParts
		default:
			c, by = atOnce, res.by.Load()
		}
	}
	return c
}

// parts makes parts of bindings.
func (r *Runtime) parts(state []Binding) (out []part, sizes map[string]int64, err error) {
	sizes = make(map[string]int64)
	for _, b := range state {
		p := part{name: b.Name, mem: b.mem, res: b.res}
		_, twice := sizes[b.Name]
		switch {
		case b.err != nil:
			return nil, nil, fmt.Errorf("%w: state %q: %w", ErrBinding, b.Name, b.err)
		case b.Name == "" || twice:
			return nil, nil, fmt.Errorf("%w: state %q: each needs a name of its own", ErrBinding, b.Name)
		case b.res != nil && b.res.r != r:
			return nil, nil, fmt.Errorf("%w: state %q: %q belongs to another runtime", ErrBinding, b.Name, b.res.name)
		case p.bytes() == 0:
			return nil, nil, fmt.Errorf("%w: state %q is empty", ErrBinding, b.Name)
		}
		sizes[b.Name] = p.bytes()
		out = append(out, p)
	}
	return out, sizes, nil
}
