package cuda

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

var ncclNames = []string{"libnccl.so.2", "libnccl.so"}

// nccl is NVIDIA's library for collectives, opened when first needed.
type nccl struct {
	once sync.Once
	err  error

	errorString, uniqueID, initRank, initConfig, asyncError, abort        proc
	groupStart, groupEnd                                                  proc
	allReduce, reduce, reduceScatter, broadcast, allGather, send, receive proc
}

func (n *nccl) open(folders []string) error {
	n.once.Do(func() {
		lib, err := open(folders, ncclNames...)
		if err != nil {
			n.err = err
			return
		}
		n.errorString, n.initConfig = lib.bind("ncclGetErrorString"), lib.bind("ncclCommInitRankConfig")
		for _, b := range []struct {
			to   *proc
			name string
		}{
			{&n.uniqueID, "ncclGetUniqueId"}, {&n.initRank, "ncclCommInitRank"}, {&n.abort, "ncclCommAbort"},
			{&n.asyncError, "ncclCommGetAsyncError"}, {&n.groupStart, "ncclGroupStart"}, {&n.groupEnd, "ncclGroupEnd"},
			{&n.allReduce, "ncclAllReduce"}, {&n.reduce, "ncclReduce"}, {&n.reduceScatter, "ncclReduceScatter"},
			{&n.broadcast, "ncclBroadcast"}, {&n.allGather, "ncclAllGather"}, {&n.send, "ncclSend"}, {&n.receive, "ncclRecv"},
		} {
			if *b.to = lib.bind(b.name); b.to.addr == 0 {
				n.err = fmt.Errorf("%s has no %s; install a newer one", lib.path, b.name)
			}
		}
	})
	return n.err
}

// inProgress is the result of a call that goes on after it has returned.
const inProgress = 7

// result makes an error of a result; nil for success and for what goes on.
func (n *nccl) result(f *frame, p *proc, code int32) error {
	if code == 0 || code == inProgress {
		return nil
	}
	text := ""
	if n.errorString.addr != 0 {
		text = cString(f.call(&n.errorString, uintptr(code)), 256)
	}
	return fmt.Errorf("%w: %s: NCCL result %d: %s", driver.ErrKernel, p.name, code, text)
}

func (n *nccl) do(f *frame, p *proc, args ...uintptr) error {
	return n.result(f, p, int32(f.call(p, args...)))
}

// ncclID is ncclUniqueId.
type ncclID [128]byte

// ncclConfig is ncclConfig_t as of version 2.14, the first that has one. Later
// versions fill in the fields that are missing here.
type ncclConfig struct {
	size           uint64
	magic, version uint32
	blocking       int32
	_              int32
}

// communicator is the device's place among others.
type communicator struct {
	ranks, rank int
	mu          sync.Mutex // held during calls about handle
	handle      uintptr    // 0 once it was aborted
	left        atomic.Bool
}

// errLeft is the error of operations on a communicator that was given up.
var errLeft = fmt.Errorf("%w: its communicator was given up", driver.ErrDependency)

// joinLook is the interval between checks of a communicator in the making.
const joinLook = 200 * time.Microsecond

// init makes a communicator's handle. What it waits for is all ranks, so it is
// made without blocking where the library can, and given up when stop says so.
// The name goes by value: on the stack for x86, by address for ARM.
func (n *nccl) init(f *frame, c *communicator, id ncclID, stop func() error) error {
	p, config := &n.initConfig, put(f, 20, ncclConfig{size: 24, magic: 0xcafebeef, version: 21400, blocking: 0})
	if p.addr == 0 {
		p, config = &n.initRank, 0
	}
	args := []uintptr{f.at(0), uintptr(c.ranks)}
	if runtime.GOARCH == "amd64" {
		args = append(args, uintptr(c.rank), config, 0, 0)
		for i := 0; i < len(id); i += 8 {
			args = append(args, uintptr(binary.NativeEndian.Uint64(id[i:])))
		}
	} else {
		args = append(args, put(f, 1, id), uintptr(c.rank), config)
	}
	err := n.do(f, p, args...)
	c.handle = uintptr(f.out[0])
	if err == nil {
		err = n.settle(f, c, stop)
	}
	if err != nil {
		n.end(f, c)
	}
	return err
}

