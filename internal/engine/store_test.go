package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// heard is a watcher that counts what it is told.
type heard struct {
	room   map[spaceID]int
	homes  map[dataID]int
	copies map[dataID]int
}

func (h *heard) roomIn(s spaceID)                { h.room[s]++ }
func (h *heard) homeVacated(d dataID, _ pieceID) { h.homes[d]++ }
func (h *heard) homeCopies(d dataID, n int)      { h.copies[d] += n }

// placed is a copy of a value as the model knows it.
type placed struct {
	inst  Inst
	space spaceID
	lane  Lane
	seq   uint64
}

// pinned is an operation the model has in flight: one that touches pieces of an instance,
// or one slot.
type pinned struct {
	inst    Inst
	p0, n   pieceID
	copying int32
}

// storeModel drives a store with random calls and keeps, in the simplest way, what should
// be true of it: copies by value and slot, operations in flight, and the buffers that the
// actions have made and not freed.
type storeModel struct {
	t       *testing.T
	rng     *rand.Rand
	st      store
	out     outbox
	told    heard
	lanes   []lane
	free    [2]int64
	data    map[dataID]pieceID // pieces of each
	homes   map[dataID]bool
	values  []valueID
	most    int // values at a time; few values have more copies each
	copies  map[valueID]map[slotID]placed
	pins    []pinned
	buffers map[Inst]bool
	peak    int               // most buffers at a time
	after   map[Inst][]uint64 // by lane, the operations that an instance must not end before
	away    map[spaceID]bool
	waits   map[spaceID]int // those in line for a memory
	secret  map[Inst]bool   // made or taken for secret data
	host    map[Inst]int64  // bytes of the buffers made in host memory, idle ones too
}

// modelCap is how many bytes each device's memory has, modelHost how many host memory has: so
// few that idle buffers have to be freed for others.
const modelCap, modelHost = 1 << 12, 1 << 9

// pieceLen returns how many bytes a piece of data has: of two sizes, whose idle buffers
// are kept in one list.
func pieceLen(d dataID) int64 { return 16 + 8*int64(d%2) }

func newStoreModel(t *testing.T, seed uint64) *storeModel {
	m := &storeModel{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), lanes: make([]lane, 4), most: []int{12, 400}[seed%2],
		told: heard{make(map[spaceID]int), make(map[dataID]int), make(map[dataID]int)},
		data: make(map[dataID]pieceID), homes: make(map[dataID]bool),
		copies: make(map[valueID]map[slotID]placed), buffers: make(map[Inst]bool),
		after: make(map[Inst][]uint64), away: make(map[spaceID]bool), waits: make(map[spaceID]int),
		host: make(map[Inst]int64), secret: make(map[Inst]bool),
	}
	mach := &machine.Machine{HostBytes: modelHost, Devices: make([]machine.Device, 2)}
	free := make([]*int64, 2)
	for i := range mach.Devices {
		mach.Devices[i].MemBytes = modelCap
		m.free[i], free[i] = modelCap, &m.free[i]
	}
	m.st.open(mach, m.lanes, &m.out, &m.told, free)
	return m
}

// perform takes in what the store asked for.
func (m *storeModel) perform() {
	for _, a := range m.out.list {
		switch a.Kind {
		case Home, Alloc:
			if m.buffers[a.Inst] {
				m.t.Fatalf("instance %d is made twice", a.Inst)
			}
			m.buffers[a.Inst] = true
			m.peak = max(m.peak, len(m.buffers))
			if a.Kind == Alloc && a.Device == machine.Host {
				m.host[a.Inst] = a.Bytes
			}
		case Free:
			if !m.buffers[a.Inst] {
				m.t.Fatalf("instance %d is freed and was not made", a.Inst)
			}
			if a.Secret != m.secret[a.Inst] {
				m.t.Fatalf("instance %d is freed with Secret %v, and secret data was in it: %v", a.Inst, a.Secret, m.secret[a.Inst])
			}
			delete(m.buffers, a.Inst)
			delete(m.secret, a.Inst)
			delete(m.host, a.Inst)
			for l, seq := range m.after[a.Inst] {
				if m.lanes[l].done < seq {
					m.t.Fatalf("instance %d is freed while operations that may refer to it are in flight", a.Inst)
				}
			}
			delete(m.after, a.Inst)
			for _, p := range m.pins {
				if p.inst == a.Inst {
					m.t.Fatalf("instance %d is freed while an operation touches it", a.Inst)
				}
			}
		}
	}
	m.out.list = m.out.list[:0]
	used := int64(0)
	for _, bytes := range m.host {
		used += bytes
	}
	if used > modelHost {
		m.t.Fatalf("buffers in host memory take %d bytes of %d", used, modelHost)
	}
}

