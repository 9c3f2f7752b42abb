package sim

import (
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// linkCost is a cost model for a machine whose links can break. Work costs what
// the model below says; a copy whose path in the whole machine is broken costs what
// the best remaining path does, and is impossible (a negative median) when there is
// none. Its epoch changes with every break and mend.
type linkCost struct {
	machine.Cost
	whole     *machine.Machine
	now       *machine.Machine // less the broken links
	model     machine.Cost     // of now
	broken    [][2]machine.DeviceID
	changes   uint64
	unchanged map[[2]machine.DeviceID]bool // whether the path between two memories is that of whole
}

// newLinkCost returns a cost model that answers like base until a link breaks.
func newLinkCost(m *machine.Machine, base machine.Cost) *linkCost {
	return &linkCost{Cost: base, whole: m, now: m}
}

// Machine returns the machine with the links that work.
func (c *linkCost) Machine() *machine.Machine { return c.now }

// Copy predicts a copy over the links that work.
func (c *linkCost) Copy(bytes int64, from, to machine.DeviceID) machine.Estimate {
	if len(c.broken) == 0 || c.asBefore(from, to) {
		return c.Cost.Copy(bytes, from, to)
	}
	return c.model.Copy(bytes, from, to)
}

// Task predicts a task, which links have no part in.
func (c *linkCost) Task(t *graph.Task, on machine.DeviceID) machine.Estimate {
	return c.Cost.Task(t, on)
}

// Observe lets the model below learn, if it can.
func (c *linkCost) Observe(t *graph.Task, on machine.DeviceID, took time.Duration) {
	if l, ok := c.Cost.(machine.Learner); ok {
		l.Observe(t, on, took)
	}
}

// ObserveCopy lets the model below learn of copies that go as it knows, if it can.
func (c *linkCost) ObserveCopy(bytes int64, from, to machine.DeviceID, took time.Duration) {
	if l, ok := c.Cost.(machine.Learner); ok && (len(c.broken) == 0 || c.asBefore(from, to)) {
		l.ObserveCopy(bytes, from, to, took)
	}
}

// Epoch changes whenever an answer may have.
func (c *linkCost) Epoch() uint64 { return c.Cost.Epoch() + c.changes }

// Break takes the links between two memories away. It reports whether any was
// there.
func (c *linkCost) Break(a, b machine.DeviceID) bool {
	if !slices.ContainsFunc(c.now.Links, func(l machine.Link) bool { return joins(&l, a, b) }) {
		return false
	}
	c.broken = append(c.broken, [2]machine.DeviceID{a, b})
	c.rebuild()
	return true
}

// Mend puts the links between two memories back. It reports whether they were
// broken.
func (c *linkCost) Mend(a, b machine.DeviceID) bool {
	i := slices.IndexFunc(c.broken, func(p [2]machine.DeviceID) bool {
		return p == [2]machine.DeviceID{a, b} || p == [2]machine.DeviceID{b, a}
	})
	if i < 0 {
		return false
	}
	c.broken = slices.Delete(c.broken, i, i+1)
	c.rebuild()
	return true
}

// Reaches reports whether data can get from one memory to another.
func (c *linkCost) Reaches(from, to machine.DeviceID) bool { return c.Copy(1, from, to).Median >= 0 }

func (c *linkCost) rebuild() {
	c.now = c.whole
	for _, p := range c.broken {
		c.now = c.now.WithoutLink(p[0], p[1])
	}
	c.model = machine.NewRoofline(c.now)
	c.unchanged = make(map[[2]machine.DeviceID]bool)
	c.changes++
}

// asBefore reports whether the path between two memories leads over the same
// links as in the whole machine, so that what was learnt of it still holds.
func (c *linkCost) asBefore(from, to machine.DeviceID) bool {
	key := [2]machine.DeviceID{from, to}
	same, ok := c.unchanged[key]
	if !ok {
		same = slices.EqualFunc(linksBetween(c.whole, from, to), linksBetween(c.now, from, to), func(a, b *machine.Link) bool {
			return a.A == b.A && a.B == b.B
		})
		c.unchanged[key] = same
	}
	return same
}

// linksBetween returns the links that a copy uses.
func linksBetween(m *machine.Machine, from, to machine.DeviceID) []*machine.Link {
	hops, _, _ := m.Path(from, to)
	links := make([]*machine.Link, len(hops))
	for i, l := range hops {
		links[i] = &m.Links[l]
	}
	return links
}

func joins(l *machine.Link, a, b machine.DeviceID) bool {
	return l.A == a && l.B == b || l.A == b && l.B == a
}