// settle waits for what a call began. The communicator's lock is held.
func (n *nccl) settle(f *frame, c *communicator, stop func() error) error {
	for {
		if err := n.do(f, &n.asyncError, c.handle, f.at(0)); err != nil {
			return err
		}
		if code := f.i32(0); code != inProgress {
			return n.result(f, &n.asyncError, code)
		}
		if err := stop(); err != nil {
			return err
		}
		nap(joinLook)
	}
}

// end gives a communicator up; the lock is held. Kernels that wait for other
// ranks end by it.
func (n *nccl) end(f *frame, c *communicator) {
	if c.handle != 0 {
		_ = n.do(f, &n.abort, c.handle) // it is of no use after that in any case
		c.handle = 0
	}
}

// communicators are those a device has joined, by number.
type communicators struct {
	mu     sync.Mutex
	by     map[uint64]*communicator
	busy   sync.WaitGroup // joining and leaving
	closed bool
}

// find returns a communicator.
func (cs *communicators) find(number uint64) *communicator {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.by[number]
}

// enter begins something close has to wait for.
func (cs *communicators) enter() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !cs.closed {
		cs.busy.Add(1)
	}
	return !cs.closed
}

// CollectiveID makes a name for Join.
func (d *device) CollectiveID() (id []byte, err error) {
	err = d.within(func(f *frame) error {
		if err := d.nccl.open(d.o.LibraryPath); err != nil {
			return err
		}
		id = make([]byte, len(ncclID{}))
		return d.nccl.do(f, &d.nccl.uniqueID, f.bytes(id))
	})
	if err != nil {
		return nil, fmt.Errorf("cuda: collective on %s: %w", d.info.Name, err)
	}
	return id, nil
}

// Join makes the device a rank of a communicator, which nccl routines name by
// its number.
func (d *device) Join(ctx context.Context, number uint64, id []byte, ranks, rank int) error {
	if len(id) != len(ncclID{}) || ranks < 1 || rank < 0 || rank >= ranks {
		return fmt.Errorf("cuda: join as rank %d of %d with a name of %d bytes: names have %d", rank, ranks, len(id), len(ncclID{}))
	}
	cs := &d.comms
	if !cs.enter() {
		return fmt.Errorf("cuda: join on %s: %w", d.info.Name, driver.ErrClosed)
	}
	defer cs.busy.Done()
	c := &communicator{ranks: ranks, rank: rank}
	cs.mu.Lock()
	_, there := cs.by[number]
	if cs.by == nil {
		cs.by = make(map[uint64]*communicator)
	}
	if !there {
		cs.by[number] = c
	}
	cs.mu.Unlock()
	if there {
		return fmt.Errorf("cuda: join on %s: communicator %d is there already", d.info.Name, number)
	}
	err := d.within(func(f *frame) error {
		if err := d.nccl.open(d.o.LibraryPath); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return d.nccl.init(f, c, ncclID(id), func() error {
			if c.left.Load() {
				return errLeft
			}
			return context.Cause(ctx)
		})
	})
	if err != nil {
		d.Leave(number)
		return fmt.Errorf("cuda: join on %s as rank %d of %d: %w", d.info.Name, rank, ranks, err)
	}
	return nil
}

// Leave ends a communicator, in the background: kernels that wait for other ranks
// are told to end, and the library waits for them.
func (d *device) Leave(number uint64) {
	cs := &d.comms
	cs.mu.Lock()
	c := cs.by[number]
	delete(cs.by, number)
	cs.mu.Unlock()
	if c == nil || c.left.Swap(true) || d.dead.Load() != nil || !cs.enter() {
		return
	}
	go func() {
		defer cs.busy.Done()
		_ = d.within(func(f *frame) error { // without a context there is nothing to end
			c.mu.Lock()
			defer c.mu.Unlock()
			d.nccl.end(f, c)
			return nil
		})
	}()
}

// leaveAll leaves every communicator.
func (d *device) leaveAll() {
	d.comms.mu.Lock()
	numbers := slices.Collect(maps.Keys(d.comms.by))
	d.comms.mu.Unlock()
	for _, n := range numbers { // in any order: they are independent
		d.Leave(n)
	}
}