// pick returns an element of a slice at random.
func pick[T any](rng *rand.Rand, s []T) T { return s[rng.IntN(len(s))] }

// issue begins an operation on a lane and returns its number.
func (m *storeModel) issue() (Lane, uint64) {
	l := Lane(m.rng.IntN(len(m.lanes)))
	m.lanes[l].issued++
	return l, m.lanes[l].issued
}

// hold claims a slot in both.
func (m *storeModel) hold(s slotID, v valueID) {
	l, seq := m.issue()
	m.st.hold(s, v, l, seq)
	i := m.st.slots.at[s].inst
	m.copies[v][s] = placed{i, m.st.insts[i].space, l, seq}
	if val := &m.st.vals.at[v]; m.st.insts[i].space == hostSpace && val.flags&(anchored|commits) == 0 && m.rng.IntN(3) == 0 {
		val.on(commitBegun)
	}
}

// inHost reports whether a value has a copy in host memory, and whether one is complete.
func (m *storeModel) inHost(v valueID) (there, whole bool) {
	for _, p := range m.copies[v] {
		if p.space == hostSpace {
			there, whole = true, whole || m.lanes[p.lane].done >= p.seq
		}
	}
	return there, whole
}

// completes ends the oldest operation of a lane; values whose copy in host memory is
// complete by that are anchored.
func (m *storeModel) completes() {
	l := Lane(m.rng.IntN(len(m.lanes)))
	if m.lanes[l].done < m.lanes[l].issued {
		m.lanes[l].done++
	}
	for _, v := range m.values {
		if _, whole := m.inHost(v); whole && !m.st.vals.at[v].has(anchored) {
			m.st.vals.at[v].on(reachedHost)
		}
	}
	m.st.freeDeferred()
}

// forget gives copies of a value up in the model.
func (m *storeModel) forget(v valueID, which func(s slotID, p placed) bool) {
	maps.DeleteFunc(m.copies[v], which)
}

// step makes one random call, and checks that the watcher was told what may let others go
// on.
func (m *storeModel) step() {
	before := m.places()
	m.call()
	after := m.places()
	for space, was := range before.room {
		if is := after.room[space]; (is.used < was.used || is.held < was.held || is.touched < was.touched) && before.waiters > 0 && m.told.room[space] == was.told {
			m.t.Fatalf("memory %d went from %+v to %+v with %d waiting, and the watcher was not told", space, was, is, before.waiters)
		}
	}
	for d, was := range before.homes {
		if is, there := after.homes[d]; there && is.places == was.places && is.vacant > was.vacant && m.told.homes[d] == was.told {
			m.t.Fatalf("places in the home of data %d became vacant, and the watcher was not told", d)
		}
	}
	m.perform()
}

// roomOf says how much of a memory is used, how many slots of it hold a value, how many of
// its instances operations touch, and how often the watcher was told of room there.
type roomOf struct {
	used          int64
	held, touched int
	told          int
}

// homeOf says how many places a home has and how many are vacant, and how often the watcher was told.
type homeOf struct{ places, vacant, told int }

type placesOf struct {
	room    map[spaceID]roomOf
	homes   map[dataID]homeOf
	waiters int
}

func (m *storeModel) places() placesOf {
	p := placesOf{make(map[spaceID]roomOf), make(map[dataID]homeOf), m.st.waiters}
	for s := range m.st.spaces {
		p.room[spaceID(s)] = roomOf{used: m.st.spaces[s].used, told: m.told.room[spaceID(s)]}
	}
	for k := range m.st.insts {
		if in := &m.st.insts[k]; in.data != -2 {
			r := p.room[in.space]
			r.held += int(in.held)
			if in.pins > 0 {
				r.touched++
			}
			p.room[in.space] = r
		}
	}
	for d := range m.homes {
		h := homeOf{told: m.told.homes[d], places: int(m.data[d])}
		in := &m.st.insts[m.st.data.at[d].home]
		for s := in.slot; s < in.end(); s++ {
			if sl := &m.st.slots.at[s]; sl.val < 0 && sl.pins == 0 {
				h.vacant++
			}
		}
		p.homes[d] = h
	}
	return p
}

