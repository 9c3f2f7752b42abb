package engine

import (
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
)

// auditedStore returns a store with one of everything the audit looks at: data with a home
// and data cut into many pieces, values with several copies, an idle buffer, a deferred
// one, pins, waiters and a memory that is away.
func auditedStore(t *testing.T) *store {
	m := newStoreModel(t, 1)
	st := &m.st
	const few, many = 0, 1
	first := st.allocData(2)
	for d, pieces := range []pieceID{few: 2, many: fewPieces + 1} {
		st.openData(first+dataID(d), graph.Versioned, false, false, 0)
		if pieces > fewPieces {
			st.makeLists(first+dataID(d), pieces)
		}
	}
	st.makeHome(first, 2, 32, Action{})
	st.beginIssue()
	for d := range first + 2 {
		for p := range pieceID(2) {
			v := st.newValue(0, d, p, 16)
			for space := range spaceID(3) {
				i := st.findVacant(d, space, p, 1)
				if i < 0 {
					i = st.alloc(d, space, p, 1, 16*int64(p), 16)
				}
				st.hold(st.insts[i].at(p), v, 0, 0)
			}
		}
	}
	v := st.newValue(0, first+many, 3, 16)
	for range 2 { // buffers that end, of which one is idle and one is used again
		st.hold(st.insts[st.alloc(first+many, 0, 3, 1, 48, 16)].slot, v, 0, 0)
	}
	m.lanes[0].issued = 1
	given := st.vals.at[v].slot
	st.loseCopy(given)
	st.deferFree(st.slots.at[given].inst)
	st.freeCopies(v, false)
	st.pin(st.spaces[1].oldest, 0, 1, 1)
	st.await(hostSpace, waiter{dev: 0})
	st.goAway(2)
	m.perform()
	if err := st.audit(); err != nil {
		t.Fatal(err)
	}
	if len(st.idle.insts[idleClass(16)]) != 1 || len(st.deferred) != 1 {
		t.Fatalf("%d idle buffers and %d deferred, want one of each", len(st.idle.insts[idleClass(16)]), len(st.deferred))
	}
	return st
}

// TestAuditCatches makes one wrong change at a time to a store and sees that the audit
// finds it.
func TestAuditCatches(t *testing.T) {
	held := func(st *store) (*inst, slotID) { // an instance in a device's memory, and its slot
		in := &st.insts[st.spaces[1].newest]
		return in, in.slot
	}
	idle := func(st *store) *inst { return &st.insts[st.idle.insts[idleClass(16)][0]] }
	for _, c := range []struct {
		name, says string
		change     func(st *store)
	}{
		{"listed with other data", "in a list it does not belong to", func(st *store) { st.data.at[1].levels, st.data.at[1].insts = 0, st.data.at[0].insts }},
		{"listed twice", "in a list it does not belong to", func(st *store) { *st.list(&inst{data: 1, p0: 5, n: 1}) = st.spaces[1].newest }},
		{"on no list", "is in no list", func(st *store) { *st.list(&st.insts[0]) = -1 }},
		{"wrong neighbour in the order", "out of the order", func(st *store) { in, _ := held(st); in.older = -1 }},
		{"in the order of another memory", "out of the order", func(st *store) { in, _ := held(st); in.space = 2 }},
		{"order that ends early", "does not end at its newest", func(st *store) { st.spaces[1].newest = st.spaces[1].oldest }},
		{"in no order", "is in no order", func(st *store) { st.lruRemove(st.spaces[1].newest) }},
		{"slot of another instance", "belongs to instance", func(st *store) { _, s := held(st); st.slots.at[s].inst = 0 }},
		{"empty slot with a next copy", "holds no value, and says", func(st *store) { in, s := held(st); st.unhold(s); in.pins++; st.slots.at[s].next = 0 }},
		{"empty slot without the right number", "holds no value, and says", func(st *store) { in, s := held(st); st.unhold(s); in.pins++; st.slots.at[s].val = -2 }},
		{"value of another piece", "which is for another piece", func(st *store) { _, s := held(st); st.vals.at[st.slots.at[s].val].piece++ }},
		{"value of other data", "which is for another piece", func(st *store) { _, s := held(st); st.vals.at[st.slots.at[s].val].data-- }},
		{"copy that its value does not list", "which does not list it", func(st *store) { _, s := held(st); st.vals.at[st.slots.at[s].val].slot = -1 }},
		{"copy of another value", "which does not hold it", func(st *store) { _, s := held(st); st.slots.at[s].next = st.insts[0].slot }},
		{"copies in a circle", "lists it twice", func(st *store) { _, s := held(st); st.slots.at[s].next = s }},
		{"wrong count of values held", "says it holds", func(st *store) { in, _ := held(st); in.held++ }},
		{"empty instance", "holds nothing and is not freed", func(st *store) { _, s := held(st); st.unhold(s) }},
		{"idle and of data", "is in use", func(st *store) { idle(st).data, idle(st).home = -1, true }},
		{"idle on a device", "is in use", func(st *store) { idle(st).space = 1 }},
		{"idle with pieces", "is in use", func(st *store) { idle(st).n = 2 }},
		{"idle and held", "is in use", func(st *store) { idle(st).held = 1 }},
		{"idle and pinned", "is in use", func(st *store) { idle(st).pins = 1 }},
		{"idle and secret", "is in use", func(st *store) { idle(st).secret = true }},
		{"not secret as its data", "is not secret", func(st *store) { st.data.at[0].secret = true }},
		{"idle and lent", "is in use", func(st *store) { idle(st).lent = true }},
		{"slots in use", "slots are in use", func(st *store) { st.slots.live++ }},
		{"bytes used", "bytes and", func(st *store) { st.spaces[1].used++ }},
		{"bytes used of host memory", "bytes and", func(st *store) { st.insts[0].lent = false }},
		{"pins of a memory", "bytes and", func(st *store) { st.spaces[1].pins++ }},
		{"bytes free", "policies see", func(st *store) { *st.spaces[1].free++ }},
		{"bytes free without a limit", "policies see", func(st *store) { st.spaces[1].cap = 0 }},
		{"idle bytes", "bytes are idle", func(st *store) { st.idle.bytes++ }},
		{"memories away", "memories away", func(st *store) { st.away++ }},
		{"waiters", "wait for memory", func(st *store) { st.waiters++ }},
		{"deferred without a mark", "is not marked", func(st *store) { in := &st.insts[st.deferred[0].inst]; in.deferred, in.home = false, true }},
		{"deferred twice", "listed twice", func(st *store) { st.deferred = append(st.deferred, st.deferred[0]) }},
		{"marked and not deferred", "are marked to be freed later", func(st *store) { st.insts[0].deferred = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := auditedStore(t)
			c.change(st)
			if err := st.audit(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the audit says %v, want %q", err, c.says)
			}
		})
	}
}