// closeComms ends all communicators and waits for who still joins or leaves.
func (d *device) closeComms(f *frame) {
	d.leaveAll()
	cs := &d.comms
	cs.mu.Lock()
	cs.closed = true
	for _, c := range cs.by { // in any order: they are independent
		c.left.Store(true)
	}
	cs.mu.Unlock()
	cs.busy.Wait()
	for _, c := range cs.by {
		d.nccl.end(f, c)
	}
	clear(cs.by)
}

// members is a collective operation as one rank of it takes part.
type members struct {
	*communicator
	send, receive uintptr // where its data begins; 0 for none
	count         int64   // of the whole vector
	kind, size    uintptr // of an element: ncclDataType_t, and bytes
	op            uintptr // ncclRedOp_t
	root, peer    int
}

// ncclTypes and ncclOps are NCCL's numbers of element types and folds, in the
// order of package collective.
var (
	ncclTypes = [...]struct{ kind, size uintptr }{{7, 4}, {8, 8}, {6, 2}, {9, 2}, {2, 4}, {4, 8}}
	ncclOps   = [...]uintptr{0, 4, 2, 3, 1}
)

// block returns the part of the vector that rank r has when it is divided among
// all, as by collective.Cut.
func (m *members) block(r int) (lo, n int64) {
	each, more := m.count/int64(m.ranks), m.count%int64(m.ranks)
	lo = int64(r)*each + min(int64(r), more)
	if int64(r) < more {
		each++
	}
	return lo, each
}

// even says that all blocks are of one size.
func (m *members) even() bool { return m.count%int64(m.ranks) == 0 }

// at is the address of an element.
func (m *members) at(base uintptr, element int64) uintptr { return base + uintptr(element)*m.size }

// collectiveCall is the part of an operation that calls the library.
type collectiveCall struct {
	// brings and gets say whether a rank has data before and after.
	brings, gets func(m *members) bool
	run          func(n *nccl, f *frame, m *members, stream uintptr) error
}

func always(*members) bool     { return true }
func isRoot(m *members) bool   { return m.rank == m.root }
func notRoot(m *members) bool  { return m.rank != m.root }
func isPeer(m *members) bool   { return m.rank == m.peer }
func hasBlock(m *members) bool { _, n := m.block(m.rank); return n > 0 }

// collectives are NCCL's operations. A routine's arguments are what the rank
// brings, then what it gets, each only where it has any; its parameters are
// graph.Collective, with types and folds as package collective numbers them.
var collectives = map[string]collectiveCall{
	"nccl.allreduce": {always, always, func(n *nccl, f *frame, m *members, s uintptr) error {
		return n.do(f, &n.allReduce, m.send, m.receive, uintptr(m.count), m.kind, m.op, m.handle, s)
	}},
	"nccl.reduce": {always, isRoot, func(n *nccl, f *frame, m *members, s uintptr) error {
		return n.do(f, &n.reduce, m.send, m.receive, uintptr(m.count), m.kind, m.op, uintptr(m.root), m.handle, s)
	}},
	"nccl.reducescatter": {always, hasBlock, func(n *nccl, f *frame, m *members, s uintptr) error {
		if m.even() {
			return n.do(f, &n.reduceScatter, m.send, m.receive, uintptr(m.count)/uintptr(m.ranks), m.kind, m.op, m.handle, s)
		}
		return n.group(f, m.ranks, func(r int) error {
			lo, k := m.block(r)
			if k == 0 {
				return nil
			}
			return n.do(f, &n.reduce, m.at(m.send, lo), m.receive, uintptr(k), m.kind, m.op, uintptr(r), m.handle, s)
		})
	}},
	"nccl.broadcast": {isRoot, notRoot, func(n *nccl, f *frame, m *members, s uintptr) error {
		data := m.receive
		if m.rank == m.root {
			data = m.send
		}
		return n.do(f, &n.broadcast, data, data, uintptr(m.count), m.kind, uintptr(m.root), m.handle, s)
	}},
	"nccl.allgather": {hasBlock, always, func(n *nccl, f *frame, m *members, s uintptr) error {
		if m.even() {
			return n.do(f, &n.allGather, m.send, m.receive, uintptr(m.count)/uintptr(m.ranks), m.kind, m.handle, s)
		}
		return n.group(f, m.ranks, func(r int) error {
			lo, k := m.block(r)
			if k == 0 {
				return nil
			}
			from := m.at(m.receive, lo)
			if r == m.rank {
				from = m.send
			}
			return n.do(f, &n.broadcast, from, m.at(m.receive, lo), uintptr(k), m.kind, uintptr(r), m.handle, s)
		})
	}},
	"nccl.alltoall": {always, hasBlock, func(n *nccl, f *frame, m *members, s uintptr) error {
		_, own := m.block(m.rank)
		return n.group(f, m.ranks, func(r int) error {
			if lo, k := m.block(r); k > 0 {
				if err := n.do(f, &n.send, m.at(m.send, lo), uintptr(k), m.kind, uintptr(r), m.handle, s); err != nil {
					return err
				}
			}
			if own == 0 {
				return nil
			}
			return n.do(f, &n.receive, m.at(m.receive, int64(r)*own), uintptr(own), m.kind, uintptr(r), m.handle, s)
		})
	}},
	"nccl.send": {isRoot, isPeer, func(n *nccl, f *frame, m *members, s uintptr) error {
		if m.rank == m.root {
			return n.do(f, &n.send, m.send, uintptr(m.count), m.kind, uintptr(m.peer), m.handle, s)
		}
		return n.do(f, &n.receive, m.receive, uintptr(m.count), m.kind, uintptr(m.root), m.handle, s)
	}},
}