// call makes one random call.
func (m *storeModel) call() {
	switch k := m.rng.IntN(120); {
	case k < 5 || len(m.data) == 0:
		m.addData()
	case len(m.values) == 0 || k < 20 && len(m.values) < m.most:
		m.addValue()
	case k < 45:
		m.addCopy()
	case k < 55:
		m.completes()
	case k < 65:
		m.pin()
	case k < 75:
		m.unpin()
	case k < 85:
		m.dropCopy()
	case k < 92:
		v := pick(m.rng, m.values)
		keep := m.rng.IntN(2) == 0
		m.st.freeCopies(v, keep)
		m.forget(v, func(_ slotID, p placed) bool { return !keep || p.space != hostSpace })
	case k < 95:
		if i := m.anyInst(); i >= 0 {
			m.st.touch(i)
			if s := m.st.insts[i].space; s != hostSpace && m.st.spaces[s].newest != i {
				m.t.Fatalf("instance %d was used last and is not the newest", i)
			}
		}
	case k < 97:
		m.endData()
	case k < 100:
		m.st.freeIdle()
	case k < 104:
		m.await()
	case k < 107:
		m.resize()
	case k < 110:
		m.toggleAway()
	case k < 113:
		m.recut()
	case k < 115:
		m.becomeSecret()
	default:
		m.freeQuick()
	}
}

// await puts a waiter in line for a memory, or takes all out of a line.
func (m *storeModel) await() {
	space := spaceID(m.rng.IntN(len(m.st.spaces)))
	if m.rng.IntN(3) > 0 {
		m.st.await(space, waiter{dev: machine.DeviceID(m.waits[space])})
		m.waits[space]++
		return
	}
	line := m.st.takeLine(space)
	if len(line) != m.waits[space] {
		m.t.Fatalf("%d are in line for memory %d, want %d", len(line), space, m.waits[space])
	}
	for i, w := range line {
		if int(w.dev) != i {
			m.t.Fatalf("the line for memory %d is out of order: %v", space, line)
		}
	}
	m.waits[space] = 0
}

// resize changes how much of a device's memory may be used.
func (m *storeModel) resize() {
	space := spaceID(1 + m.rng.IntN(2))
	bytes := int64(m.rng.IntN(2 * modelCap))
	m.st.resize(space, bytes)
	if used := m.st.spaces[space].used; bytes > 0 && (m.st.fits(space, bytes-used+1) || used <= bytes && !m.st.fits(space, bytes-used)) {
		m.t.Fatalf("of memory %d, %d bytes may be used and %d are, and fits does not follow that", space, bytes, used)
	}
}

// toggleAway has the device of a memory go, or come back.
func (m *storeModel) toggleAway() {
	space := spaceID(1 + m.rng.IntN(2))
	if m.st.comeBack(space) != m.away[space] {
		m.t.Fatalf("memory %d was away: %v, and coming back says otherwise", space, m.away[space])
	}
	if m.away[space] = !m.away[space]; m.away[space] {
		m.st.goAway(space)
	}
}

// recut gives all values of data up and cuts it into other pieces.
func (m *storeModel) recut() {
	d := pick(m.rng, slices.Sorted(maps.Keys(m.data)))
	if !m.homes[d] || m.st.insts[m.st.data.at[d].home].pins > 0 {
		return
	}
	m.endValues(d)
	n := pieceID(1 + m.rng.IntN(20))
	m.st.recut(d, n)
	m.data[d] = n
	if in := &m.st.insts[m.st.data.at[d].home]; in.n != n || in.held != 0 {
		m.t.Fatalf("cut into %d pieces the home is %+v", n, *in)
	}
}

// endValues ends the values of data with their copies.
func (m *storeModel) endValues(d dataID) {
	m.values = slices.DeleteFunc(m.values, func(v valueID) bool {
		if m.st.vals.at[v].data != d {
			return false
		}
		m.st.freeCopies(v, false)
		delete(m.copies, v)
		m.st.endValue(v)
		return true
	})
}

// freeQuick ends a value that is in host memory alone, or does nothing.
func (m *storeModel) freeQuick() {
	v := pick(m.rng, m.values)
	for range m.rng.IntN(8) { // often one with a single copy
		if len(m.copies[v]) != 1 {
			v = pick(m.rng, m.values)
		}
	}
	val := &m.st.vals.at[v]
	if !val.has(produced) && m.st.wholeInHost(v, -1) {
		val.on(madeInHost)
	}
	n := len(m.copies[v])
	if !m.st.freeQuick(val) {
		return
	}
	if n != 1 || !val.has(anchored) {
		m.t.Fatalf("value %d with %d copies and flags %08b is given up as if nothing else needed it", v, n, val.flags)
	}
	clear(m.copies[v])
}

