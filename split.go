package weft

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Split cuts work for the devices by the partitioner of the options. whole is
// the task that would do all of it: its kernel and work estimate tell what each
// device makes of it.
//
// Without a partitioner of the caller's choice the work goes to several devices
// when that is predicted to gain more than starting and awaiting them costs, and
// to the one that is done first otherwise; Partition.Why says so with the
// numbers. Nothing in this is a constant: rates, latencies and links are
// measured, and kernels that have run before count by how long they took.
func (r *Runtime) Split(p sched.Pieces, whole graph.Task) (sched.Partition, error) {
	if len(whole.Steps) == 0 {
		return sched.Partition{}, fmt.Errorf("split: %w: the task has no step to run", graph.ErrKernel)
	}
	cut, err := sched.NewPartitioner(cmp.Or(r.o.Partitioner, "latency"))
	if err != nil {
		return sched.Partition{}, err
	}
	var all []candidate
	r.x.Look(func(cost machine.Cost, st []engine.DeviceStatus) { all = r.candidates(p, &whole, cost, st) })
	shares := make([]sched.Share, len(all))
	for i := range all {
		shares[i] = all[i].share
	}
	part, err := cut(p, shares)
	if err != nil || r.o.Partitioner != "" {
		return part, err
	}
	best, gain, cost := weigh(all, &part)
	if best < 0 {
		return part, nil
	}
	one := gain <= cost
	if one {
		for i := range shares {
			if i != best {
				shares[i].Rate = 0
			}
		}
		shares[best].Rate = all[best].rate
		if part, err = cut(p, shares); err != nil {
			return part, err
		}
	}
	part.Why = reason(all, best, one, gain, cost)
	return part, nil
}

// candidate is a device as Split sees it.
type candidate struct {
	name  string
	share sched.Share
	alone time.Duration // to do all of the work, transfers included
	rate  float64       // while doing so
	moves time.Duration // of which transfers
	reply time.Duration // what starting it and hearing of its end costs
}

// candidates describes what every device would make of the work; those that
// cannot take part have no rate.
func (r *Runtime) candidates(p sched.Pieces, whole *graph.Task, cost machine.Cost, st []engine.DeviceStatus) []candidate {
	m := r.x.Machine
	total := float64(p.Extent)
	if p.Cost != nil {
		total = p.Cost(0, p.Extent)
	}
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
		seconds := func(t *graph.Task) float64 { return max(cost.Task(t, d).Median.Seconds()*max(s.Slow, 1), 1e-9) }
		c.reply = time.Duration(m.Devices[i].Rates.ReplyNS)
		c.rate = total / seconds(whole)
		c.share.Rate = total / float64(len(st)) / seconds(&part)
		c.share.Latency = c.reply
		// What this runtime did before does not stand in the way of this
		// work; runs in progress do.
		c.share.FreeBytes, c.share.Util = s.MemBytes-s.MemUsed, s.Others
		if s.Queued > 0 {
			c.share.Util = s.Util
		}
		if !m.Devices[i].HostMemory {
			_, c.share.LinkBPS, _ = m.Path(machine.Host, d)
			c.share.Latency += cost.Copy(0, machine.Host, d).Median
			if p.Bytes != nil && c.share.LinkBPS > 0 {
				in, back := p.Bytes(0, p.Extent)
				c.moves = time.Duration(float64(in+back) / c.share.LinkBPS * 1e9)
			}
		}
		c.alone = c.share.Latency + c.moves + time.Duration(seconds(whole)*1e9)
	}
	return out
}

// weigh compares a partition with the device that would be done first alone:
// what it gains in time, and what the further devices cost to start and await.
func weigh(all []candidate, part *sched.Partition) (best int, gain, cost time.Duration) {
	best = -1
	for i := range all {
		if all[i].rate > 0 && (best < 0 || all[i].alone < all[best].alone) {
			best = i
		}
	}
	if best < 0 {
		return best, 0, 0
	}
	for i, rg := range part.Ranges {
		if rg.Len() > 0 && i != best {
			cost += all[i].reply
		}
	}
	return best, all[best].alone - part.Completion, cost
}

// reason puts the choice between one device and several into words.
func reason(all []candidate, best int, one bool, gain, cost time.Duration) string {
	alone := sched.Round(all[best].alone)
	var able, others []string
	for i := range all {
		c := &all[i]
		if c.rate == 0 {
			continue
		}
		able = append(able, c.name)
		if i == best {
			continue
		}
		note := ""
		if c.moves > 0 {
			note = fmt.Sprintf(", %v of it for copies", sched.Round(c.moves))
		}
		others = append(others, fmt.Sprintf("%s takes %v%s", c.name, sched.Round(c.alone), note))
	}
	const most = 3
	if len(others) > most {
		others = append(others[:most], "…")
	}
	alternatives := ""
	if len(others) > 0 {
		alternatives = " (" + strings.Join(others, ", ") + ")"
	}
	switch {
	case len(able) == 1:
		return fmt.Sprintf("%s is the only device that can run it, in %v", all[best].name, alone)
	case !one:
		return fmt.Sprintf("several devices: %s alone takes %v%s; splitting gains %v and costs %v to start and await the others",
			all[best].name, alone, alternatives, sched.Round(gain), sched.Round(cost))
	case gain <= 0:
		return fmt.Sprintf("one device: %s alone takes %v%s; splitting gains nothing", all[best].name, alone, alternatives)
	}
	return fmt.Sprintf("one device: %s alone takes %v%s; splitting would gain %v and cost %v to start and await the others",
		all[best].name, alone, alternatives, sched.Round(gain), sched.Round(cost))
}