// group makes one operation of several.
func (n *nccl) group(f *frame, count int, each func(i int) error) error {
	if err := n.do(f, &n.groupStart); err != nil {
		return err
	}
	var first error
	for i := 0; i < count && first == nil; i++ {
		first = each(i)
	}
	if err := n.do(f, &n.groupEnd); first == nil {
		first = err
	}
	return first
}

var collective = graph.Unpacker[graph.Collective]()

// routine makes a library routine of an operation.
func (k collectiveCall) routine(d *device, o *op, s *stream, ptrs []uintptr, params []byte) error {
	p, err := collective(params)
	if err != nil {
		return err
	}
	if p.Type >= len(ncclTypes) || p.Fold >= len(ncclOps) {
		return fmt.Errorf("%w: type %d and fold %d; a collective has %d and %d of them", driver.ErrKernel, p.Type, p.Fold, len(ncclTypes), len(ncclOps))
	}
	c := d.comms.find(p.Communicator)
	if c == nil {
		return fmt.Errorf("%w: %s is no rank of communicator %d, or has left it", driver.ErrKernel, d.info.Name, p.Communicator)
	}
	t := ncclTypes[p.Type]
	m := &members{communicator: c, count: int64(p.Count), kind: t.kind, size: t.size, op: ncclOps[p.Fold], root: p.Root, peer: p.Peer}
	if m.count < 1 || m.root >= c.ranks || m.peer >= c.ranks {
		return fmt.Errorf("%w: %d elements, root %d and peer %d of %d ranks", driver.ErrKernel, m.count, m.root, m.peer, c.ranks)
	}
	want := 0
	for _, end := range []struct {
		has bool
		at  *uintptr
	}{{k.brings(m), &m.send}, {k.gets(m), &m.receive}} {
		if end.has {
			if want++; want <= len(ptrs) {
				*end.at = ptrs[want-1]
			}
		}
	}
	if len(ptrs) != want {
		return fmt.Errorf("%w: rank %d takes %d buffers, given are %d", driver.ErrKernel, c.rank, want, len(ptrs))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == 0 {
		return errLeft
	}
	o.comm = c
	err = k.run(&d.nccl, d.f, m, s.handle)
	if err == nil {
		// The first operation connects the ranks, for which all must have come.
		err = d.nccl.settle(d.f, c, func() error {
			d.seen.Store(time.Now().UnixNano())
			if c.left.Load() || d.closed.Load() {
				return errLeft
			}
			return nil
		})
	}
	if err != nil {
		d.nccl.end(d.f, c) // the other ranks would wait for ever
	}
	return err
}

// broken looks whether a communicator something waits on has met an error, as
// when another rank is gone, and gives it up then.
func (d *device) broken(c *communicator) {
	if !c.mu.TryLock() {
		return // another goroutine looks
	}
	defer c.mu.Unlock()
	if c.handle == 0 {
		return
	}
	if d.nccl.do(d.f, &d.nccl.asyncError, c.handle, d.f.at(0)) != nil || d.f.i32(0) != 0 && d.f.i32(0) != inProgress {
		c.left.Store(true)
		d.nccl.end(d.f, c)
	}
}