func (m *storeModel) addData() {
	d := m.st.allocData(1)
	n := pieceID(1 + m.rng.IntN(20))
	m.st.openData(d, graph.Versioned, m.rng.IntN(4) == 0, m.rng.IntN(4) == 0, 0)
	if n > fewPieces {
		m.st.makeLists(d, n)
	}
	m.data[d] = n
	if m.rng.IntN(2) == 0 {
		m.st.makeHome(d, n, int64(n)*pieceLen(d), Action{})
		m.homes[d] = true
		m.made(m.st.data.at[d].home)
	}
}

// made notes that an instance was made, or taken, for its data.
func (m *storeModel) made(i Inst) {
	m.perform() // another instance may have had its number
	if m.st.data.at[m.st.insts[i].data].secret {
		m.secret[i] = true
	}
}

// becomeSecret makes data secret that may have instances.
func (m *storeModel) becomeSecret() {
	d := pick(m.rng, slices.Sorted(maps.Keys(m.data)))
	m.st.makeSecret(d)
	m.st.eachInst(d, m.made)
}

func (m *storeModel) addValue() {
	d := pick(m.rng, slices.Sorted(maps.Keys(m.data)))
	v := m.st.newValue(0, d, pieceID(m.rng.IntN(int(m.data[d]))), pieceLen(d))
	m.values = append(m.values, v)
	m.copies[v] = make(map[slotID]placed)
}

// addCopy puts a copy of a value where there is a place, or into a new instance of a few
// pieces.
func (m *storeModel) addCopy() {
	v := pick(m.rng, m.values)
	val := &m.st.vals.at[v]
	space := spaceID(m.rng.IntN(len(m.st.spaces)))
	m.st.beginIssue()
	if i := m.st.findVacant(val.data, space, val.piece, 1); i >= 0 {
		in := &m.st.insts[i]
		if !in.covers(space, val.piece, 1) || m.st.slots.at[in.at(val.piece)].val >= 0 {
			m.t.Fatalf("instance %d is not vacant at piece %d", i, val.piece)
		}
		for _, p := range m.pins {
			if p.inst == i && p.p0 <= val.piece && val.piece < p.p0+p.n {
				m.t.Fatalf("instance %d is touched by an operation at piece %d and called vacant", i, val.piece)
			}
		}
		m.hold(in.at(val.piece), v)
		return
	}
	for i := range m.st.insts {
		if in := &m.st.insts[i]; in.data == val.data && in.covers(space, val.piece, 1) && m.st.vacant(Inst(i), val.piece, 1) {
			m.t.Fatalf("instance %d is vacant at piece %d and was not found", i, val.piece)
		}
	}
	p0 := pieceID(m.rng.IntN(int(val.piece) + 1))
	n := val.piece - p0 + 1 + pieceID(m.rng.IntN(int(m.data[val.data]-val.piece)))
	if m.rng.IntN(2) == 0 {
		p0, n = val.piece, 1
	}
	if bytes := int64(n) * pieceLen(val.data); m.st.fits(space, bytes) {
		i := m.st.alloc(val.data, space, p0, n, int64(p0)*pieceLen(val.data), bytes)
		if in := &m.st.insts[i]; in.bytes != bytes || in.data != val.data || !in.covers(space, p0, n) {
			m.t.Fatalf("asked for %d bytes of pieces [%d, %d) of data %d, got %+v", bytes, p0, p0+n, val.data, *in)
		}
		delete(m.after, i) // it is used again
		m.made(i)
		m.hold(m.st.insts[i].at(val.piece), v)
	}
}

// anyInst returns an instance that has not ended, or -1.
func (m *storeModel) anyInst() Inst {
	if len(m.buffers) == 0 {
		return -1
	}
	i := pick(m.rng, slices.Sorted(maps.Keys(m.buffers)))
	if m.st.insts[i].data == -2 {
		return -1 // idle
	}
	return i
}

func (m *storeModel) pin() {
	i := m.anyInst()
	if i < 0 || m.st.insts[i].data < 0 {
		return
	}
	in := &m.st.insts[i]
	p0 := in.p0 + pieceID(m.rng.IntN(int(in.n)))
	p := pinned{i, p0, 1 + pieceID(m.rng.IntN(int(in.p0+in.n-p0))), int32(m.rng.IntN(2))}
	m.st.pin(p.inst, p.p0, p.n, p.copying)
	m.pins = append(m.pins, p)
}

