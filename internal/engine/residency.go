package engine

// Copies of values: which slots hold a value, which operations touch them, and questions
// about where a value is.

// hold claims a slot for a value that operation (l, seq) fills; (0, 0) means that the
// value is there already.
func (st *store) hold(s slotID, v valueID, l Lane, seq uint64) {
	sl := &st.slots.at[s]
	sl.val, sl.lane, sl.seq = v, l, seq
	sl.next = st.vals.at[v].slot
	st.vals.at[v].slot = s
	st.insts[sl.inst].held++
}

// unhold ends a slot's claim, if it has one.
func (st *store) unhold(s slotID) {
	sl := &st.slots.at[s]
	if sl.val < 0 {
		return
	}
	p := &st.vals.at[sl.val].slot
	for *p != s {
		p = &st.slots.at[*p].next
	}
	*p = sl.next
	sl.val, sl.next = -1, -1
	in := &st.insts[sl.inst]
	in.held--
	st.vacated(in, s)
	st.madeRoom(in.space)
}

// loseCopy ends a slot's claim where that may take the value's last complete copy in host
// memory, or the copy that a commit was making.
func (st *store) loseCopy(s slotID) {
	v := st.slots.at[s].val
	if v < 0 {
		return
	}
	st.unhold(s)
	val := &st.vals.at[v]
	if val.has(anchored) && !st.wholeInHost(v, -1) {
		val.on(leftHost)
	}
	if val.has(commits) && !st.elsewhereInHost(v, -1) {
		val.on(commitEnded)
	}
}

// vacated tells the watcher that a slot of a home may be able to take its output.
func (st *store) vacated(in *inst, s slotID) {
	if in.home && in.data >= 0 {
		st.watcher.homeVacated(in.data, in.piece(s))
	}
}

// pending reports whether an operation is in flight.
func (st *store) pending(l Lane, seq uint64) bool {
	return seq > st.lanes[l].done
}

// filled reports whether the operation that fills a slot is complete.
func (st *store) filled(s slotID) bool { return !st.pending(st.slots.at[s].lane, st.slots.at[s].seq) }

// pin notes that an operation in flight touches pieces [p0, p0+n) of an instance. copying
// is 1 for a copy and 0 for a launch.
func (st *store) pin(i Inst, p0, n pieceID, copying int32) {
	in := &st.insts[i]
	in.pins++
	st.spaces[in.space].pins++
	for s := in.at(p0); n > 0; n-- {
		st.slots.at[s].pins++
		st.slots.at[s].copying += copying
		s++
	}
	if in.home && in.data >= 0 && copying > 0 {
		st.watcher.homeCopies(in.data, 1)
	}
}

// unpin undoes pin.
func (st *store) unpin(i Inst, p0, n pieceID, copying int32) {
	in := &st.insts[i]
	in.pins--
	st.spaces[in.space].pins--
	for s := in.at(p0); n > 0; n-- {
		st.slots.at[s].pins--
		st.slots.at[s].copying -= copying
		if st.slots.at[s].pins == 0 {
			st.vacated(in, s)
		}
		s++
	}
	if in.home && in.data >= 0 && copying > 0 {
		st.watcher.homeCopies(in.data, -1)
	}
	if in.pins == 0 {
		st.freeIfIdle(i)
		st.madeRoom(in.space)
	}
}

// vacant reports whether pieces [p0, p0+n) of an instance hold nothing and may be
// written.
func (st *store) vacant(i Inst, p0, n pieceID) bool {
	in := &st.insts[i]
	if in.home && st.data.at[in.data].fixed {
		return false
	}
	for s := in.at(p0); n > 0; n-- {
		if sl := &st.slots.at[s]; sl.val >= 0 || sl.pins > 0 {
			return false
		}
		s++
	}
	return true
}

