package plan

import (
	"fmt"
	"strings"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Here is devices of this machine that a job may run on.
type Here struct {
	Name  string // of the devices, as in "cuda:0"
	GPU   GPU
	Count int
	Watts float64 // drawn while the job runs, with the host's part; 0 unknown
	// Power says where Watts are from; empty if nothing is known of that.
	Power string
	// Machine describes the devices together; nil means Count equal GPUs.
	Machine *machine.Machine
	// Estimate replaces the predictor's answer where it is known better, as by a
	// simulation of this machine; nil otherwise.
	Estimate *Estimate
}

// HereOf returns the devices of a machine together, with what was predicted for them. Its
// power is that which the machine's description has; where that has none, the assumed one.
func HereOf(m *machine.Machine, e Estimate, known *Catalogue, a Assumptions) Here {
	h := Here{Name: m.Name, Count: 1, Machine: m, Estimate: &e}
	var names, from []string
	for i := range m.Devices {
		d := &m.Devices[i]
		names = append(names, d.Name)
		watts, how := d.PowerWatts, "stated of "+d.Name
		if watts == 0 && !d.HostMemory {
			watts, how = a.GPUWatts, "gpu-power for "+d.Name
		}
		if watts > 0 {
			h.Watts += watts
			from = append(from, fmt.Sprintf("%g W %s", watts, how))
		}
		if g, ok := known.Model(d); ok && h.GPU.Name == "" {
			h.GPU = g
		}
	}
	host, how := m.HostWatts, "stated of the host"
	if host == 0 {
		host, how = a.HostWatts, "host-power"
	}
	h.Watts += host
	h.Power = strings.Join(append(from, fmt.Sprintf("%g W %s", host, how)), ", ")
	if h.GPU.Name == "" && len(m.Devices) > 0 {
		h.GPU = GPU{Name: m.Devices[0].Model, MemoryBytes: m.Devices[0].MemBytes}
	}
	list := strings.Join(names, ", ")
	if len(names) > 3 {
		list = fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	if h.Name == "" {
		h.Name = list
	} else {
		h.Name += " (" + list + ")"
	}
	return h
}

// watts is the power that is drawn here, and where that figure is from. None is measured.
func (h *Here) watts(a *Assumptions) (watts float64, from string) {
	if h.Watts > 0 {
		return h.Watts, h.Power
	}
	return a.GPUWatts*float64(h.Count) + a.HostWatts, fmt.Sprintf("gpu-power for %d, and host-power", h.Count)
}

// describeHere says how weft would run an option on this machine.
func (o *Option) describeHere(h *Here, n *Need) {
	o.describe(h.Count, "", n)
	if h.Machine == nil {
		return
	}
	var room, least int64 // device memory in all, and of the smallest device
	discrete, linked := 0, false
	for i := range h.Machine.Devices {
		d := &h.Machine.Devices[i]
		if d.HostMemory || d.MemBytes == 0 {
			continue
		}
		if discrete++; discrete == 1 || d.MemBytes < least {
			least = d.MemBytes
		}
		room += d.MemBytes
	}
	for _, l := range h.Machine.Links {
		linked = linked || l.Kind == machine.NVLink
	}
	devices := len(h.Machine.Devices)
	switch {
	case discrete == 0:
		o.Memory = "in host memory, where the devices compute"
	case n.PeakBytes > room:
		o.Memory = fmt.Sprintf("on devices as far as it fits; %s wait in host memory and are moved when needed", sizeText(n.PeakBytes-room))
	case n.PeakBytes > least:
		o.Memory = fmt.Sprintf("split among %d devices", discrete)
	case devices > 1:
		o.Memory = "each device has the parts that it computes"
	}
	switch {
	case devices > 1 && linked:
		o.Communication = "peer to peer by NVLink"
	case devices > 1 && discrete > 0:
		o.Communication = "by PCIe through host memory"
	}
	o.Batch = n.batch(max(room, least))
	if discrete == 0 {
		o.Batch = n.batch(h.Machine.HostBytes)
	}
}

// largestBatch is the most runs under way at a time: with two, one computes while the other
// waits, and beyond some there is no gain.
const largestBatch = 8

// batch is the number of runs that are under way at a time: as many as memory holds. Of a
// memory that is not known it is one.
func (n *Need) batch(memory int64) int {
	fit := int64(1)
	if n.PeakBytes > 0 {
		fit = memory / n.PeakBytes
	}
	return int(max(min(fit, largestBatch, int64(n.Parts)), 1))
}

// describe says how weft would run an option on a number of equal GPUs.
func (o *Option) describe(count int, link string, n *Need) {
	o.Policy = sched.Default
	o.Optimisation = "cut for the devices and run once"
	if n.Runs > 1 || n.Parts > 1 {
		o.Optimisation = "prepared once for all runs: short tasks fused, schedule rehearsed"
	}
	o.Batch = n.batch(int64(count) * o.GPU.MemoryBytes)
	o.Memory = "all of it on each device"
	switch {
	case count == 1:
		o.Memory = "all of it on one device"
	case n.PeakBytes > o.GPU.MemoryBytes:
		o.Memory = fmt.Sprintf("split among %d devices", count)
	}
	switch {
	case o.Kind == Hybrid && count == 1:
		o.Communication = "none but upload and download"
	case count == 1:
		o.Communication = "none"
	case link != "":
		o.Communication = "peer to peer by " + link
	case o.GPU.LinkBPS > 0:
		o.Communication = "peer to peer by the GPUs' links"
	default:
		o.Communication = "by PCIe through host memory"
	}
}