func (m *storeModel) unpin() {
	if len(m.pins) == 0 {
		return
	}
	k := m.rng.IntN(len(m.pins))
	p := m.pins[k]
	m.pins = slices.Delete(m.pins, k, k+1)
	m.st.unpin(p.inst, p.p0, p.n, p.copying)
}

// dropCopy gives one copy up, as eviction, failure and overwriting do.
func (m *storeModel) dropCopy() {
	v := pick(m.rng, m.values)
	for range m.rng.IntN(8) { // often one with several copies
		if len(m.copies[v]) < 2 {
			v = pick(m.rng, m.values)
		}
	}
	if len(m.copies[v]) == 0 {
		return
	}
	s := pick(m.rng, slices.Sorted(maps.Keys(m.copies[v])))
	i := m.st.slots.at[s].inst
	m.forget(v, func(o slotID, _ placed) bool { return o == s })
	if m.rng.IntN(2) == 0 {
		want := m.st.vals.at[v].flags
		there, whole := m.inHost(v)
		if !whole {
			want &^= anchored
		}
		if !there {
			want &^= commits
		}
		m.st.loseCopy(s)
		if got := m.st.vals.at[v].flags; got != want {
			m.t.Fatalf("value %d lost a copy; now in host memory: %v, complete: %v, flags %08b, want %08b", v, there, whole, got, want)
		}
		if in := &m.st.insts[i]; in.space == hostSpace && in.held == 0 && !in.home {
			for l := range m.lanes {
				m.after[i] = append(m.after[i][:l:l], m.lanes[l].issued)
			}
		}
		m.st.deferFree(i)
	} else {
		m.st.unhold(s)
		m.st.freeIfIdle(i)
	}
}

// endData ends data with all its values, or gives its home back.
func (m *storeModel) endData() {
	d := pick(m.rng, slices.Sorted(maps.Keys(m.data)))
	home := m.st.data.at[d].home
	if m.homes[d] && m.st.insts[home].pins > 0 {
		return // a run whose memory an operation touches does not end
	}
	if m.homes[d] && m.rng.IntN(2) == 0 {
		m.st.closeHome(d)
		if h := m.st.data.at[d].home; h >= 0 {
			m.t.Fatalf("instance %d is the home of data %d, which gave its home back", h, d)
		}
		delete(m.homes, d)
		for _, v := range m.values {
			m.forget(v, func(_ slotID, p placed) bool { return p.inst == home })
		}
		return
	}
	m.st.closeData(d)
	for _, v := range m.values {
		if m.st.vals.at[v].data == d && m.st.vals.at[v].slot >= 0 {
			m.t.Fatalf("value %d has a copy, and its data has ended", v)
		}
	}
	m.endValues(d)
	m.st.releaseData(d, 1)
	delete(m.data, d)
	delete(m.homes, d)
}

// check compares what the store says with the model.
func (m *storeModel) check() {
	m.t.Helper()
	if err := m.st.audit(); err != nil {
		m.t.Fatal(err)
	}
	for _, v := range m.values {
		whole := func(p placed) bool { return m.lanes[p.lane].done >= p.seq }
		near := func(p placed) bool { return !m.away[p.space] }
		any := func(not slotID, ok func(p placed) bool) bool {
			for s, p := range m.copies[v] {
				if s != not && ok(p) {
					return true
				}
			}
			return false
		}
		inHost := func(p placed) bool { return p.space == hostSpace }
		for _, not := range append(slices.Sorted(maps.Keys(m.copies[v])), -1) {
			got := fmt.Sprint(m.st.elsewhereInHost(v, not), m.st.wholeInHost(v, not), m.st.elsewhere(v, not))
			want := fmt.Sprint(any(not, inHost), any(not, func(p placed) bool { return inHost(p) && whole(p) }), any(not, func(p placed) bool { return near(p) && whole(p) }))
			if got != want {
				m.t.Fatalf("value %d but for slot %d: in host memory, whole there, whole anywhere: %s, want %s", v, not, got, want)
			}
		}
		got := fmt.Sprint(m.st.have(v), m.st.copied(v))
		want := fmt.Sprint(any(-1, near), any(-1, func(p placed) bool { return !whole(p) }))
		if got != want {
			m.t.Fatalf("value %d: there, being copied: %s, want %s", v, got, want)
		}
	}
	live := 0
	for i := range m.st.insts {
		if m.st.insts[i].data != -2 {
			live++
		}
	}
	for _, list := range m.st.idle.insts {
		live += len(list)
	}
	if live != len(m.buffers) {
		m.t.Fatalf("%d instances, and the actions made %d buffers", live, len(m.buffers))
	}
}

