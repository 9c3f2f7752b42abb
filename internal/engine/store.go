package engine

import (
	"math/bits"
	"slices"

	"github.com/weft-run/weft/machine"
)

// store keeps values. A value has copies; a copy sits in a slot of an instance; an
// instance is a buffer in a memory. A slot is claimed for a value when the operation
// that will fill it is issued, so that readers can be issued behind it; it is filled
// once that operation is complete.
//
// The store decides nothing: what is copied, evicted or computed again is for the
// engine, which reads the records here and changes them by the store's methods alone.
// An instance with no value in it ends as soon as nothing touches it.
type store struct {
	lanes   []lane  // the engine's: they tell whether an operation has ended
	out     *outbox // takes Home, Alloc and Free
	watcher watcher
	waiters int // entries on the wait lists of all memories

	spaces    []space // 0 is host memory, 1+d the memory of device d
	away      int     // spaces that are away
	data      blocks[dataID, datum]
	vals      blocks[valueID, value]
	slots     blocks[slotID, slot]
	insts     []inst
	freeInsts []Inst              // records of insts to use again
	heads     blocks[int32, Inst] // of the lists of instances of data cut into many pieces
	idle      idle
	deferred  []deferredFree
	serial    uint32 // of the latest issue
	visits    uint64 // records looked at one by one, with -tags invariants
}

// watcher is told what may let others go on.
type watcher interface {
	// roomIn: a memory that something waits for may have more room.
	roomIn(space spaceID)
	// homeVacated: a place in a home may be able to take its output.
	homeVacated(d dataID, p pieceID)
	// homeCopies: n more copies in flight touch the caller's memory behind a run's data.
	homeCopies(d dataID, n int)
}

// space is a memory.
type space struct {
	dev  machine.DeviceID // machine.Host for host memory
	cap  int64            // 0: no limit
	used int64            // bytes of its instances, without the caller's own
	free *int64           // what policies see of a device's memory: cap - used; nil for host memory
	pins int              // operations in flight that touch it: the sum over its instances
	line []waiter         // those that wait for room in it
	away bool             // its device is gone but what it holds survived
	// The instances of a device's memory, least recently used first. Host memory is
	// where others evict to, so it needs no order.
	oldest, newest Inst
}

// inst is a buffer in one memory.
type inst struct {
	data         dataID // -1 for a workspace or when its data has ended, -2 when free
	space        spaceID
	p0, n        pieceID // pieces of the data
	slot         slotID  // first of n slots
	next         Inst    // in the list of its data
	held         int32   // slots of it that hold a value
	pins         int32   // operations in flight that touch it; it is not freed before they end
	older, newer Inst    // in the order its memory is used in
	reservedBy   uint32  // serial of the issue that needs it; it is not evicted for that one
	home         bool    // it is its data's home, and stays while the data does
	lent         bool    // the caller's memory stands behind it: it counts as no memory used
	deferred     bool    // it is freed when operations in flight have ended
	lo           int64   // offset of its first byte in the data
	bytes        int64
}

// slot is the place of one piece in an instance.
type slot struct {
	val     valueID // value it holds or will hold, -1
	next    slotID  // next copy of that value
	inst    Inst
	pins    int32  // operations in flight that touch it
	copying int32  // those of them that are copies
	lane    Lane   // operation that fills it
	seq     uint64 // as lane counts: it may be there while any number come after
}

// deviceSpace returns the memory of a device.
func deviceSpace(d machine.DeviceID) spaceID { return spaceID(1 + d) }

// open makes the memories of a machine, all empty. free holds, by device, where policies
// see how much of its memory is free; nil for one that uses host memory, whose own is
// never used.
func (st *store) open(m *machine.Machine, lanes []lane, out *outbox, w watcher, free []*int64) {
	st.lanes, st.out, st.watcher = lanes, out, w
	st.spaces = []space{{dev: machine.Host, cap: m.HostBytes, oldest: -1, newest: -1}}
	for i := range m.Devices {
		st.spaces = append(st.spaces, space{dev: machine.DeviceID(i), cap: m.Devices[i].MemBytes, free: free[i], oldest: -1, newest: -1})
	}
}

// makeHome introduces the caller's memory behind a data handle. It is not counted
// as used: the limit is on what the engine allocates.
func (st *store) makeHome(d dataID, pieces pieceID, bytes int64, a Action) {
	i := st.newInst(d, 0, 0, pieces, 0, bytes)
	st.insts[i].home, st.insts[i].lent = true, true
	st.spaces[0].used -= bytes
	st.data.at[d].home = i
	a.Kind, a.Device, a.Inst, a.Bytes = Home, machine.Host, i, bytes
	*st.out.emit(Home) = a
}

// newInst makes the record of an instance; the caller emits its action.
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
	}
	st.spaces[space].used += bytes
	if space != 0 {
		*st.spaces[space].free -= bytes
		st.lruAdd(i)
	}
	return i
}

