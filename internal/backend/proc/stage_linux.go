package proc

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/memcopy"
)

// Copies between a device and host memory outside the arena go through the
// arena, part by part: while one part is on its way to the device, cores copy the
// next. The parts are operations on lanes of their own; the copy as the executor
// knows it becomes an operation without work, which waits for the last part on the
// way in, and on the way out for the parent to have copied the last part home.

const (
	// partBytes is the size of a part. The device waits for the first one to be copied, and
	// the program for the last: at 4 MiB that is 0.1 ms each, about what all else takes that
	// a copy begins and ends with.
	partBytes = 4 << 20
	parts     = 8 // in the arena at a time, each way
	// window is the number of parts that cores copy at a time. The others are on their way
	// between the arena and the device.
	window = parts / 2
	// pieceBytes is the part of a staged copy that one core copies at a time. Go's memmove writes
	// past the caches from 1 MiB on, which saves reading the destination. edgeBytes is the same for
	// the first and last part of a copy, which the device and the program wait for: all cores share
	// them.
	pieceBytes = 1 << 20
	edgeBytes  = 256 << 10
	maxCopiers = 8 // cores that share one copy
	// inline is up to which size a copy in is staged on the spot.
	inline = 64 << 10
)

// stagedCopy is a copy through the arena in parts. The device's lock guards start and err.
type stagedCopy struct {
	epoch int64 // of the device when it was given
	waits []driver.Wait
	after driver.Wait // must be complete first, however it ended
	buf   driver.Buffer
	off   int64
	host  []byte
	first uint32 // number of its first part
	n     int    // of parts
	home  uint32 // out: its number on the parent's own lane
	// direct says that host is of the arena: it is one part, and needs no copy.
	direct bool
	secret bool // what it leaves in the arena is overwritten
	start  time.Duration
	err    error // how a part failed
}

// stager works off the staged copies of one direction.
type stager struct {
	d     *device
	lane  *lane
	out   bool
	slots [parts]partMemory
	used  int       // parts staged, over all copies
	cond  sync.Cond // with the device's lock
	queue []*stagedCopy
	ended chan struct{}
	// copying is held for reading while memory outside the arena is touched.
	copying sync.RWMutex
}

// partMemory is memory for one part, and the part that used it last.
type partMemory struct {
	mem    []byte
	seq    uint32
	epoch  int64 // of the device then
	secret int   // leading bytes to overwrite
}

func newStager(d *device, l *lane, out bool) *stager {
	s := &stager{d: d, lane: l, out: out, ended: make(chan struct{})}
	s.cond.L = &d.mu
	return s
}

// add takes a copy over; the device's lock is held. It returns what the copy's own
// operation must wait for.
func (s *stager) add(j *stagedCopy) driver.Wait {
	j.epoch = s.d.epoch.Load()
	if j.n = (len(j.host) + partBytes - 1) / partBytes; j.direct {
		j.n = 1
	}
	j.first = s.lane.given + 1
	s.lane.given += uint32(j.n)
	w := driver.Wait{Lane: s.lane.id, Seq: s.lane.given}
	if s.out {
		s.d.homes++
		j.home = s.d.homes
		w = driver.Wait{Lane: s.d.homeLane, Seq: j.home}
	}
	s.queue = append(s.queue, j)
	s.cond.Signal()
	return w
}

// run is the stager's goroutine.
func (s *stager) run() {
	defer close(s.ended)
	d := s.d
	for {
		d.mu.Lock()
		for len(s.queue) == 0 && d.state != closedDown {
			s.cond.Wait()
		}
		if len(s.queue) == 0 {
			for _, x := range s.slots {
				if x.mem != nil {
					d.drv.o.Memory.Put(x.mem)
				}
			}
			d.mu.Unlock()
			return
		}
		j := s.queue[0]
		s.queue = s.queue[:copy(s.queue, s.queue[1:])]
		d.mu.Unlock()
		if s.out {
			s.copyOut(j)
		} else {
			s.copyIn(j)
		}
		if j.secret {
			s.wipe(j)
		}
	}
}

// wipe overwrites what a secret copy left in the arena, once the device is through with it.
func (s *stager) wipe(j *stagedCopy) {
	for i := range s.slots {
		if x := &s.slots[i]; x.secret > 0 {
			s.await(j, driver.Wait{Lane: s.lane.id, Seq: x.seq})
			clear(x.mem[:x.secret])
			x.secret = 0
		}
	}
}