// TestStore makes random calls of a store and compares what it says with a model.
func TestStore(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newStoreModel(t, seed)
			for range 400 {
				m.step()
				m.check()
			}
			for len(m.pins) > 0 {
				m.unpin()
			}
			for l := range m.lanes {
				m.lanes[l].done = m.lanes[l].issued
			}
			m.st.freeDeferred()
			for d, n := range m.told.copies {
				if n != 0 {
					t.Errorf("%d copies of a home of data %d are told of as in flight at the end", n, d)
				}
			}
			for len(m.data) > 0 {
				m.endData()
			}
			m.st.freeIdle()
			m.perform()
			m.check()
			if len(m.st.freeInsts) != len(m.st.insts) || len(m.st.insts) != m.peak {
				t.Errorf("%d of %d records of instances can be used again, after at most %d at a time", len(m.st.freeInsts), len(m.st.insts), m.peak)
			}
			if n := len(m.buffers) + m.st.slots.live + m.st.vals.live + m.st.data.live + m.st.heads.live; n != 0 {
				t.Errorf("left at the end: %d buffers, %d slots, %d values, %d data, %d lists", len(m.buffers), m.st.slots.live, m.st.vals.live, m.st.data.live, m.st.heads.live)
			}
		})
	}
}

// A copy in slot 0 is one as any other: a value that has it in host memory stays anchored,
// or its commit goes on, when another copy is lost.
func TestFirstSlot(t *testing.T) {
	for _, ev := range []valueEvent{madeInHost, commitBegun} {
		m := newStoreModel(t, 1)
		d := m.st.allocData(1)
		m.st.openData(d, graph.Versioned, false, false, 0)
		m.st.makeHome(d, 1, pieceLen(d), Action{})
		v := m.st.newValue(0, d, 0, pieceLen(d))
		m.st.hold(0, v, 0, 0)
		m.st.vals.at[v].on(ev)
		want := m.st.vals.at[v].flags
		i := m.st.alloc(d, 1, 0, 1, 0, pieceLen(d))
		s := m.st.insts[i].at(0)
		m.st.hold(s, v, 0, 0)
		m.st.loseCopy(s)
		if got := m.st.vals.at[v].flags; s == 0 || got != want {
			t.Errorf("after the copy in slot %d was lost the value has flags %08b, want %08b", s, got, want)
		}
	}
}

// A buffer whose content was given up and that is used again meanwhile is not freed with
// its new value while an operation in flight may refer to the old one.
func TestBufferUsedAgainBeforeItsEnd(t *testing.T) {
	m := newStoreModel(t, 1)
	d := m.st.allocData(1)
	m.st.openData(d, graph.Versioned, false, false, 0)
	first, second := m.st.newValue(0, d, 0, 16), m.st.newValue(0, d, 0, 16)
	i := m.st.alloc(d, hostSpace, 0, 1, 0, 16)
	s := m.st.insts[i].slot
	m.lanes[0].issued++
	m.st.hold(s, first, 0, m.lanes[0].issued)
	m.lanes[1].issued++ // a reader
	m.st.loseCopy(s)
	m.st.deferFree(i)
	m.lanes[0].done++
	m.st.beginIssue()
	if again := m.st.findVacant(d, hostSpace, 0, 1); again != i {
		t.Fatalf("instance %d is used again, want %d", again, i)
	}
	m.st.hold(s, second, 0, m.lanes[0].done)
	m.st.vals.at[second].on(madeInHost)
	if m.st.freeQuick(&m.st.vals.at[second]) {
		t.Error("it was freed while an operation in flight may refer to it")
	}
	m.st.freeCopies(second, false)
	m.st.freeDeferred()
	if m.st.insts[i].data != d {
		t.Error("it was freed before the operations that were in flight")
	}
	m.lanes[1].done++
	m.st.freeDeferred()
	if m.st.insts[i].data != -2 {
		t.Error("it was not freed after them")
	}
	if err := m.st.audit(); err != nil {
		t.Error(err)
	}
}
