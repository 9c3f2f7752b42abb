package sim

import (
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/machine"
)

// flow is the running part of an operation: work that drains at a speed which
// changes whenever a resource it shares gains or loses a user. A gang has one
// flow, in its first member.
type flow struct {
	active  bool
	hung    bool
	version uint32 // entries of the heap with another version are stale
	since   time.Duration
	left    float64 // nanoseconds of work at full speed, as of since
	speed   float64
	own     float64 // bytes per second it takes from a resource when alone
	cores   float64 // and processor cores, with the others on its device
	lanes   int32   // what it shares with these, -1 for nothing
	width   int     // the number of lanes of a team that it takes
	uses    []int32 // resources
}

// flows holds the shared resources and the times at which running operations
// end. When nothing is shared an operation costs one push and one pop.
type flows struct {
	resources []resource
	byName    map[string]int32
	heap      []entry
	order     uint64
	active    int
}

type resource struct {
	bps   float64 // 0: users divide whatever they take
	cores float64 // not 0: they divide these instead
	team  int     // not 0: they are the launches of a team, which has so many lanes
	users []int32 // slots
}

// entry holds no pointers, so the collector never looks at the heap.
type entry struct {
	at      time.Duration
	order   uint64 // ties end in the order they were pushed
	slot    int32
	version uint32
}

func (f *flows) init(m *machine.Machine) {
	f.byName = make(map[string]int32)
	for _, r := range m.Resources {
		f.byName[r.Name] = f.add(r.BPS)
		f.resources[f.byName[r.Name]].cores = float64(r.Cores)
	}
}

func (f *flows) add(bps float64) int32 {
	f.resources = append(f.resources, resource{bps: bps})
	return int32(len(f.resources) - 1)
}

// named returns the numbers of resources, each once.
func (f *flows) named(names []string) []int32 {
	var out []int32
	for _, n := range names {
		if r, ok := f.byName[n]; ok && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// start sets the work of slot going.
func (f *flows) start(h *hardware, slot int32, work time.Duration, uses []int32, own, cores float64, lanes int32, width int) {
	fl := &h.ops[slot].flow
	*fl = flow{active: true, hung: fl.hung, version: fl.version + 1, since: h.now, left: float64(work), own: own, cores: cores, lanes: lanes, width: width, uses: uses}
	f.active++
	for _, r := range uses {
		f.resources[r].users = append(f.resources[r].users, slot)
	}
	f.rate(h, slot)
	f.others(h, uses, slot)
}

// stop takes a flow out, if the slot has one.
func (f *flows) stop(h *hardware, slot int32) {
	fl := &h.ops[slot].flow
	if !fl.active {
		return
	}
	fl.active = false
	fl.version++
	f.active--
	for _, r := range fl.uses {
		u := f.resources[r].users
		i := slices.Index(u, slot)
		u[i] = u[len(u)-1]
		f.resources[r].users = u[:len(u)-1]
	}
	f.others(h, fl.uses, slot)
	fl.uses = nil
}

// others adapts everyone else on the resources.
func (f *flows) others(h *hardware, uses []int32, not int32) {
	for _, r := range uses {
		for _, s := range f.resources[r].users {
			if s != not {
				f.rate(h, s)
			}
		}
	}
}

// rate gives a flow the speed it has now.
func (f *flows) rate(h *hardware, slot int32) {
	o := &h.ops[slot]
	fl := &o.flow
	speed := 1.0
	if fl.hung {
		speed = 0
	}
	if o.launch {
		slow := h.devices[o.device].slow
		if o.gang != nil {
			for _, m := range o.gang.members {
				if m >= 0 {
					slow = max(slow, h.devices[h.ops[m].device].slow)
				}
			}
		}
		speed /= slow
	}
	share := 1.0
	for _, r := range fl.uses {
		res := &f.resources[r]
		switch n := float64(len(res.users)); {
		case res.cores > 0:
			taken := 0.0
			for _, u := range res.users {
				other := &h.ops[u].flow
				taken += other.cores * f.part(h, other)
			}
			share = min(share, min(1, res.cores/taken)*f.speed(h, fl))
		case res.team > 0:
			share = min(share, f.speed(h, fl))
		case res.bps == 0:
			share = min(share, 1/n)
		case fl.own > 0:
			share = min(share, res.bps/(n*fl.own))
		}
	}
	speed *= share
	if speed == fl.speed {
		return
	}
	// The conversion keeps multiply and subtract apart on every architecture.
	fl.left -= float64(float64(h.now-fl.since) * fl.speed)
	fl.left = max(fl.left, 0)
	fl.since, fl.speed = h.now, speed
	fl.version++
	if speed > 0 {
		// A flow that would take centuries ends with them: more would overflow.
		takes := min(math.Ceil(fl.left/speed), float64(math.MaxInt64/2))
		f.push(h, entry{at: h.now + min(time.Duration(takes), math.MaxInt64-h.now), slot: slot, version: fl.version})
	}
}

// speed is the fraction of its speed at which a flow runs because of others on its device.
func (f *flows) speed(h *hardware, fl *flow) float64 {
	if fl.lanes < 0 {
		return 1
	}
	res := &f.resources[fl.lanes]
	if res.team == 0 {
		return 1 / float64(len(res.users))
	}
	wide := 0
	for _, u := range res.users {
		wide += h.ops[u].flow.width
	}
	return machine.TeamSpeed(res.team, fl.width, len(res.users), wide)
}

// part is the part of its device that a flow has.
func (f *flows) part(h *hardware, fl *flow) float64 {
	part := f.speed(h, fl)
	if fl.lanes >= 0 && f.resources[fl.lanes].team > 0 {
		part *= float64(fl.width) / float64(f.resources[fl.lanes].team)
	}
	return part
}

// next returns the time of the next end, having thrown out stale entries.
func (f *flows) next(h *hardware) (time.Duration, bool) {
	for len(f.heap) > 0 && h.ops[f.heap[0].slot].flow.version != f.heap[0].version {
		f.pop()
	}
	if len(f.heap) == 0 {
		return 0, false
	}
	return f.heap[0].at, true
}

// pop takes the top of the heap out and returns whose it is.
func (f *flows) pop() int32 {
	slot := f.heap[0].slot
	n := len(f.heap) - 1
	f.heap[0] = f.heap[n]
	f.heap = f.heap[:n]
	if n > 0 {
		down(f.heap, 0)
	}
	return slot
}

func (f *flows) push(h *hardware, e entry) {
	f.order++
	e.order = f.order
	f.heap = append(f.heap, e)
	up(f.heap, len(f.heap)-1)
	if len(f.heap) > 64+4*f.active {
		f.compact(h)
	}
}

// compact throws stale entries out once they are the most.
func (f *flows) compact(h *hardware) {
	f.heap = slices.DeleteFunc(f.heap, func(e entry) bool { return h.ops[e.slot].flow.version != e.version })
	for i := len(f.heap)/2 - 1; i >= 0; i-- {
		down(f.heap, i)
	}
}

func (e *entry) before(o *entry) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

func up(h []entry, i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h[i].before(&h[p]) {
			return
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
}

func down(h []entry, i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].before(&h[c]) {
			c++
		}
		if !h[c].before(&h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
