package sched

import (
	"time"

	"github.com/weft-run/weft/machine"
)

// copyTable holds the predicted durations of copies by size, source and destination, and the
// resources they share. Memories are numbered: 0 is host memory, 1 + d the memory of device
// d.
type copyTable struct {
	n      int32           // memories
	sizes  []int64         // bytes of each row
	rows   map[int64]int32 // the row of each size
	took   []copyCost      // by row, source and destination
	routes [][]int32       // resources by source and destination
	far    []bool          // by source and destination: over a network, on the lane of the source
	bps    []float64       // by resource, 0 where users divide what they take
	cost   machine.Cost
}

// copyCost is the duration of a copy of one size from one memory to another.
type copyCost struct {
	took time.Duration // negative where no path leads there
	via  bool          // through the host's memory, as two copies
}

const hostMemory = 0

func newCopyTable(m *machine.Machine, cost machine.Cost) *copyTable {
	w := &copyTable{n: int32(len(m.Devices)) + 1, rows: make(map[int64]int32), cost: cost}
	w.routes = make([][]int32, w.n*w.n)
	w.far = make([]bool, w.n*w.n)
	for pair := range m.Far() {
		w.far[(int32(pair[0])+1)*w.n+int32(pair[1])+1] = true
	}
	byName := make(map[string]int32)
	for i := range m.Resources {
		byName[m.Resources[i].Name] = int32(i)
		w.bps = append(w.bps, m.Resources[i].BPS)
	}
	if len(w.bps) == 0 {
		return w
	}
	for a := range w.n {
		for b := range w.n {
			hops, _, _ := m.Path(machine.DeviceID(a)-1, machine.DeviceID(b)-1)
			uses := &w.routes[a*w.n+b]
			for _, h := range hops {
				for _, name := range m.Links[h].Resources {
					if r, ok := byName[name]; ok {
						*uses = append(*uses, r)
					}
				}
			}
		}
	}
	return w
}

// row returns the number of a size, a new one for a size not seen before.
func (w *copyTable) row(bytes int64) int32 {
	if k, ok := w.rows[bytes]; ok {
		return k
	}
	k := int32(len(w.sizes))
	w.rows[bytes] = k
	w.sizes = append(w.sizes, bytes)
	for a := range w.n {
		for b := range w.n {
			if a == b {
				w.took = append(w.took, copyCost{})
				continue
			}
			est := w.cost.Copy(bytes, machine.DeviceID(a)-1, machine.DeviceID(b)-1)
			w.took = append(w.took, copyCost{est.Median, est.Via})
		}
	}
	return k
}

func (w *copyTable) at(row, from, to int32) copyCost { return w.took[(row*w.n+from)*w.n+to] }

func (w *copyTable) route(from, to int32) []int32 { return w.routes[from*w.n+to] }

// means returns the mean time of a copy of each size over all pairs of devices, whose
// memories are given.
func (w *copyTable) means(mem []int32) []time.Duration {
	out := make([]time.Duration, len(w.sizes))
	for s := range out {
		for _, a := range mem {
			for _, b := range mem {
				out[s] += max(w.at(int32(s), a, b).took, 0)
			}
		}
		out[s] /= time.Duration(len(mem) * len(mem))
	}
	return out
}