// alloc makes an instance in a device's memory (or the host's).
func (st *store) alloc(d dataID, space spaceID, p0, n pieceID, lo, bytes int64) Inst {
	if n == 1 && space == 0 {
		if i := st.idle.take(st.insts, bytes); i >= 0 {
			in := &st.insts[i]
			in.data, in.p0, in.lo = d, p0, lo
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

// fits reports whether a memory has room for bytes more as it is. It frees idle buffers
// for that.
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

// idle holds buffers of one piece in host memory that ended and were not freed:
// what comes next is mostly of the same size. They do not count as used.
type idle struct {
	insts [8][]Inst // by size, mixed
	bytes int64
}

// maxIdle is how many bytes of buffers are kept, and maxIdleEach how many of
// them for one size.
const (
	maxIdle     = 64 << 20
	maxIdleEach = 1024
)

func idleClass(bytes int64) int { return bits.Len64(uint64(bytes)) % 8 }

// take returns an idle buffer of exactly a size, or -1.
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

// put keeps a buffer, if there is room for it.
func (x *idle) put(i Inst, bytes int64) bool {
	list := &x.insts[idleClass(bytes)]
	if len(*list) >= maxIdleEach || x.bytes+bytes > maxIdle {
		return false
	}
	*list = append(*list, i)
	x.bytes += bytes
	return true
}

// freeIdle ends every idle buffer.
func (st *store) freeIdle() {
	for c := range st.idle.insts {
		for _, i := range st.idle.insts[c] {
			st.discard(i)
		}
		st.idle.insts[c] = st.idle.insts[c][:0]
	}
	st.idle.bytes = 0
}

// freeInst ends an instance that nothing holds or touches.
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
	if in.space != 0 || in.n != 1 || in.lent || !st.idle.put(i, in.bytes) {
		if in.space != 0 {
			*st.spaces[in.space].free += in.bytes
			st.lruRemove(i)
		}
		st.discard(i)
	}
	st.madeRoom(in.space)
}

// beginIssue starts an issue, reserve has an instance kept for the one that began last,
// and unreserve lets go of it.
func (st *store) beginIssue()      { st.serial++ }
func (st *store) reserve(i Inst)   { st.insts[i].reservedBy = st.serial }
func (st *store) unreserve(i Inst) { st.insts[i].reservedBy = st.serial - 1 }

// resize changes how much of a device's memory may be used; 0 means no limit.
func (st *store) resize(space spaceID, bytes int64) {
	sp := &st.spaces[space]
	sp.cap = bytes
	if bytes == 0 {
		bytes = NoLimit
	}
	*sp.free = bytes - sp.used
}

// leave takes in that the device of a memory is gone and what it holds survived. comeBack
// undoes that, and reports whether there is anything to undo.
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

// takeLine takes out all who wait for room in a memory. The list is valid until somebody
// waits for it again.
func (st *store) takeLine(space spaceID) []waiter {
	line := st.spaces[space].line
	st.waiters -= len(line)
	st.spaces[space].line = line[:0]
	return line
}

// madeRoom tells the watcher that a memory may have more room.
func (st *store) madeRoom(space spaceID) {
	if st.waiters > 0 {
		st.watcher.roomIn(space)
	}
}

// unlist takes an instance off the list of its data, so that nothing finds it there.
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

// discard gives an instance's buffer and record back.
func (st *store) discard(i Inst) {
	in := &st.insts[i]
	st.slots.release(in.slot, int(in.n))
	a := st.out.emit(Free)
	a.Device, a.Inst = st.spaces[in.space].dev, i
	st.freeInsts = append(st.freeInsts, i)
}

// freeIfIdle frees an instance with no value in it that nothing touches.
func (st *store) freeIfIdle(i Inst) {
	if in := &st.insts[i]; in.held == 0 && in.pins == 0 && !in.home && !in.deferred && in.data != -2 {
		st.freeInst(i)
	}
}

// deferredFree is an instance to be freed once every operation that was in flight when
// it was given up has ended.
type deferredFree struct {
	inst  Inst
	until []uint64 // by lane
}

// deferFree frees an instance whose content was never made. In host memory, where plain
// launches pin nothing, operations in flight may still refer to it: it ends after them.
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
	if in.deferred { // it was used again meanwhile: those who read it then count too
		at = slices.IndexFunc(st.deferred, func(g deferredFree) bool { return g.inst == i })
	} else {
		st.deferred = append(st.deferred, deferredFree{inst: i, until: make([]uint64, len(st.lanes))})
	}
	in.deferred = true
	for l := range st.lanes {
		st.deferred[at].until[l] = st.lanes[l].issued
	}
}

// freeDeferred frees what no operation in flight can refer to any more.
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

// closeData ends a data handle: its instances go as soon as nothing touches them.
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

// closeHome gives the caller's memory behind data back. What is in it is forgotten.
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

// recut cuts data into n pieces, of which none holds a value then. All of it must be in its
// home, which nothing touches, and every value of it given up.
func (st *store) recut(d dataID, n pieceID) {
	home := st.data.at[d].home
	// What is left besides is empty and about to end, and in the old pieces.
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

// covers reports whether an instance has room for pieces [p0, p0+n) of its data.
func (in *inst) covers(space spaceID, p0, n pieceID) bool {
	return in.space == space && in.p0 <= p0 && p0+n <= in.p0+in.n
}

// evictable reports whether an instance may end to make room for the present issue.
func (st *store) evictable(i Inst) bool {
	in := &st.insts[i]
	return in.pins == 0 && !in.home && in.reservedBy != st.serial && in.data >= 0
}

// wasteful reports whether parts of a buffer hold nothing that is needed.
func (st *store) wasteful(i Inst) bool {
	in := &st.insts[i]
	return !in.home && in.data >= 0 && in.held < int32(in.n) && in.pins == 0
}

// lruAdd puts an instance last in the order its memory is used in, lruRemove takes it out.
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

// touch notes that an instance is used.
func (st *store) touch(i Inst) {
	if sp := st.insts[i].space; sp != 0 && st.spaces[sp].newest != i {
		st.lruRemove(i)
		st.lruAdd(i)
	}
}