// part is the memory of part i outside the arena.
func (j *stagedCopy) part(i int) []byte {
	return j.host[i*partBytes : min((i+1)*partBytes, len(j.host))]
}

// room returns memory in the arena for part i, once what used it before is
// through.
func (s *stager) room(j *stagedCopy, i int) (staged []byte, over bool) {
	x := &s.slots[s.used%parts]
	if x.mem != nil && x.epoch != j.epoch {
		// A worker that is lost may still write to it, until it is gone: such
		// memory is held back from others, and this slot gets another.
		s.d.drv.o.Memory.Put(x.mem)
		x.mem = nil
	}
	if x.mem == nil {
		mem, err := s.d.drv.o.Memory.Get(partBytes)
		if err != nil {
			s.d.mu.Lock()
			j.err = err
			s.d.mu.Unlock()
			return nil, false
		}
		x.mem = mem
	} else if _, over := s.await(j, driver.Wait{Lane: s.lane.id, Seq: x.seq}); over {
		return nil, true
	}
	x.seq, x.epoch = j.first+uint32(i), j.epoch
	if j.secret {
		x.secret = max(x.secret, len(j.part(i)))
	}
	s.used++
	return x.mem[:len(j.part(i))], false
}

// await waits for an operation; over says that the copy was given up.
func (s *stager) await(j *stagedCopy, w driver.Wait) (ok, over bool) {
	d := s.d
	ready := func() bool {
		done, good := d.board.State(w)
		ok = good
		over = d.epoch.Load() != j.epoch
		return done || over
	}
	for range spins {
		if ready() {
			return ok, over
		}
		runtime.Gosched()
	}
	d.board.Sleep(ready)
	return ok, over
}

// refused runs in place of a part that cannot be staged. No device has an implementation for it, so
// it fails.
var refused = &graph.Task{Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "a copy that cannot be staged"}}}}

// give submits part i: a copy, or without memory something that fails.
func (s *stager) give(j *stagedCopy, i int, staged []byte, waits []driver.Wait) (over bool) {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoch.Load() != j.epoch || d.state != up {
		return true
	}
	op := driver.Op{Kind: driver.Copy, Lane: s.lane.id, Seq: j.first + uint32(i), Waits: waits, Src: driver.NoBuffer, Dst: driver.NoBuffer, Secret: j.secret}
	off := j.off + int64(i)*partBytes
	switch op.Bytes = int64(len(staged)); {
	case staged == nil:
		op.Kind, op.Task = driver.Launch, refused
	case s.out:
		op.Src, op.SrcOff, op.HostDst = j.buf, off, staged
	default:
		op.Dst, op.DstOff, op.HostSrc = j.buf, off, staged
	}
	promised := s.lane.given
	d.send(s.lane, &op).staged = j
	s.lane.given = promised
	d.flush()
	return false
}

// touch has memory outside the arena copied, unless the copy was lost with its worker: its
// memory may then be in use for something else.
func (s *stager) touch(j *stagedCopy, copying func()) {
	s.copying.RLock()
	defer s.copying.RUnlock()
	if s.d.epoch.Load() == j.epoch {
		copying()
	}
}

// rest returns when no part of a copy that was given up is being copied.
func (s *stager) rest() {
	s.copying.Lock()
	defer s.copying.Unlock()
}

// copiers copy the parts of one copy with several cores. They start once for it, because
// waking cores for every part takes as long as copying it.
type copiers struct {
	s      *stager
	j      *stagedCopy
	pieces chan piece
	left   [parts]sync.WaitGroup // pieces of a part that are not copied yet
}

type piece struct {
	dst, src []byte
	left     *sync.WaitGroup
}

// copiers returns the goroutines of a copy. The caller ends them.
func (s *stager) copiers(j *stagedCopy) *copiers {
	c := &copiers{s: s, j: j, pieces: make(chan piece, partBytes/edgeBytes+window*partBytes/pieceBytes)}
	if j.n > 1 {
		for range min(maxCopiers, runtime.GOMAXPROCS(0), len(j.host)/pieceBytes) {
			go c.run()
		}
	}
	return c
}

func (c *copiers) run() {
	for p := range c.pieces {
		c.s.touch(c.j, func() { copy(p.dst, p.src) })
		p.left.Done()
	}
}

