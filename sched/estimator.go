package sched

import (
	"math/bits"
	"slices"
	"time"

	"github.com/weft-run/weft/machine"
)

// Assign accounts for v.Tasks[i] going to d with a given transfer and run
// time: it moves the device's FreeAt and counts the task as queued. Copies go
// on while earlier tasks compute, so a transfer delays the task only as far as
// it outlasts the backlog; but the copies of a device wait for each other, so
// no task takes less than its own transfer. It returns when the task is
// predicted to be done. On a team it takes only its part of the device.
func (v *Situation) Assign(i int, d machine.DeviceID, transfer, runs time.Duration) (finish time.Duration) {
	return v.assign(&v.Tasks[i], d, transfer, runs)
}

func (v *Situation) assign(t *Ready, d machine.DeviceID, transfer, runs time.Duration) (finish time.Duration) {
	dev := &v.Devices[d]
	base := max(v.Now, t.InputsAt)
	if dev.Team > 0 {
		finish = max(v.begins(t, d), base+transfer) + runs
		takes := dev.Takes(t.width(dev), runs)
		dev.FreeAt = max(dev.FreeAt, v.Now) + takes
		dev.Queued++
		v.Delay(d, takes)
		return finish
	}
	finish = max(dev.FreeAt, base+transfer) + runs
	dev.FreeAt = max(finish, dev.FreeAt+transfer)
	dev.Queued++
	v.Delay(d, runs)
	return finish
}

// width returns the number of lanes of a device that the task takes.
func (t *Ready) width(dev *Device) int32 {
	if t.Width == nil {
		return 1
	}
	return int32(t.Width[dev.Class])
}

// Takes returns by how much later a device is free for a task that takes some of its
// lanes while it runs.
func (dev *Device) Takes(width int32, runs time.Duration) time.Duration {
	if dev.Team == 0 {
		return runs
	}
	return runs * time.Duration(width) / time.Duration(dev.Team)
}

// begins returns when d could begin t, its inputs at hand: once the work placed there
// is done, or at once on a team that has lanes to spare.
func (v *Situation) begins(t *Ready, d machine.DeviceID) time.Duration {
	dev := &v.Devices[d]
	if dev.Team > 0 && dev.Queued+t.width(dev) <= dev.Team {
		return max(v.Now, t.InputsAt)
	}
	return max(v.Now, t.InputsAt, dev.FreeAt)
}

// Delay accounts to the others of d's crowd, if it is in one, for work that d was
// given: they are free later by the part of their cores it takes. That counts what
// runs side by side as if it ran in turns, which ends at the same time.
func (v *Situation) Delay(d machine.DeviceID, runs time.Duration) {
	if k := v.Devices[d].Crowd; k > 0 {
		v.delay(&v.Crowds[k-1], d, runs)
	}
}

func (v *Situation) delay(c *machine.Crowd, d machine.DeviceID, runs time.Duration) {
	by := time.Duration(float64(runs) * c.Share(d))
	for _, o := range c.Devices {
		if o != d {
			v.Devices[o].FreeAt = max(v.Devices[o].FreeAt, v.Now) + by
		}
	}
}

// eligibility says whether a device may take a task, and why not.
type eligibility uint8

const (
	fits eligibility = iota
	notAccepting
	cannotRun
	notAllowed
	tooBig
)

// need is the memory t takes of dev's.
func (t *Ready) need(dev *Device) int64 {
	if dev.HostMemory {
		return t.HostNeed
	}
	return t.Need
}

// Free returns the number of free bytes in the memory that a device computes in.
func (v *Situation) Free(dev *Device) int64 {
	if dev.HostMemory {
		return dev.FreeBytes - v.HostUsed
	}
	return dev.FreeBytes
}

// judge says whether device d may take t.
func judge(v *Situation, t *Ready, d machine.DeviceID) eligibility {
	if d < 0 || int(d) >= len(v.Devices) {
		return notAllowed
	}
	dev := &v.Devices[d]
	switch {
	case !dev.Accepts:
		return notAccepting
	case int(dev.Class) >= len(t.Cost) || t.Cost[dev.Class] < 0:
		return cannotRun
	case t.need(dev) > dev.CapBytes:
		return tooBig
	case t.Only != nil:
		if _, ok := slices.BinarySearch(t.Only, d); !ok {
			return notAllowed
		}
	}
	return fits
}

