package engine

import (
	"math/bits"
	"slices"

	"github.com/weft-run/weft/machine"
)

// The store: memories, the instances in them and the slots of instances. What the copies
// of a value are is in residency.go, what happens to a value in values.go.

// store keeps values. A value has copies; a copy is in a slot of an instance; an
// instance is a buffer in a memory. A slot is claimed for a value when the operation
// that will fill it is issued, so that readers can be issued behind it; it is filled
// once that operation is complete.
//
// The store decides nothing. The engine decides which values to copy, evict or recompute; it
// reads the records here and changes them only by the store's methods (TestWalls). The
// exceptions are value.reads, deps, depth and replay, which the engine sets: they say who needs
// a value and what recomputing it costs. audit checks the invariants named in the comments of
// the fields, TestStore compares the store with a model.
type store struct {
	lanes   []lane  // the engine's; they say whether an operation has ended
	out     *outbox // takes Home, Alloc and Free
	watcher watcher // told of what may let waiting work continue
	waiters int     // entries on all wait lists; invariant: the sum of len(line) over spaces

	spaces []space // 0 is host memory, 1+d the memory of device d
	away   int     // invariant: the number of spaces with away set

	data  blocks[dataID, datum]
	vals  blocks[valueID, value]
	slots blocks[slotID, slot] // invariant: live is the sum of n over instances, idle ones included
	insts []inst
	// freeInsts are records of insts to reuse.
	freeInsts []Inst
	// heads holds the heads of the instance lists of data cut into many pieces (lists.go).
	heads blocks[int32, Inst]
	idle  idle
	// deferred are instances to free once operations in flight have ended.
	deferred []deferredFree
	serial   uint32 // number of the latest issue
	visits   uint64 // records looked at one by one, with -tags invariants
}

// watcher is called on changes that may let waiting work continue. The engine implements it.
type watcher interface {
	// roomIn: a memory may have more room, and its wait list may not be empty.
	roomIn(space spaceID)
	// homeVacated: the slot of a piece in a home may be able to take its output.
	homeVacated(d dataID, p pieceID)
	// homeCopies: n more copies in flight touch the caller's memory of a run's data.
	homeCopies(d dataID, n int)
}

// space is a memory: the host's or a device's.
type space struct {
	dev machine.DeviceID // machine.Host for host memory
	cap int64            // bytes; 0 means no limit
	// used is the bytes in use. Invariant: the sum of bytes over instances that are
	// neither free nor lent; at most cap, or the device's own size after cap shrank.
	used int64
	// free points to the free bytes of a device's memory, which policies read; nil for host
	// memory. Invariant: cap - used, with NoLimit for a cap of 0.
	free *int64
	pins int // operations in flight that touch it; invariant: the sum of pins over its instances
	// line holds the devices and values that wait for room here.
	line []waiter
	// away says that the device is lost and the content survived. Invariant: only while
	// the device's state is Lost.
	away bool
	// oldest and newest are the ends of the list of instances in a device's memory, least
	// recently used first. Invariant: it holds each instance of the memory that is not
	// free, once. Nothing is evicted from host memory, which needs no such list.
	oldest, newest Inst
}

// inst is an instance: a buffer in one memory for consecutive pieces of one data handle.
// Invariant: an instance with held and pins 0 that is neither home nor deferred is freed.
type inst struct {
	// data is the handle it belongs to; -1 for a workspace or after the handle ended, -2
	// when free. Invariant: it is on one list of data (lists.go) exactly if data >= 0.
	data  dataID
	space spaceID
	p0, n pieceID // its pieces are [p0, p0+n)
	slot  slotID  // first of n slots; invariant: each of them names this instance
	next  Inst    // on the list of its data
	held  int32   // invariant: the number of its slots that hold a value
	// pins is the number of operations in flight that touch it: operations of lanes, detached
	// launches, and inUse of dropped devices. It is not freed before pins is 0.
	pins         int32
	older, newer Inst   // neighbours in the order of use of its memory
	reservedBy   uint32 // serial of the issue that needs it: not evicted for that issue
	home         bool   // it is its data's home and lives as long as the data
	lent         bool   // it is the caller's memory and does not count as used
	deferred     bool   // it is on store.deferred
	// secret says that it has held secret data: it is cleared when it is freed, and never idle.
	// Invariant: set for every instance of data with secret set.
	secret bool
	lo     int64 // offset of its first byte in the data
	bytes  int64
}

