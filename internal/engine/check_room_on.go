//go:build invariants

package engine

// rooms checks what runs were promised of host memory, that none holds more than its need, and that
// the first in line waits for something.
func (c *recounter) rooms() {
	limit := c.mem.spaces[hostSpace].cap
	promised, users := int64(0), 0
	for _, r := range c.runs {
		if r == nil {
			continue
		}
		active := r.begun && (r.state == runActive || r.state == runFailing) && !r.revived
		if r.state != runWaiting {
			promised += r.hostNeed
		}
		if active && r.hostNeed > 0 {
			users++
			held := int64(0)
			for d, id := range r.dataOf {
				if r.refs == nil || r.refs[d] < 0 {
					c.mem.eachInst(id, func(i Inst) {
						if in := &c.mem.insts[i]; in.space == hostSpace && !in.lent && in.held > 0 {
							held += in.bytes
						}
					})
				}
			}
			c.must(held <= r.hostNeed || r.vacating || r.report.Replays > 0, "a run holds more host memory than it may need", int32(r.id), int32(held), int32(r.hostNeed))
		}
	}
	c.same(int(c.promised), int(promised), "bytes of host memory promised")
	c.same(c.users, users, "runs that need host memory")
	if r := c.firstForRoom(); r != nil && c.dataFree(r) && r.after == 0 {
		c.must(users > 0 && promised+r.hostNeed > limit, "a run waits for room and there is some", int32(r.id))
	}
}