// runs predicts the execution of t on d, which must be able to run it.
func runs(v *Situation, t *Ready, d machine.DeviceID) time.Duration {
	dev := &v.Devices[d]
	return slowed(t.Cost[dev.Class], dev.Slow)
}

// slowed stretches a cost by Device.Slow, where 0 means not said.
func slowed(cost time.Duration, slow float64) time.Duration {
	if slow == 1 || slow <= 0 {
		return cost
	}
	return time.Duration(float64(cost) * slow)
}

// unreachable stands for the transfer of a value no link leads from: long
// enough that any other device is better, short enough to add up safely.
const unreachable = time.Hour

// maxCopies is the most copies of one value that are compared, and the most holders
// that are tried for one task. Values copied to more places than this are nearly
// everywhere, so the devices that are tried anyway have them too.
const maxCopies = 16

// estimator predicts what a placement would cost; every policy holds one. Copy
// times are cached by both ends and size, since the tasks of a round mostly
// repeat a few sizes between a few memories.
type estimator struct {
	machine *machine.Machine
	cost    machine.Cost
	epoch   uint64
	copies  []copyTime // fewCopySlots or copySlots
	shift   int        // of a hash, to the number of a slot
}

type copyTime struct {
	epoch    uint64
	bytes    int64
	from, to machine.DeviceID
	took     time.Duration
}

// copySlots is the size of the cache, a power of two: 128 KiB, which fits a
// core's second-level cache. The cache begins with fewCopySlots and grows when two copies need
// the same slot: every prediction makes a policy, and clearing 128 KiB takes longer than
// simulating a small graph.
const (
	fewCopySlots = 1 << 5
	copySlots    = 1 << 12
)

func newEstimator(p Problem) estimator {
	return estimator{machine: p.Machine, cost: p.Cost}
}

// room makes a cache of some slots.
func (m *estimator) room(slots int) {
	m.copies, m.shift = make([]copyTime, slots), 64-bits.TrailingZeros(uint(slots))
}

// begin starts a round: copy times of another epoch no longer count.
func (m *estimator) begin() {
	// Entries start at epoch 0, so cached epochs are kept one higher.
	m.epoch = m.cost.Epoch() + 1
}

// copy returns the predicted time of a copy between two memories.
func (m *estimator) copy(bytes int64, from, to machine.DeviceID) time.Duration {
	if m.copies == nil {
		m.room(fewCopySlots)
	}
	h := uint64(bytes)*0x9e3779b97f4a7c15 ^ uint64(uint32(from))*0xd6e8feb86659fd93 ^ uint64(uint32(to))*0xc2b2ae3d27d4eb4f
	e := &m.copies[h>>m.shift]
	if e.epoch == m.epoch {
		if e.bytes == bytes && e.from == from && e.to == to {
			return e.took
		}
		if len(m.copies) < copySlots {
			m.room(copySlots)
			e = &m.copies[h>>m.shift]
		}
	}
	took := m.cost.Copy(bytes, from, to).Median
	if took < 0 {
		took = unreachable
	}
	*e = copyTime{m.epoch, bytes, from, to, took}
	return took
}

// memory returns whose memory device d computes in.
func memory(v *Situation, d machine.DeviceID) machine.DeviceID {
	if d >= 0 && v.Devices[d].HostMemory {
		return machine.Host
	}
	return d
}