// slot is the storage of one piece in an instance.
type slot struct {
	// val is the value it holds or is claimed for, -1 for none. Invariant: a value of the
	// instance's data and of this piece.
	val  valueID
	next slotID // next copy of val; invariant: the list from value.slot has every slot that holds the value
	inst Inst
	// pins is the number of operations in flight that touch it, copying the number of
	// copies among them.
	pins    int32
	copying int32
	// lane and seq name the operation that fills it; 0, 0 if it was filled from the start.
	// seq counts as lane.issued does, without wrapping: the slot may be filled while any
	// number of operations follow.
	lane Lane
	seq  uint64
}

// deviceSpace returns the memory of a device. A device that uses host memory never uses
// it.
func deviceSpace(d machine.DeviceID) spaceID { return spaceID(1 + d) }

// open makes the memories of a machine, all empty. free holds, by device, the variable in
// which policies read the free bytes of its memory; nil for a device that uses host memory.
func (st *store) open(m *machine.Machine, lanes []lane, out *outbox, w watcher, free []*int64) {
	st.lanes, st.out, st.watcher = lanes, out, w
	st.spaces = []space{{dev: machine.Host, cap: m.HostBytes, oldest: -1, newest: -1}}
	for i := range m.Devices {
		st.spaces = append(st.spaces, space{dev: machine.DeviceID(i), cap: m.Devices[i].MemBytes, free: free[i], oldest: -1, newest: -1})
	}
}

// makeHome introduces the caller's memory as the home of a data handle. It does not count
// as used: the limit of host memory is on what the engine allocates.
func (st *store) makeHome(d dataID, pieces pieceID, bytes int64, a Action) {
	i := st.newInst(d, 0, 0, pieces, 0, bytes)
	st.insts[i].home, st.insts[i].lent = true, true
	st.spaces[0].used -= bytes
	st.data.at[d].home = i
	a.Kind, a.Device, a.Inst, a.Bytes = Home, machine.Host, i, bytes
	*st.out.emit(Home) = a
}

// newInst makes the record of an instance with empty slots; the caller emits its action.
func (st *store) newInst(d dataID, space spaceID, p0, n pieceID, lo, bytes int64) Inst {
	var i Inst
	if k := len(st.freeInsts); k > 0 {
		i = st.freeInsts[k-1]
		st.freeInsts = st.freeInsts[:k-1]
	} else {
		i = Inst(len(st.insts))
		st.insts = append(st.insts, inst{})
	}
	s := st.slots.alloc(int(n))
	for k := range slotID(n) {
		st.slots.at[s+k] = slot{val: -1, next: -1, inst: i}
	}
	st.insts[i] = inst{data: d, space: space, p0: p0, n: n, slot: s, next: -1, older: -1, newer: -1, lo: lo, bytes: bytes}
	if d >= 0 {
		head := st.list(&st.insts[i])
		st.insts[i].next, *head = *head, i
		st.insts[i].secret = st.data.at[d].secret
	}
	st.spaces[space].used += bytes
	if space != 0 {
		*st.spaces[space].free -= bytes
		st.lruAdd(i)
	}
	return i
}

