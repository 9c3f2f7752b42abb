package engine

import "math/bits"

// Instances of data, by the pieces they have. Data of few pieces has one list. Else
// the pieces are the leaves of a binary tree, and an instance is in the list of the
// lowest node that has all of its pieces below it. Whatever covers a range is then
// in the list of the range's own node or of one above it.

// fewPieces is up to how many pieces one list is enough: it is looked through in
// about the time that it takes to climb a tree.
const fewPieces = 8

// makeLists prepares data for instances of so many pieces.
func (e *Engine) makeLists(d dataID, pieces pieceID) {
	dt := &e.data.at[d]
	dt.insts, dt.levels = -1, 0
	if pieces <= fewPieces {
		return
	}
	dt.levels = uint8(bits.Len32(uint32(pieces - 1)))
	n := 2 << dt.levels
	dt.insts = Inst(e.heads.alloc(n))
	for i := range n {
		e.heads.at[int(dt.heads())+i] = -1
	}
}

// endLists gives the lists of data up. What is in them is about to end, or to be listed anew.
func (e *Engine) endLists(d dataID) {
	if dt := &e.data.at[d]; dt.levels > 0 {
		e.heads.release(dt.heads(), 2<<dt.levels)
	}
	e.data.at[d].insts, e.data.at[d].levels = -1, 0
}

// heads returns where the heads of its lists begin, where it has several.
func (dt *datum) heads() int32 { return int32(dt.insts) }

// node returns the lowest node with all of pieces [p0, p0+n) below it.
func (dt *datum) node(p0, n pieceID) int32 {
	last := pieceID(1)<<dt.levels - 1
	lo, hi := min(p0, last), min(p0+max(n, 1)-1, last)
	return int32(lo+last+1) >> bits.Len32(uint32(lo^hi))
}

// list returns the head of the list an instance belongs in.
func (e *Engine) list(in *inst) *Inst {
	dt := &e.data.at[in.data]
	if dt.levels == 0 {
		return &dt.insts
	}
	return &e.heads.at[dt.heads()+dt.node(in.p0, in.n)]
}

// cover goes through the instances of data that may cover some pieces.
type cover struct {
	inst       Inst
	base, node int32
}

func (e *Engine) covering(d dataID, p0, n pieceID) cover {
	dt := &e.data.at[d]
	if dt.levels == 0 {
		return cover{inst: dt.insts}
	}
	c := cover{inst: -1, base: dt.heads(), node: 2 * dt.node(p0, n)}
	e.climbTree(&c)
	return c
}

func (e *Engine) nextCover(c *cover) {
	if c.inst = e.insts[c.inst].next; c.inst < 0 {
		e.climbTree(c)
	}
	e.visit(1)
}

// climbTree goes on to the next node above that has instances.
func (e *Engine) climbTree(c *cover) {
	for c.inst < 0 && c.node > 1 {
		e.visit(1)
		c.node /= 2
		c.inst = e.heads.at[c.base+c.node]
	}
}

// eachInst visits the instances of data, which may be taken off their list then.
func (e *Engine) eachInst(d dataID, visit func(i Inst)) {
	each := func(i Inst) {
		for i >= 0 {
			next := e.insts[i].next
			visit(i)
			i = next
		}
	}
	dt := e.data.at[d]
	if dt.levels == 0 {
		each(dt.insts)
		return
	}
	for k := range int32(2) << dt.levels {
		each(e.heads.at[dt.heads()+k])
	}
}
