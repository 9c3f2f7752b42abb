package sched

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// links is a Cost for tests: every copy takes latency plus a nanosecond for
// each perNS bytes, times the number of nodes it crosses plus one.
type links struct {
	latency time.Duration
	perNS   int64
	node    func(d machine.DeviceID) int // nil: all in one
	epoch   uint64
}

func (l *links) Task(*graph.Task, machine.DeviceID) machine.Estimate { return machine.Estimate{} }

func (l *links) Copy(bytes int64, from, to machine.DeviceID) machine.Estimate {
	if from == to {
		return machine.Estimate{}
	}
	took := l.latency + time.Duration(bytes/l.perNS)
	if l.node != nil && l.node(from) != l.node(to) {
		took *= 10
	}
	return machine.Estimate{Median: took}
}

func (l *links) Epoch() uint64 { return l.epoch }

// uniform is 10 µs and 10 GB/s between any two memories.
func uniform() *links { return &links{latency: 10 * time.Microsecond, perNS: 10} }

// bare returns a machine of n devices, four to a group by their links.
func bare(n int) *machine.Machine {
	m := &machine.Machine{Devices: make([]machine.Device, n)}
	for i := range m.Devices {
		m.Devices[i].Name = fmt.Sprintf("dev:%d", i)
		m.Devices[i].MemBytes = 8 << 30
		if i%4 > 0 {
			m.Links = append(m.Links, machine.Link{A: machine.DeviceID(i - 1), B: machine.DeviceID(i), Kind: machine.NVLink, BPS: 1e9})
		}
	}
	return m
}

var kernels = []*graph.Kernel{{Name: "a"}, {Name: "b"}, {Name: "c"}}

// randomView makes devices of a few classes in assorted states and tasks with
// assorted needs. All it makes is determined by r.
func randomView(r *rand.Rand, devices, tasks int) *Situation {
	v := &Situation{Now: time.Duration(r.IntN(1000)) * time.Microsecond, Classes: int32(1 + r.IntN(3))}
	for range devices {
		d := Device{
			Accepts: r.IntN(10) > 0,
			FreeAt:  time.Duration(r.IntN(3000)) * time.Microsecond, Queued: int32(r.IntN(5)),
			CapBytes: 4 << 30, FreeBytes: int64(r.IntN(4 << 30)),
			Util: r.Float64(), Load: r.Float64(), Slow: 1, Score: float64(10 + r.IntN(90)),
		}
		d.setClass(int32(r.IntN(int(v.Classes))))
		if r.IntN(8) == 0 {
			d.Slow = 1 + 2*r.Float64()
		}
		if r.IntN(6) == 0 {
			d.CapBytes = 1 << 30
		}
		v.Devices = append(v.Devices, d)
	}
	for i := range tasks {
		v.Tasks = append(v.Tasks, randomTask(r, v, i))
	}
	return v
}

// setClass changes a device's class. Devices of class 2 use host memory, since
// devices of a class are equal in that too.
func (d *Device) setClass(c int32) { d.Class, d.HostMemory = c, c == 2 }

func randomTask(r *rand.Rand, v *Situation, i int) Ready {
	n := len(v.Devices)
	t := Ready{
		Task: graph.TaskID(i), Kernel: kernels[r.IntN(len(kernels))], Ops: float64(uint64(1) << r.IntN(30)),
		Priority: r.IntN(4) - 1, InputsAt: time.Duration(r.IntN(2000)) * time.Microsecond,
		Need: int64(r.IntN(2 << 30)), Hint: -1, Near: -1,
	}
	t.HostNeed = t.Need
	for range v.Classes {
		cost := time.Duration(1+r.IntN(1000)) * time.Microsecond
		if r.IntN(6) == 0 {
			cost = -1
		}
		t.Cost = append(t.Cost, cost)
	}
	for value := range r.IntN(4) {
		bytes := int64(1+r.IntN(4)) << 20
		for range 1 + r.IntN(3) {
			t.Inputs = append(t.Inputs, Input{Value: int32(value), Bytes: bytes, At: machine.DeviceID(r.IntN(n+1) - 1)})
		}
	}
	if r.IntN(5) == 0 {
		t.Hint = machine.DeviceID(r.IntN(n))
	}
	if r.IntN(5) == 0 {
		t.Only = []machine.DeviceID{}
		for d := range n {
			if r.IntN(2) == 0 {
				t.Only = append(t.Only, machine.DeviceID(d))
			}
		}
	}
	return t
}

// crowd puts some devices into crowds on four cores, each of which takes two to four of
// them.
func (v *Situation) crowd(r *rand.Rand) {
	for range r.IntN(3) {
		c := machine.Crowd{Cores: 4}
		for d := range v.Devices {
			if dev := &v.Devices[d]; dev.Crowd == 0 && r.IntN(2) == 0 {
				dev.Crowd = int32(len(v.Crowds)) + 1
				c.Devices = append(c.Devices, machine.DeviceID(d))
				c.Takes = append(c.Takes, 2+r.IntN(3))
			}
		}
		v.Crowds = append(v.Crowds, c)
	}
}

func (v *Situation) clone() *Situation {
	c := *v
	c.Devices = append([]Device(nil), v.Devices...)
	c.Tasks = append([]Ready(nil), v.Tasks...)
	c.Dirty = append([]machine.DeviceID(nil), v.Dirty...)
	return &c
}