// alloc makes an instance in a memory. A buffer of one piece in host memory may be an
// idle one of the same size.
func (st *store) alloc(d dataID, space spaceID, p0, n pieceID, lo, bytes int64) Inst {
	if n == 1 && space == 0 {
		if i := st.idle.take(st.insts, bytes); i >= 0 {
			in := &st.insts[i]
			in.data, in.p0, in.lo, in.secret = d, p0, lo, st.data.at[d].secret
			head := st.list(in)
			in.next, *head = *head, i
			st.spaces[0].used += bytes
			return i
		}
	}
	i := st.newInst(d, space, p0, n, lo, bytes)
	a := st.out.emit(Alloc)
	a.Device, a.Inst, a.Bytes = st.spaces[space].dev, i, bytes
	return i
}

// fits reports whether a memory has room for bytes more without evicting. It frees idle
// buffers if they are in the way.
func (st *store) fits(space spaceID, bytes int64) bool {
	sp := &st.spaces[space]
	if sp.cap == 0 {
		return true
	}
	if space == 0 && st.idle.bytes > 0 && sp.used+st.idle.bytes+bytes > sp.cap {
		st.freeIdle()
	}
	return sp.used+bytes <= sp.cap
}

// idle keeps buffers of one piece in host memory that ended and were not freed, because
// the next buffer is often of the same size. They do not count as used.
type idle struct {
	insts [8][]Inst // by idleClass; invariant: free, of one piece, in host memory and not lent
	bytes int64     // invariant: the sum of their bytes
}

const (
	// maxIdle is the greatest number of bytes in idle buffers (64 MiB): a small part of any
	// machine's memory, and enough for the small buffers of the tasks in flight.
	maxIdle = 64 << 20
	// maxIdleEach is the greatest number of idle buffers on one list. It bounds the time
	// to free them all and covers the tasks in flight on several lanes (hostDepth, 256).
	maxIdleEach = 1024
)

// idleClass returns the list for buffers of a size. Sizes a factor of 256 apart share one.
func idleClass(bytes int64) int { return bits.Len64(uint64(bytes)) % 8 }

// take returns an idle buffer of exactly this size, or -1. It looks only at the last of the
// list, which takes constant time; most often that one has the size.
func (x *idle) take(insts []inst, bytes int64) Inst {
	list := &x.insts[idleClass(bytes)]
	k := len(*list) - 1
	if k < 0 {
		return -1
	}
	i := (*list)[k]
	if insts[i].bytes != bytes {
		return -1
	}
	*list = (*list)[:k]
	x.bytes -= bytes
	return i
}

// put keeps a buffer and reports whether there was room for it.
func (x *idle) put(i Inst, bytes int64) bool {
	list := &x.insts[idleClass(bytes)]
	if len(*list) >= maxIdleEach || x.bytes+bytes > maxIdle {
		return false
	}
	*list = append(*list, i)
	x.bytes += bytes
	return true
}

// freeIdle frees every idle buffer.
func (st *store) freeIdle() {
	for c := range st.idle.insts {
		for _, i := range st.idle.insts[c] {
			st.discard(i)
		}
		st.idle.insts[c] = st.idle.insts[c][:0]
	}
	st.idle.bytes = 0
}

// freeInst ends an instance that holds no value and that no operation touches.
func (st *store) freeInst(i Inst) {
	in := &st.insts[i]
	st.unlist(i)
	if !in.lent {
		sp := &st.spaces[in.space]
		sp.used -= in.bytes
		if sp.used < 0 {
			panic("engine: more memory freed than allocated")
		}
	}
	in.data = -2
	if in.space != 0 || in.n != 1 || in.lent || in.secret || !st.idle.put(i, in.bytes) {
		if in.space != 0 {
			*st.spaces[in.space].free += in.bytes
			st.lruRemove(i)
		}
		st.discard(i)
	}
	st.madeRoom(in.space)
}

// beginIssue starts an issue. reserve protects an instance from eviction for the issue
// that began last, and unreserve ends that.
func (st *store) beginIssue()      { st.serial++ }
func (st *store) reserve(i Inst)   { st.insts[i].reservedBy = st.serial }
func (st *store) unreserve(i Inst) { st.insts[i].reservedBy = st.serial - 1 }

