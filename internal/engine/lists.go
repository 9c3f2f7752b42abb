package engine

import "math/bits"

// Instances of data, by the pieces they have. Data of few pieces has one list. Otherwise
// the pieces are the leaves of a binary tree, and an instance is on the list of the
// lowest node that has all of its pieces below it. An instance that covers a range is
// therefore on the list of the range's own node or of one above it.

// fewPieces is the greatest number of pieces with a single list: to search that takes
// about as long as to climb a tree.
const fewPieces = 8

// makeLists prepares data for instances of up to pieces pieces.
func (st *store) makeLists(d dataID, pieces pieceID) {
	dt := &st.data.at[d]
	dt.insts, dt.levels = -1, 0
	if pieces <= fewPieces {
		return
	}
	dt.levels = uint8(bits.Len32(uint32(pieces - 1)))
	n := 2 << dt.levels
	dt.insts = Inst(st.heads.alloc(n))
	for i := range n {
		st.heads.at[int(dt.heads())+i] = -1
	}
}

// endLists frees the lists of data. The instances on them end or are listed anew.
func (st *store) endLists(d dataID) {
	if dt := &st.data.at[d]; dt.levels > 0 {
		st.heads.release(dt.heads(), 2<<dt.levels)
	}
	st.data.at[d].insts, st.data.at[d].levels = -1, 0
}

// heads returns the index of the first list head, for data with a tree.
func (dt *datum) heads() int32 { return int32(dt.insts) }

// node returns the lowest node with all of pieces [p0, p0+n) below it.
func (dt *datum) node(p0, n pieceID) int32 {
	last := pieceID(1)<<dt.levels - 1
	lo, hi := min(p0, last), min(p0+max(n, 1)-1, last)
	return int32(lo+last+1) >> bits.Len32(uint32(lo^hi))
}

// list returns the head of the list that an instance belongs on.
func (st *store) list(in *inst) *Inst {
	dt := &st.data.at[in.data]
	if dt.levels == 0 {
		return &dt.insts
	}
	return &st.heads.at[dt.heads()+dt.node(in.p0, in.n)]
}

// cover iterates over the instances of data that may cover a range of pieces.
type cover struct {
	inst       Inst
	base, node int32
}

// covering starts the iteration for pieces [p0, p0+n).
func (st *store) covering(d dataID, p0, n pieceID) cover {
	dt := &st.data.at[d]
	if dt.levels == 0 {
		return cover{inst: dt.insts}
	}
	c := cover{inst: -1, base: dt.heads(), node: 2 * dt.node(p0, n)}
	st.climbTree(&c)
	return c
}

// nextCover goes on to the next instance; c.inst is -1 after the last.
func (st *store) nextCover(c *cover) {
	if c.inst = st.insts[c.inst].next; c.inst < 0 {
		st.climbTree(c)
	}
	st.visit(1)
}

// climbTree goes on to the next node above that has instances.
func (st *store) climbTree(c *cover) {
	for c.inst < 0 && c.node > 1 {
		st.visit(1)
		c.node /= 2
		c.inst = st.heads.at[c.base+c.node]
	}
}

// eachInst visits the instances of data. visit may take the instance off its list.
func (st *store) eachInst(d dataID, visit func(i Inst)) {
	each := func(i Inst) {
		for i >= 0 {
			next := st.insts[i].next
			visit(i)
			i = next
		}
	}
	dt := st.data.at[d]
	if dt.levels == 0 {
		each(dt.insts)
		return
	}
	for k := range int32(2) << dt.levels {
		each(st.heads.at[dt.heads()+k])
	}
}
