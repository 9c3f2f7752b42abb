// Package ports holds what work on ranges of items reads and writes, said once: the data of its graph, the slices
// that the task of a range uses and the bytes that a range moves follow from it.
package ports

import (
	"fmt"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
)

// Port is data that the tasks of ranges use, each its part or all of it.
type Port struct {
	graph.Data
	Access graph.Access
	// Each is the size in bytes of what belongs to Per items, one after another; Per 0 means 1. With Each 0
	// every task uses all of the data.
	Each, Per int64
	// Part returns the slice of a range where it does not follow from Each and Per.
	Part func(lo, hi int64) (offset, bytes int64)
	// Aside is data that no task of a range uses, as other tasks of the graph do.
	Aside bool
}

// Use returns the use of the port, which is data id of the graph, by the task of items lo to hi-1.
func (p *Port) Use(id graph.DataID, lo, hi int64) graph.Use {
	u := graph.Use{Data: id, Access: p.Access}
	per := max(p.Per, 1)
	switch {
	case p.Part != nil:
		u.Offset, u.Bytes = p.Part(lo, hi)
	case p.Each != 0:
		u.Offset, u.Bytes = p.Each*(lo/per), p.Each*((hi-lo+per-1)/per)
	}
	return u
}

// Ports are the ports of some work. In its graph they are the first data, in their order.
type Ports []Port

// Bytes returns what a range reads and writes, of ports that are not Aside.
func (ps Ports) Bytes(lo, hi int64) (in, out int64) {
	if lo == hi {
		return 0, 0
	}
	for i := range ps {
		p := &ps[i]
		if p.Aside {
			continue
		}
		size := p.Data.Bytes
		if p.Part != nil || p.Each != 0 {
			size = p.Use(0, lo, hi).Bytes
		}
		if p.Access.Reads() {
			in += size
		}
		if p.Access.Writes() {
			out += size
		}
	}
	return in, out
}

// AddTo adds the ports to a graph that has no data yet.
func (ps Ports) AddTo(b *graph.Builder) {
	for i := range ps {
		b.Data(ps[i].Data)
	}
}

// Uses are the uses of the task of a range.
func (ps Ports) Uses(lo, hi int64) []graph.Use {
	uses := make([]graph.Use, 0, len(ps))
	for i := range ps {
		if !ps[i].Aside {
			uses = append(uses, ps[i].Use(graph.DataID(i), lo, hi))
		}
	}
	return uses
}

// Check errs for a range of extent items that cuts what belongs to several of them.
func (ps Ports) Check(r sched.Range, extent int64) error {
	for i := range ps {
		if per := ps[i].Per; per > 1 && (r.Lo%per != 0 || r.Hi%per != 0 && r.Hi != extent) {
			return fmt.Errorf("range %d-%d cuts a block: begin and end at multiples of %d", r.Lo, r.Hi, per)
		}
	}
	return nil
}