// resize sets the capacity of a device's memory in bytes; 0 means no limit.
func (st *store) resize(space spaceID, bytes int64) {
	sp := &st.spaces[space]
	sp.cap = bytes
	if bytes == 0 {
		bytes = NoLimit
	}
	*sp.free = bytes - sp.used
}

// goAway marks a memory whose device is lost and whose content survived. comeBack undoes
// that and reports whether the memory was away.
func (st *store) goAway(space spaceID) {
	st.spaces[space].away = true
	st.away++
}

func (st *store) comeBack(space spaceID) bool {
	if !st.spaces[space].away {
		return false
	}
	st.spaces[space].away = false
	st.away--
	return true
}

// waiter is an entry of a wait list: a device whose next task finds no room, or a value
// that is to be copied into host memory.
type waiter struct {
	dev machine.DeviceID // -1 for a value
	val valueID
	run ticket // the run that makes the value; when it is retired, val may name another value
}

// await puts a waiter on the wait list of a memory.
func (st *store) await(space spaceID, w waiter) {
	st.spaces[space].line = append(st.spaces[space].line, w)
	st.waiters++
}

// takeLine empties the wait list of a memory and returns its entries. They are valid
// until something waits for that memory again.
func (st *store) takeLine(space spaceID) []waiter {
	line := st.spaces[space].line
	st.waiters -= len(line)
	st.spaces[space].line = line[:0]
	return line
}

// madeRoom tells the watcher that a memory may have more room, if anything waits.
func (st *store) madeRoom(space spaceID) {
	if st.waiters > 0 {
		st.watcher.roomIn(space)
	}
}

// setSecret says whether a workspace, which has no data to take that from, is secret.
func (st *store) setSecret(i Inst, secret bool) { st.insts[i].secret = secret }

// makeSecret marks data as secret, and the instances that it has.
func (st *store) makeSecret(d dataID) {
	if st.data.at[d].secret {
		return
	}
	st.data.at[d].secret = true
	st.eachInst(d, func(i Inst) { st.insts[i].secret = true })
}

// unlist takes an instance off the list of its data, so that no search finds it.
func (st *store) unlist(i Inst) {
	in := &st.insts[i]
	if in.data < 0 {
		return
	}
	p := st.list(in)
	for *p != i {
		st.visit(1)
		p = &st.insts[*p].next
	}
	*p = in.next
	in.data, in.next = -1, -1
}

// discard frees an instance's buffer, slots and record.
func (st *store) discard(i Inst) {
	in := &st.insts[i]
	st.slots.release(in.slot, int(in.n))
	a := st.out.emit(Free)
	a.Device, a.Inst, a.Secret = st.spaces[in.space].dev, i, in.secret
	st.freeInsts = append(st.freeInsts, i)
}

// freeIfIdle frees an instance that holds no value and that no operation touches.
func (st *store) freeIfIdle(i Inst) {
	if in := &st.insts[i]; in.held == 0 && in.pins == 0 && !in.home && !in.deferred && in.data != -2 {
		st.freeInst(i)
	}
}

// deferredFree is an instance to free once every operation that was in flight when its
// content was given up has ended.
type deferredFree struct {
	inst  Inst
	until []uint64 // by lane, the count of the last operation to wait for
}

// deferFree frees an instance whose content was never made. In host memory plain launches
// pin nothing, so operations in flight may still refer to it: there it is freed after
// them.
func (st *store) deferFree(i Inst) {
	in := &st.insts[i]
	if in.space != 0 {
		st.freeIfIdle(i)
		return
	}
	if in.held > 0 || in.home || in.data == -2 {
		return
	}
	at := len(st.deferred)
	if in.deferred { // it was used again meanwhile: wait for those readers too
		at = slices.IndexFunc(st.deferred, func(g deferredFree) bool { return g.inst == i })
	} else {
		st.deferred = append(st.deferred, deferredFree{inst: i, until: make([]uint64, len(st.lanes))})
	}
	in.deferred = true
	for l := range st.lanes {
		st.deferred[at].until[l] = st.lanes[l].issued
	}
}