// transfer returns the time to bring to d what t reads and d does not hold: the
// sum over values of the cheapest copy, and what making room for t takes.
func (m *estimator) transfer(v *Situation, t *Ready, d machine.DeviceID) time.Duration {
	var total time.Duration
	if dev := &v.Devices[d]; t.Need > dev.FreeBytes && !dev.HostMemory {
		total = m.evicts(t, d, t.Need-dev.FreeBytes)
	}
	if len(t.Inputs) == 0 {
		return total
	}
	to := memory(v, d)
	for k := 0; k < len(t.Inputs); {
		value := t.Inputs[k].Value
		cheapest := unreachable
		for copies := 0; k < len(t.Inputs) && t.Inputs[k].Value == value; k++ {
			in := &t.Inputs[k]
			if from := memory(v, in.At); from == to {
				cheapest = 0
			} else if cheapest > 0 && copies < maxCopies {
				cheapest = min(cheapest, m.copy(in.Bytes, from, to))
				copies++
			}
		}
		total += cheapest
	}
	return total
}

// evicts returns the time to make room for t on d, where it lacks short bytes. What t
// does not find there is copied to host memory and, since only values that will be
// read are kept, copied back.
func (m *estimator) evicts(t *Ready, d machine.DeviceID, short int64) time.Duration {
	last := int32(-1) // a value may have two copies in one memory
	for k := range t.Inputs {
		if in := &t.Inputs[k]; in.At == d && in.Value != last {
			short -= in.Bytes
			last = in.Value
		}
	}
	if short <= 0 {
		return 0
	}
	both := m.copy(evictUnit, d, machine.Host) + m.copy(evictUnit, machine.Host, d)
	return time.Duration(float64(both) * (float64(short) / evictUnit))
}

// evictUnit is the size in bytes of the copy from whose predicted rate the duration of
// evictions is computed: at 16 MiB the latency is a small part. One size for all evictions
// keeps its duration in the cache of copies.
const evictUnit = 1 << 24

// put assigns v.Tasks[i] to d and records it.
func (m *estimator) put(v *Situation, i int, d machine.DeviceID, out []Placement) []Placement {
	t := &v.Tasks[i]
	finish := v.Assign(i, d, m.transfer(v, t, d), runs(v, t, d))
	return append(out, Placement{Task: int32(i), Device: d, Finish: finish})
}

// each puts every task on the device that choose returns for it, in order; -1 leaves it out.
func (m *estimator) each(v *Situation, out []Placement, choose func(v *Situation, i int) machine.DeviceID) []Placement {
	m.begin()
	for i := range v.Tasks {
		if d := choose(v, i); d >= 0 {
			out = m.put(v, i, d, out)
		}
	}
	return out
}

// offer is the prediction for a task on one device.
type offer struct {
	device   machine.DeviceID // -1 for none
	finish   time.Duration
	transfer time.Duration
	runs     time.Duration
}

// noOffer is the offer of no device, which no other ends after.
var noOffer = offer{device: -1, finish: never}

// before orders offers: the earlier finish, then less to copy, then the lower
// device, so that the order in which devices are tried does not matter.
func (o offer) before(b offer) bool {
	if b.device < 0 || o.finish != b.finish {
		return b.device < 0 || o.finish < b.finish
	}
	if o.transfer != b.transfer {
		return o.transfer < b.transfer
	}
	return o.device < b.device
}

// offer predicts t on d, which must fit. For the choice a transfer counts in
// full even where it would hide behind a backlog: links are shared, and what
// need not be copied leaves them to others.
func (m *estimator) offer(v *Situation, t *Ready, d machine.DeviceID) offer {
	o := offer{device: d, runs: runs(v, t, d), transfer: m.transfer(v, t, d)}
	o.finish = v.begins(t, d) + o.transfer + o.runs
	return o
}

// lowest returns the device that fits with the lowest key, compared in order;
// equal keys go to the lower device. It returns -1 when nothing fits.
func lowest(v *Situation, t *Ready, key func(d machine.DeviceID) [2]float64) machine.DeviceID {
	best, bestKey := machine.DeviceID(-1), [2]float64{}
	for i := range v.Devices {
		d := machine.DeviceID(i)
		if judge(v, t, d) != fits {
			continue
		}
		k := key(d)
		if best < 0 || k[0] < bestKey[0] || k[0] == bestKey[0] && k[1] < bestKey[1] {
			best, bestKey = d, k
		}
	}
	return best
}
