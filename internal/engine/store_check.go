package engine

import "fmt"

// The store's audit: every count, list and order of the store computed anew from the
// records. The recount calls it with -tags invariants, TestStore after every change.

// audit returns the first count, list or order that does not follow from the records. It
// takes time in proportion to all records.
func (st *store) audit() error {
	for _, check := range []func() error{st.auditLists, st.auditOrder, st.auditSlots, st.auditBytes, st.auditLines, st.auditDeferred} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// auditLists checks that an instance is on the list of its data once, and on no other.
func (st *store) auditLists() error {
	listed := make([]bool, len(st.insts))
	seen := make(map[dataID]bool)
	var err error
	for k := range st.insts {
		d := st.insts[k].data
		if d < 0 || seen[d] {
			continue
		}
		seen[d] = true
		st.eachInst(d, func(i Inst) {
			if err == nil && (st.insts[i].data != d || listed[i]) {
				err = fmt.Errorf("instance %d is in a list it does not belong to, of data %d", i, d)
			}
			listed[i] = true
		})
	}
	for i := range st.insts {
		if err == nil && listed[i] != (st.insts[i].data >= 0) {
			err = fmt.Errorf("instance %d is in no list, or ended and in one", i)
		}
	}
	return err
}

// auditOrder checks that the order of use of each device's memory has its instances once.
func (st *store) auditOrder() error {
	ordered := make([]bool, len(st.insts))
	for s := range st.spaces {
		prev := Inst(-1)
		for i := st.spaces[s].oldest; i >= 0; i = st.insts[i].newer {
			if st.insts[i].older != prev || int(st.insts[i].space) != s || ordered[i] {
				return fmt.Errorf("instance %d is out of the order of memory %d", i, s)
			}
			ordered[i], prev = true, i
		}
		if st.spaces[s].newest != prev {
			return fmt.Errorf("the order of memory %d does not end at its newest instance", s)
		}
	}
	for i := range st.insts {
		if in := &st.insts[i]; ordered[i] != (in.data != -2 && in.space != hostSpace) {
			return fmt.Errorf("instance %d is in no order, or free and in one", i)
		}
	}
	return nil
}

// auditSlots checks that a slot belongs to one instance, that the list of each value's
// copies is the slots that hold it, and that an empty instance has ended.
func (st *store) auditSlots() error {
	slots, listed := 0, make([]bool, len(st.slots.at))
	for k := range st.insts {
		i, in := Inst(k), &st.insts[k]
		if in.data == -2 {
			continue
		}
		slots += int(in.n)
		held := int32(0)
		for s := in.slot; s < in.end(); s++ {
			sl := &st.slots.at[s]
			if sl.inst != i {
				return fmt.Errorf("slot %d of instance %d belongs to instance %d", s, i, sl.inst)
			}
			if sl.val < 0 {
				if sl.val != -1 || sl.next != -1 {
					return fmt.Errorf("slot %d holds no value, and says value %d and next copy %d", s, sl.val, sl.next)
				}
				continue
			}
			held++
			if val := &st.vals.at[sl.val]; val.data != in.data || val.piece != in.piece(s) {
				return fmt.Errorf("value %d is in slot %d, which is for another piece", sl.val, s)
			}
			if err := st.auditCopies(sl.val, listed); err != nil {
				return err
			}
			if !listed[s] {
				return fmt.Errorf("slot %d holds value %d, which does not list it", s, sl.val)
			}
		}
		if in.data >= 0 && st.data.at[in.data].secret && !in.secret {
			return fmt.Errorf("instance %d is not secret, and its data %d is", i, in.data)
		}
		if in.held != held {
			return fmt.Errorf("instance %d says it holds %d values, and holds %d", i, in.held, held)
		}
		if held == 0 && in.pins == 0 && !in.home && !in.deferred {
			return fmt.Errorf("instance %d holds nothing and is not freed", i)
		}
	}
	for _, list := range st.idle.insts {
		slots += len(list)
		for _, i := range list {
			if in := &st.insts[i]; in.data != -2 || in.space != hostSpace || in.n != 1 || in.held != 0 || in.pins != 0 || in.lent || in.secret {
				return fmt.Errorf("idle instance %d is in use", i)
			}
		}
	}
	if st.slots.live != slots {
		return fmt.Errorf("%d slots are in use, counted %d", st.slots.live, slots)
	}
	return nil
}

// auditCopies checks the list of a value's copies and marks them in listed.
func (st *store) auditCopies(v valueID, listed []bool) error {
	n := 0
	for s := st.vals.at[v].slot; s >= 0; s = st.slots.at[s].next {
		if n++; st.slots.at[s].val != v || n > len(st.slots.at) {
			return fmt.Errorf("value %d lists slot %d, which does not hold it, or lists it twice", v, s)
		}
		listed[s] = true
	}
	return nil
}

// auditBytes checks the bytes used of each memory and the pins on it, idle bytes and the
// number of memories that are away.
func (st *store) auditBytes() error {
	used, pins, idle, away := make([]int64, len(st.spaces)), make([]int, len(st.spaces)), int64(0), 0
	for k := range st.insts {
		if in := &st.insts[k]; in.data != -2 {
			pins[in.space] += int(in.pins)
			if !in.lent {
				used[in.space] += in.bytes
			}
		}
	}
	for s := range st.spaces {
		sp := &st.spaces[s]
		if sp.used != used[s] || sp.pins != pins[s] {
			return fmt.Errorf("memory %d says %d bytes and %d pins, counted %d and %d", s, sp.used, sp.pins, used[s], pins[s])
		}
		if limit := sp.cap; sp.free != nil {
			if limit == 0 {
				limit = NoLimit
			}
			if *sp.free != limit-used[s] {
				return fmt.Errorf("policies see %d bytes free of memory %d, counted %d", *sp.free, s, limit-used[s])
			}
		}
		if sp.away {
			away++
		}
	}
	for _, list := range st.idle.insts {
		for _, i := range list {
			idle += st.insts[i].bytes
		}
	}
	if st.idle.bytes != idle || st.away != away {
		return fmt.Errorf("%d bytes are idle and %d memories away, counted %d and %d", st.idle.bytes, st.away, idle, away)
	}
	return nil
}

// auditLines checks the number of waiters.
func (st *store) auditLines() error {
	n := 0
	for s := range st.spaces {
		n += len(st.spaces[s].line)
	}
	if st.waiters != n {
		return fmt.Errorf("%d wait for memory, counted %d", st.waiters, n)
	}
	return nil
}

// auditDeferred checks that the instances marked deferred are those on the list, each once.
func (st *store) auditDeferred() error {
	marked := 0
	for i := range st.insts {
		if st.insts[i].deferred {
			marked++
		}
	}
	seen := make(map[Inst]bool)
	for _, f := range st.deferred {
		if !st.insts[f.inst].deferred || seen[f.inst] {
			return fmt.Errorf("instance %d is to be freed later, and is not marked or listed twice", f.inst)
		}
		seen[f.inst] = true
	}
	if marked != len(st.deferred) {
		return fmt.Errorf("%d instances are marked to be freed later, %d are on the list", marked, len(st.deferred))
	}
	return nil
}