// freeDeferred frees the deferred instances to which no operation in flight can refer.
func (st *store) freeDeferred() {
	kept := st.deferred[:0]
	for _, g := range st.deferred {
		over := true
		for l := range st.lanes {
			over = over && st.lanes[l].done >= g.until[l]
		}
		if !over {
			kept = append(kept, g)
			continue
		}
		st.insts[g.inst].deferred = false
		st.freeIfIdle(g.inst)
	}
	st.deferred = kept
}

// closeData ends a data handle. An instance that operations touch is freed after them.
func (st *store) closeData(d dataID) {
	st.eachInst(d, func(i Inst) {
		in := &st.insts[i]
		for s := in.slot; s < in.end(); s++ {
			st.unhold(s)
		}
		in.home = false
		in.data, in.next = -1, -1
		st.freeIfIdle(i)
	})
	st.endLists(d)
}

// closeHome gives the caller's memory of a data handle back. Values in it lose that copy.
func (st *store) closeHome(d dataID) {
	home := st.data.at[d].home
	in := &st.insts[home]
	for s := in.slot; s < in.end(); s++ {
		st.loseCopy(s)
	}
	in.home = false
	st.data.at[d].home = -1
	st.freeIfIdle(home)
}

// recut cuts data into n pieces, none of which holds a value afterwards. The data must be
// complete in its home, no operation may touch that, and its values must be given up.
func (st *store) recut(d dataID, n pieceID) {
	home := st.data.at[d].home
	// Other instances are empty, in the old pieces, and end with their last operation.
	st.eachInst(d, func(i Inst) {
		if i != home {
			st.unlist(i)
		}
	})
	st.endLists(d)
	st.makeLists(d, n)
	in := &st.insts[home]
	st.slots.release(in.slot, int(in.n))
	in.slot, in.n = st.slots.alloc(int(n)), n
	for s := in.slot; s < in.end(); s++ {
		st.slots.at[s] = slot{val: -1, next: -1, inst: home}
	}
	head := st.list(in)
	in.next, *head = *head, home
}

// covers reports whether an instance is in a memory and has slots for pieces [p0, p0+n).
func (in *inst) covers(space spaceID, p0, n pieceID) bool {
	return in.space == space && in.p0 <= p0 && p0+n <= in.p0+in.n
}

// evictable reports whether an instance may be evicted for the present issue.
func (st *store) evictable(i Inst) bool {
	in := &st.insts[i]
	return in.pins == 0 && !in.home && in.reservedBy != st.serial && in.data >= 0
}

// wasteful reports whether some slots of a buffer hold nothing, and no operation touches
// it.
func (st *store) wasteful(i Inst) bool {
	in := &st.insts[i]
	return !in.home && in.data >= 0 && in.held < int32(in.n) && in.pins == 0
}

// lruAdd makes an instance the most recently used of its memory, lruRemove takes it out of
// the order of use.
func (st *store) lruAdd(i Inst) {
	in := &st.insts[i]
	sp := &st.spaces[in.space]
	in.older, in.newer = sp.newest, -1
	if sp.newest >= 0 {
		st.insts[sp.newest].newer = i
	} else {
		sp.oldest = i
	}
	sp.newest = i
}

func (st *store) lruRemove(i Inst) {
	in := &st.insts[i]
	sp := &st.spaces[in.space]
	if in.older >= 0 {
		st.insts[in.older].newer = in.newer
	} else {
		sp.oldest = in.newer
	}
	if in.newer >= 0 {
		st.insts[in.newer].older = in.older
	} else {
		sp.newest = in.older
	}
}

// touch makes an instance the most recently used of its memory.
func (st *store) touch(i Inst) {
	if sp := st.insts[i].space; sp != 0 && st.spaces[sp].newest != i {
		st.lruRemove(i)
		st.lruAdd(i)
	}
}
