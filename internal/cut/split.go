package cut

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Split gives every device its range of some work. whole is the task that would do all
// of it.
//
// A partitioner of the caller's is obeyed. Otherwise the work goes to several devices
// if that is predicted to gain more than starting and awaiting them costs, and to the
// fastest one if not; Partition.Why says so with the numbers. Of devices that compute on
// the same cores only those take part that are fastest together. No constant decides:
// rates, latencies and links are measured, and kernels that have run before count by how
// long they took.
func (v *Knowledge) Split(p sched.Items, whole graph.Task) (sched.Partition, error) {
	if len(whole.Steps) == 0 || slices.ContainsFunc(whole.Steps, func(s graph.Step) bool { return s.Kernel == nil }) {
		return sched.Partition{}, fmt.Errorf("%w: the task has no kernel to run", graph.ErrKernel)
	}
	all, crowded := v.lineUp(p, &whole)
	part, err := v.divide(p, all, nil)
	if err != nil || v.Partitioner != nil {
		return part, err
	}
	c := weigh(all, &part)
	c.Crowded = crowded
	best := c.Best()
	if best < 0 {
		return part, nil
	}
	if c.One() {
		if part, err = v.divide(p, all, []machine.DeviceID{machine.DeviceID(best)}); err != nil {
			return part, err
		}
	}
	part.Choice, part.Why = c, c.String()
	return part, nil
}

// lineUp describes how every device would do some work, side by side with the others, and
// names those that are left out because they compute on the cores of others.
func (v *Knowledge) lineUp(p sched.Items, whole *graph.Task) (all []candidate, crowded []string) {
	moved := int64(0)
	if p.Bytes != nil {
		in, back := p.Bytes(0, p.Extent)
		moved = in + back
	}
	all = v.candidates(cost(p, 0, p.Extent), moved, whole)
	return all, v.uncrowd(all)
}

// divide gives each of some devices its range of the work; nil means all.
func (v *Knowledge) divide(p sched.Items, all []candidate, among []machine.DeviceID) (sched.Partition, error) {
	cut := v.Partitioner
	if cut == nil {
		cut = sched.Partitioners()[sched.DefaultPartitioner]
	}
	shares := make([]sched.Share, len(all))
	for i := range all {
		shares[i] = all[i].share
		switch {
		case among == nil:
		case !slices.Contains(among, machine.DeviceID(i)):
			shares[i].Rate = 0
		case len(among) == 1:
			shares[i].Rate = all[i].rate
		}
	}
	part, err := cut(p, shares)
	if err == nil {
		err = sched.CheckPartition(p, shares, part)
	}
	return part, err
}

// candidate is a device as Split sees it.
type candidate struct {
	name  string
	share sched.Share
	alone time.Duration // to do all of the work, transfers included
	rate  float64       // while doing so
	moves time.Duration // of which transfers
	reply time.Duration // from starting it idle to hearing of its end
}

// candidates describes how every device would do the work, whose cost is total and
// which moves a number of bytes to a device and back. Devices that cannot take part
// have no rate.
func (v *Knowledge) candidates(total float64, moved int64, whole *graph.Task) []candidate {
	m, st := v.Machine, v.Devices
	part := *whole
	part.Work.Ops /= float64(len(st))
	part.Work.Bytes /= float64(len(st))
	out := make([]candidate, len(st))
	for i, s := range st {
		d := machine.DeviceID(i)
		c := &out[i]
		c.name, c.share.Device = m.Devices[i].Name, d
		if s.State != engine.Healthy || !m.Devices[i].CanRun(whole.Steps[0].Kernel) {
			continue
		}
		// A device that takes several tasks at a time is as fast as all of them.
		seconds := func(t *graph.Task) float64 {
			return max(v.Cost.Task(t, d).Median.Seconds()*v.slow(d)*m.Devices[i].Part(t), 1e-9)
		}
		c.reply = time.Duration(m.Devices[i].Rates.ReplyNS)
		c.rate = total / seconds(whole)
		c.share.Rate = total / float64(len(st)) / seconds(&part)
		c.share.Latency = c.reply
		// Use by this runtime's ended runs does not delay this work; runs in
		// progress do.
		c.share.FreeBytes, c.share.Util = s.MemBytes-s.MemUsed, s.Others
		if s.Queued > 0 {
			c.share.Util = s.Util
		}
		if !m.Devices[i].HostMemory {
			_, c.share.LinkBPS, _ = m.Path(machine.Host, d)
			c.share.Latency += v.Cost.Copy(0, machine.Host, d).Median
			if c.share.LinkBPS > 0 {
				c.moves = time.Duration(float64(moved) / c.share.LinkBPS * 1e9)
			}
		}
		c.alone = c.share.Latency + c.moves + time.Duration(seconds(whole)*1e9)
	}
	return out
}

// uncrowd makes the rates of devices that compute on the same cores what they are
// side by side. Where the caller chose no partitioner, those whose part would make
// all of them slower together get none; their names are returned.
func (v *Knowledge) uncrowd(all []candidate) (left []string) {
	for _, c := range v.Machine.Crowds() {
		var able []machine.DeviceID
		for _, d := range c.Devices {
			if all[d].share.Rate > 0 {
				able = append(able, d)
			}
		}
		if v.Partitioner == nil {
			// The most for each core first.
			slices.SortStableFunc(able, func(a, b machine.DeviceID) int {
				return cmp.Compare(all[b].share.Rate/c.Share(b), all[a].share.Rate/c.Share(a))
			})
			sum, n, most := 0.0, 0, 0.0
			for i, d := range able {
				sum += all[d].share.Rate
				if together := sum * c.Speed(able[:i+1]...); together > most {
					n, most = i+1, together
				}
			}
			for _, d := range able[n:] {
				all[d].share.Rate = 0
				left = append(left, all[d].name)
			}
			able = able[:n]
		}
		for _, d := range able {
			all[d].share.Rate *= c.Speed(able...)
		}
	}
	return left
}

// weigh compares a partition with every device alone: what each takes, and what
// all but the best cost to start and await.
func weigh(all []candidate, part *sched.Partition) *sched.Choice {
	c := &sched.Choice{Together: part.Completion}
	for i := range all {
		c.Names = append(c.Names, all[i].name)
		c.Alone = append(c.Alone, all[i].alone)
		c.Copies = append(c.Copies, all[i].moves)
	}
	best, parts := c.Best(), 0
	for i, rg := range part.Ranges {
		if rg.Len() == 0 {
			continue
		}
		if parts++; i != best {
			c.Overhead += all[i].reply
		}
	}
	if parts == 1 && best >= 0 { // nothing was split
		c.Together = max(c.Together, c.Alone[best])
	}
	return c
}