// findVacant returns an instance of d in space with those pieces vacant, or -1. Only
// homes and instances that still hold other pieces have vacant slots: an empty instance
// is freed.
func (st *store) findVacant(d dataID, space spaceID, p0, n pieceID) Inst {
	for c := st.covering(d, p0, n); c.inst >= 0; st.nextCover(&c) {
		i := c.inst
		if st.insts[i].covers(space, p0, n) && st.insts[i].reservedBy != st.serial && st.vacant(i, p0, n) {
			return i
		}
	}
	return -1
}

// freeQuick frees the commonest kind of value in constant time: an intermediate result in
// host memory, alone in its buffer, that nothing else needs. It returns false and changes
// nothing for any other.
func (st *store) freeQuick(val *value) bool {
	s := val.slot
	if val.flags != produced|anchored || val.deps > 0 || val.run < 0 || s < 0 {
		return false
	}
	sl := &st.slots.at[s]
	in := &st.insts[sl.inst]
	if sl.next >= 0 || in.n != 1 || in.pins > 0 || in.home || in.deferred || in.space != 0 {
		return false
	}
	val.slot, sl.val = -1, -1
	in.held = 0
	st.freeInst(sl.inst)
	return true
}

// freeCopies ends the copies of a value; with keepHost those in host memory stay.
func (st *store) freeCopies(v valueID, keepHost bool) {
	for s := st.vals.at[v].slot; s >= 0; {
		next := st.slots.at[s].next
		i := st.slots.at[s].inst
		switch in := &st.insts[i]; {
		case !keepHost || in.space != 0:
			st.unhold(s)
			st.freeIfIdle(i)
		default:
			st.vacated(in, s) // the copy has no reader left and can be moved aside
		}
		s = next
	}
}

// have reports whether a copy of v can be read now or after operations in flight.
func (st *store) have(v valueID) bool {
	for s := st.vals.at[v].slot; s >= 0; s = st.slots.at[s].next {
		if !st.spaces[st.insts[st.slots.at[s].inst].space].away {
			return true
		}
	}
	return false
}

// copied reports whether an operation in flight makes a copy of v.
func (st *store) copied(v valueID) bool {
	for s := st.vals.at[v].slot; s >= 0; s = st.slots.at[s].next {
		if !st.filled(s) {
			return true
		}
	}
	return false
}

// elsewhereInHost reports whether v has a copy in host memory, complete or in flight, in
// another slot than s.
func (st *store) elsewhereInHost(v valueID, s slotID) bool {
	for o := st.vals.at[v].slot; o >= 0; o = st.slots.at[o].next {
		if o != s && st.insts[st.slots.at[o].inst].space == 0 {
			return true
		}
	}
	return false
}

// wholeInHost reports whether v has a complete copy in host memory in another slot than
// s.
func (st *store) wholeInHost(v valueID, s slotID) bool {
	for o := st.vals.at[v].slot; o >= 0; o = st.slots.at[o].next {
		if o != s && st.insts[st.slots.at[o].inst].space == 0 && st.filled(o) {
			return true
		}
	}
	return false
}

// elsewhere reports whether v has a complete copy in another slot than s.
func (st *store) elsewhere(v valueID, s slotID) bool {
	for o := st.vals.at[v].slot; o >= 0; o = st.slots.at[o].next {
		if o != s && st.filled(o) && !st.spaces[st.insts[st.slots.at[o].inst].space].away {
			return true
		}
	}
	return false
}

// clean reports whether every value in an instance has a complete copy elsewhere.
func (st *store) clean(i Inst) bool {
	in := &st.insts[i]
	for s := in.slot; s < in.end(); s++ {
		if v := st.slots.at[s].val; v >= 0 && !st.elsewhere(v, s) {
			return false
		}
	}
	return true
}

// doubled reports whether every value in an instance has a complete copy in host memory
// elsewhere.
func (st *store) doubled(i Inst) bool {
	in := &st.insts[i]
	for s := in.slot; s < in.end(); s++ {
		if v := st.slots.at[s].val; v >= 0 && !st.wholeInHost(v, s) {
			return false
		}
	}
	return true
}
