package cut

import (
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// Bounds of fusing. A task costs weft 1 to 4 µs and a call into a GPU's driver about as
// much, so fusing saves little on tasks longer than fuseShort, and little more once
// a fused task takes fuseLong. That is also the most time lost when it is run again, or
// could have been divided between two devices. CUDA replays a task of fuseFrom steps or
// more by one call.
const (
	fuseFrom  = 4
	fuseUpto  = 64
	fuseShort = 50 * time.Microsecond
	fuseLong  = 200 * time.Microsecond
	// fuseBytes is the most data of a fused task, all of which must be on the device
	// before its first step. It also uses at most 1/fuseShare of the device's memory, and of the
	// limit of host memory.
	fuseBytes = 8 << 20
	fuseShare = 16
)

// Fuse joins short tasks that follow one another into tasks of several steps. timeout applies to
// tasks that name none.
func (v *Knowledge) Fuse(g *graph.Graph, timeout time.Duration) *graph.Graph {
	if g.NumTasks() < 2 {
		return g
	}
	f := g.Flow()
	takes := make([]time.Duration, len(f.ShapeTask)) // of each shape, on the fastest device
	where := make([]int, len(f.ShapeTask))           // which set of devices can run it
	sets := make(map[string]int)
	for i, t := range f.ShapeTask {
		best, can := v.fastest(g.Task(t))
		n, ok := sets[can]
		if !ok {
			n = len(sets)
			sets[can] = n
		}
		takes[i], where[i] = best, n
	}
	most := int64(fuseBytes)
	if n := v.Machine.HostBytes; n > 0 {
		most = min(most, n/fuseShare)
	}
	for i := range v.Machine.Devices {
		if n := v.Machine.Devices[i].MemBytes; n > 0 {
			most = min(most, n/fuseShare)
		}
	}
	return graph.Fuse(g, graph.Fusion{
		From: fuseFrom, Upto: fuseUpto, Bytes: most, Short: fuseShort, Long: fuseLong, Timeout: timeout,
		Takes: func(t graph.TaskID) time.Duration { return takes[f.Rows[t].Shape] },
		Where: func(t graph.TaskID) int { return where[f.Rows[t].Shape] },
	})
}

// fastest predicts a task on the fastest of the devices that can run it, and says
// which can, a byte for each.
func (v *Knowledge) fastest(t *graph.Task) (best time.Duration, can string) {
	which := make([]byte, len(v.Machine.Devices))
	best = 1<<63 - 1
	for i := range v.Machine.Devices {
		d := &v.Machine.Devices[i]
		if !engine.Allows(t, d) || slices.ContainsFunc(t.Steps, func(s graph.Step) bool { return !d.CanRun(s.Kernel) }) {
			continue
		}
		which[i] = 1
		best = min(best, v.Cost.Task(t, machine.DeviceID(i)).Median)
	}
	return best, string(which)
}