// add has part i copied. One of one part is copied at once.
func (c *copiers) add(i int, dst, src []byte) {
	if c.j.n == 1 {
		c.s.touch(c.j, func() { memcopy.Copy(dst, src, memcopy.Cores) })
		return
	}
	left, size := &c.left[i%parts], pieceBytes
	if i == 0 || i == c.j.n-1 {
		size = edgeBytes
	}
	for at := 0; at < len(src); at += size {
		end := min(at+size, len(src))
		left.Add(1)
		c.pieces <- piece{dst[at:end], src[at:end], left}
	}
}

// wait returns when part i, or the one before it in its place, is copied.
func (c *copiers) wait(i int) { c.left[i%parts].Wait() }

// end returns when nothing of it is being copied: its parts of the arena may then be used
// for something else.
func (c *copiers) end() {
	close(c.pieces)
	for i := range c.left {
		c.wait(i)
	}
}

// copyIn copies window parts ahead of the one that it gives to the device.
func (s *stager) copyIn(j *stagedCopy) {
	if _, over := s.await(j, j.after); over {
		return
	}
	fails := false
	for _, w := range j.waits {
		ok, over := s.await(j, w)
		if over {
			return
		}
		fails = fails || !ok
	}
	c := s.copiers(j)
	defer c.end()
	var staged [parts][]byte
	ahead := 0
	for i := range j.n {
		// If one of the waits failed, the worker sees that and fails the part.
		for ; !fails && ahead < min(j.n, i+window); ahead++ {
			mem, over := s.room(j, ahead)
			if over {
				return
			}
			// The part that had the memory before has ended. Nothing is copied for one that failed,
			// and the parts after it are given without memory, which fails the copy.
			if fails = ahead >= parts && !s.good(j, ahead-parts); fails {
				break
			}
			staged[ahead%parts] = mem
			c.add(ahead, mem, j.part(ahead)[:len(mem)])
		}
		c.wait(i)
		if s.give(j, i, staged[i%parts], s.partWaits(j, i)) {
			return
		}
		staged[i%parts] = nil
	}
}

// good reports whether a part has succeeded.
func (s *stager) good(j *stagedCopy, i int) bool {
	_, ok := s.d.board.State(driver.Wait{Lane: s.lane.id, Seq: j.first + uint32(i)})
	return ok
}

// partWaits are what part i of a copy in waits for. The copy ends as its last part does, so that
// one waits for those before it that nothing else has asked for how they ended.
func (s *stager) partWaits(j *stagedCopy, i int) []driver.Wait {
	waits := j.waits
	if i == j.n-1 {
		waits = slices.Clip(waits)
		for k := max(0, j.n-parts); k < i; k++ {
			waits = append(waits, driver.Wait{Lane: s.lane.id, Seq: j.first + uint32(k)})
		}
	}
	return waits
}

// copyOut asks for parts ahead of the one that comes home, and has it copied while the next
// one comes.
func (s *stager) copyOut(j *stagedCopy) {
	if _, over := s.await(j, j.after); over {
		return
	}
	if j.direct {
		// It may be asked for before the buffer it reads is made.
		for _, w := range j.waits {
			if _, over := s.await(j, w); over {
				return
			}
		}
		if s.give(j, 0, j.host, j.waits) {
			return
		}
		if ok, over := s.await(j, driver.Wait{Lane: s.lane.id, Seq: j.first}); !over {
			s.cameHome(j, ok)
		}
		return
	}
	c := s.copiers(j)
	defer c.end()
	var staged [parts][]byte
	fails := false
	ahead := 0
	for i := range j.n {
		for ; ahead < min(j.n, i+window); ahead++ {
			c.wait(ahead)
			mem, over := s.room(j, ahead)
			if over || s.give(j, ahead, mem, j.waits) {
				return
			}
			staged[ahead%parts] = mem
		}
		ok, over := s.await(j, driver.Wait{Lane: s.lane.id, Seq: j.first + uint32(i)})
		if over {
			return
		}
		if fails = fails || !ok; !fails {
			c.add(i, j.part(i), staged[i%parts])
		}
	}
	for i := range parts {
		c.wait(i)
	}
	s.cameHome(j, !fails)
}

// cameHome notes on the board, which all processes read, that a copy out is complete.
func (s *stager) cameHome(j *stagedCopy, ok bool) {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoch.Load() == j.epoch {
		d.board.Done(d.homeLane, j.home, !ok)
	}
}
