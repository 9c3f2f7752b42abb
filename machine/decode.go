package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
)

// maxLanes is the greatest number of lanes of a device: traces have 8 bits for one.
const maxLanes = 255

// Decode reads a machine file. Every error is a *graph.SyntaxError, the first
// one found. The format is JSON; every object may hold a "note", which is ignored:
//
//	{
//	  "name": "workstation",
//	  "host": {"memory": "32GB", "bandwidth": "40GB/s", "power": "200W"},
//	  "power_budget": "850W",
//	  "storage": [{"name": "nvme", "model": "NVMe SSD", "size": "2TB", "rate": "7GB/s"}],
//	  "network": [{"name": "eth", "model": "Gigabit Ethernet", "rate": "125MB/s"}],
//	  "resources": [{"name": "uplink", "rate": "25GB/s"}],
//	  "devices": [
//	    {"name": "cuda", "count": 3, "kind": "discrete", "backend": "cuda",
//	     "memory": "8GB", "cores": 5120,
//	     "rates": {"fp32": "25TFLOP/s", "memory": "448GB/s", "launch": "5us"}}
//	  ],
//	  "links": [
//	    {"a": "cuda", "b": "host", "kind": "pcie-switch", "rate": "25GB/s",
//	     "latency": "10us", "resources": ["uplink"]}
//	  ]
//	}
//
// Sizes, rates and times are text with a unit, or a plain number of bytes, bytes or
// operations per second, nanoseconds, or watts. The host's power is that of the machine
// without its devices; the budget is the power that its supply allows. An entry of devices
// or resources with a count stands for name:0, name:1 and so on. A resource has a rate, or
// "cores" that devices share. Each end of a link is a device ("cuda:0"), "host", a range
// ("cuda:0-3") or all devices counted under a name ("cuda"); every pair is joined once. In
// a link's resources {a} and {b} stand for the position of its ends among the devices, so
// that "nvlink:{a}" names a resource shared by the links of one device.
//
// What work asks of a device, besides its speed, is in fields of it: "dialects" (a list of the
// languages of the kernels that it runs, for a backend that does not come with weft), "rounding" (a
// name for devices of the backend that round alike, where not all do), "cluster" (the most blocks of a
// cluster of a launch), "loop_rounds" (the rounds after which it ends the loops of an invocation).
func Decode(src []byte) (*Machine, error) {
	root, line, err := text.ParseJSON(src)
	if err != nil {
		return nil, &graph.SyntaxError{Line: line, Reason: err.Error()}
	}
	d := decoder{m: new(Machine)}
	d.machine(&root)
	if d.err == nil {
		if at, err := d.m.check(); err != nil {
			line := root.Line
			if at.list != inMachine {
				line = d.lines[at.list][at.index]
			}
			d.fail(line, "%v", err)
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	return d.m, nil
}

// UnmarshalJSON makes a machine part of a larger document, in Decode's format.
func (m *Machine) UnmarshalJSON(src []byte) error {
	n, err := Decode(src)
	if err == nil {
		*m = *n
	}
	return err
}

// decoder turns the tree into a machine. It keeps the first error; after one,
// what its methods return means nothing.
type decoder struct {
	m     *Machine
	err   error
	field string          // being read, for messages about its value
	lines [numLists][]int // of the machine's entries, by list
	// groups has the devices a name with a count stands for.
	groups    map[string][]DeviceID
	ids       map[string]DeviceID
	resources map[string]bool
}

func (d *decoder) fail(line int, format string, args ...any) {
	if d.err == nil {
		d.err = &graph.SyntaxError{Line: line, Reason: fmt.Sprintf(format, args...)}
	}
}

// bad fails because of the value of the field being read.
func (d *decoder) bad(v *text.Value, format string, args ...any) {
	d.fail(v.Line, "%s: "+format, append([]any{d.field}, args...)...)
}

func (d *decoder) machine(root *text.Value) {
	var host, resources, devices, links, storage, network *text.Value
	d.object(root, "a machine", map[string]func(*text.Value){
		"name":         func(v *text.Value) { d.m.Name = d.text(v) },
		"host":         func(v *text.Value) { host = v },
		"resources":    func(v *text.Value) { resources = v },
		"devices":      func(v *text.Value) { devices = v },
		"links":        func(v *text.Value) { links = v },
		"storage":      func(v *text.Value) { storage = v },
		"network":      func(v *text.Value) { network = v },
		"power_budget": func(v *text.Value) { d.m.BudgetWatts = d.quantity(v, text.Watts) },
	})
	// Links name devices and resources, wherever in the file those stand.
	if host != nil {
		d.object(host, "host", map[string]func(*text.Value){
			"memory":    func(v *text.Value) { d.m.HostBytes = d.size(v) },
			"bandwidth": func(v *text.Value) { d.m.HostBPS = d.quantity(v, text.BytesPerSecond) },
			"power":     func(v *text.Value) { d.m.HostWatts = d.quantity(v, text.Watts) },
		})
	}
	d.field = "storage"
	for _, v := range d.array(storage) {
		d.storage(&v)
	}
	d.field = "network"
	for _, v := range d.array(network) {
		d.adapter(&v)
	}
	d.field = "resources"
	for _, v := range d.array(resources) {
		d.resource(&v)
	}
	d.resources = make(map[string]bool, len(d.m.Resources))
	for _, r := range d.m.Resources {
		d.resources[r.Name] = true
	}
	d.groups = make(map[string][]DeviceID)
	d.field = "devices"
	for _, v := range d.array(devices) {
		d.device(&v)
	}
	d.ids = make(map[string]DeviceID, len(d.m.Devices)+1)
	for i := range d.m.Devices {
		d.ids[d.m.Devices[i].Name] = DeviceID(i)
	}
	d.ids[hostName] = Host
	d.field = "links"
	for _, v := range d.array(links) {
		d.link(&v)
	}
}

func (d *decoder) storage(v *text.Value) {
	var s Storage
	d.object(v, "storage", map[string]func(*text.Value){
		"name":  func(v *text.Value) { s.Name = d.text(v) },
		"model": func(v *text.Value) { s.Model = d.text(v) },
		"size":  func(v *text.Value) { s.Bytes = d.size(v) },
		"rate":  func(v *text.Value) { s.BPS = d.quantity(v, text.BytesPerSecond) },
	})
	d.m.Storage = append(d.m.Storage, s)
	d.lines[inStorage] = append(d.lines[inStorage], v.Line)
}

func (d *decoder) adapter(v *text.Value) {
	var n Adapter
	d.object(v, "an adapter", map[string]func(*text.Value){
		"name":  func(v *text.Value) { n.Name = d.text(v) },
		"model": func(v *text.Value) { n.Model = d.text(v) },
		"rate":  func(v *text.Value) { n.BPS = d.quantity(v, text.BytesPerSecond) },
	})
	d.m.Network = append(d.m.Network, n)
	d.lines[inNetwork] = append(d.lines[inNetwork], v.Line)
}

func (d *decoder) resource(v *text.Value) {
	var r Resource
	count, line := 0, v.Line
	d.object(v, "a resource", map[string]func(*text.Value){
		"name":  func(v *text.Value) { r.Name, line = d.text(v), v.Line },
		"count": func(v *text.Value) { count = int(d.integer(v, 1, maxDevices)) },
		"rate":  func(v *text.Value) { r.BPS = d.quantity(v, text.BytesPerSecond) },
		"cores": func(v *text.Value) { r.Cores = int(d.integer(v, 1, math.MaxInt32)) },
	})
	for _, name := range repeat(r.Name, count) {
		r.Name = name
		d.m.Resources = append(d.m.Resources, r)
		d.lines[inResources] = append(d.lines[inResources], line)
	}
}

func (d *decoder) device(v *text.Value) {
	var dev Device
	count, line, hasKind := 0, v.Line, false
	d.object(v, "a device", map[string]func(*text.Value){
		"name":  func(v *text.Value) { dev.Name, line = d.text(v), v.Line },
		"count": func(v *text.Value) { count = int(d.integer(v, 1, maxDevices)) },
		"model": func(v *text.Value) { dev.Model = d.text(v) },
		"kind": func(v *text.Value) {
			k, err := ParseKind(d.text(v))
			if err != nil {
				d.fail(v.Line, "%v", err)
			}
			dev.Kind, hasKind = k, true
		},
		"backend": func(v *text.Value) { dev.Backend = d.text(v) },
		"dialects": func(v *text.Value) {
			for _, s := range d.texts(v) {
				dev.Dialects = append(dev.Dialects, graph.Dialect(s))
			}
		},
		"arch":        func(v *text.Value) { dev.Arch = d.text(v) },
		"rounding":    func(v *text.Value) { dev.Rounding = d.text(v) },
		"cluster":     func(v *text.Value) { dev.Cluster = int(d.integer(v, 0, math.MaxInt32)) },
		"loop_rounds": func(v *text.Value) { dev.LoopRounds = int(d.integer(v, 0, math.MaxInt32)) },
		"uuid":        func(v *text.Value) { dev.UUID = d.text(v) },
		"memory":      func(v *text.Value) { dev.MemBytes = d.size(v) },
		"host_memory": func(v *text.Value) { dev.HostMemory = d.boolean(v) },
		"cores":       func(v *text.Value) { dev.ComputeUnits = int(d.integer(v, 0, math.MaxInt32)) },
		"simd_lanes":  func(v *text.Value) { dev.SIMDLanes = int(d.integer(v, 0, math.MaxInt32)) },
		"lanes":       func(v *text.Value) { dev.Lanes = int(d.integer(v, 0, maxLanes)) },
		"team":        func(v *text.Value) { dev.Team = d.boolean(v) },
		"numa":        func(v *text.Value) { dev.NUMA = int(d.integer(v, -1, math.MaxInt32)) },
		"power":       func(v *text.Value) { dev.PowerWatts = d.quantity(v, text.Watts) },
		"rates":       func(v *text.Value) { dev.Rates = d.rates(v) },
		"resources": func(v *text.Value) {
			dev.Resources = d.texts(v)
			d.known(v, dev.Resources)
		},
	})
	switch {
	case !hasKind:
		d.fail(v.Line, "device %q has no kind; use one of %s", dev.Name, strings.Join(kindNames, ", "))
	case count > 1 && dev.UUID != "":
		d.fail(v.Line, "device %q: %d devices cannot have one uuid; list them one by one", dev.Name, count)
	case len(d.m.Devices)+count > maxDevices:
		d.fail(v.Line, "more than %d devices", maxDevices)
	}
	if d.err != nil {
		return
	}
	group := dev.Name
	for _, name := range repeat(dev.Name, count) {
		dev.Name = name
		if count > 0 {
			d.groups[group] = append(d.groups[group], DeviceID(len(d.m.Devices)))
		}
		one := dev
		one.Resources, one.Dialects = slices.Clone(dev.Resources), slices.Clone(dev.Dialects)
		d.m.Devices = append(d.m.Devices, one)
		d.lines[inDevices] = append(d.lines[inDevices], line)
	}
}

func (d *decoder) rates(v *text.Value) (r Rates) {
	set := map[string]func(*text.Value){
		"memory": func(v *text.Value) { r.MemoryBPS = d.quantity(v, text.BytesPerSecond) },
		"launch": func(v *text.Value) { r.LaunchNS = d.quantity(v, text.Nanoseconds) },
		"reply":  func(v *text.Value) { r.ReplyNS = d.quantity(v, text.Nanoseconds) },
	}
	for u := range graph.Unit(graph.NumUnits) {
		set[u.String()] = func(v *text.Value) { r.Ops[u] = d.quantity(v, text.OperationsPerSecond) }
	}
	d.object(v, "rates", set)
	return r
}

func (d *decoder) link(v *text.Value) {
	var l Link
	var as, bs []DeviceID
	resources := &text.Value{V: []text.Value{}}
	d.object(v, "a link", map[string]func(*text.Value){
		"a": func(v *text.Value) { as = d.ends(v) },
		"b": func(v *text.Value) { bs = d.ends(v) },
		"kind": func(v *text.Value) {
			k, err := ParseLinkKind(d.text(v))
			if err != nil {
				d.fail(v.Line, "%v", err)
			}
			l.Kind = k
		},
		"rate":      func(v *text.Value) { l.BPS = d.quantity(v, text.BytesPerSecond) },
		"latency":   func(v *text.Value) { l.LatencyNS = d.quantity(v, text.Nanoseconds) },
		"resources": func(v *text.Value) { resources = v },
	})
	d.field = "resources"
	names := d.texts(resources)
	switch {
	case as == nil || bs == nil:
		d.fail(v.Line, "a link needs the ends a and b")
	case len(as)*len(bs) > maxLinks-len(d.m.Links):
		d.fail(v.Line, "more than %d links", maxLinks)
	case slices.Equal(as, bs) && len(as) == 1:
		d.fail(v.Line, "link %s to %s joins a memory to itself", d.m.DeviceName(as[0]), d.m.DeviceName(bs[0]))
	case (slices.Contains(as, Host) && strings.Contains(strings.Join(names, " "), "{a}")) ||
		(slices.Contains(bs, Host) && strings.Contains(strings.Join(names, " "), "{b}")):
		d.fail(resources.Line, "{a} and {b} stand for devices, and the host is none")
	}
	if d.err != nil {
		return
	}
	both := make(map[DeviceID]bool) // ends on both sides, whose pairs come up twice
	for _, a := range as {
		both[a] = slices.Contains(bs, a)
	}
	for _, l.A = range as {
		for _, l.B = range bs {
			if l.A == l.B || (both[l.A] && both[l.B] && l.A > l.B) {
				continue
			}
			named := strings.NewReplacer("{a}", strconv.Itoa(int(l.A)), "{b}", strconv.Itoa(int(l.B)))
			one := l
			for _, n := range names {
				one.Resources = append(one.Resources, named.Replace(n))
			}
			d.known(resources, one.Resources)
			d.m.Links = append(d.m.Links, one)
			d.lines[inLinks] = append(d.lines[inLinks], v.Line)
		}
	}
}

// known checks that the names v stands for are resources.
func (d *decoder) known(v *text.Value, names []string) {
	for _, n := range names {
		if !d.resources[n] {
			d.fail(v.Line, "unknown resource %q; list it under resources", n)
		}
	}
}

// ends returns the devices a link's end stands for.
func (d *decoder) ends(v *text.Value) []DeviceID {
	s := d.text(v)
	if id, ok := d.ids[s]; ok {
		return []DeviceID{id}
	}
	if ids, ok := d.groups[s]; ok {
		return ids
	}
	if colon := strings.LastIndexByte(s, ':'); colon >= 0 {
		first, last, _ := strings.Cut(s[colon+1:], "-")
		lo, err1 := text.ParseWhole(first)
		hi, err2 := text.ParseWhole(last)
		if ids := d.groups[s[:colon]]; err1 == nil && err2 == nil && 0 <= lo && lo <= hi && hi < int64(len(ids)) {
			return ids[lo : hi+1]
		}
	}
	d.fail(v.Line, "unknown device %q in a link; name a device, host, or a range of counted devices such as cuda:0-3", s)
	return nil
}

// repeat returns the names an entry with a count stands for.
func repeat(name string, count int) []string {
	if count == 0 {
		return []string{name}
	}
	names := make([]string, count)
	for i := range names {
		names[i] = name + ":" + strconv.Itoa(i)
	}
	return names
}

// object calls the function set has for each field of v, in the file's order.
func (d *decoder) object(v *text.Value, what string, set map[string]func(*text.Value)) {
	fields, ok := v.V.([]text.Field)
	if !ok {
		d.fail(v.Line, "%s must be an object in braces", what)
		return
	}
	seen := make(map[string]bool)
	for i := range fields {
		f := &fields[i]
		switch put := set[f.Name]; {
		case f.Name == "note":
			continue
		case put == nil:
			d.fail(f.Value.Line, "%v", text.Unknown("field of "+what, f.Name, append(slices.Sorted(maps.Keys(set)), "note")))
		case seen[f.Name]:
			d.fail(f.Value.Line, "field %q is there twice", f.Name)
		case d.err == nil:
			seen[f.Name] = true
			d.field = f.Name
			put(&f.Value)
		}
	}
}

// array returns the items of v, none when it is absent or an error came first.
func (d *decoder) array(v *text.Value) []text.Value {
	if v == nil || d.err != nil {
		return nil
	}
	items, ok := v.V.([]text.Value)
	if !ok {
		d.bad(v, "expected a list in brackets")
	}
	return items
}

func (d *decoder) text(v *text.Value) string {
	s, ok := v.V.(string)
	if !ok {
		d.bad(v, "expected text in quotes")
	}
	return s
}

func (d *decoder) texts(v *text.Value) []string {
	var out []string
	for _, item := range d.array(v) {
		out = append(out, d.text(&item))
	}
	return out
}

func (d *decoder) boolean(v *text.Value) bool {
	b, ok := v.V.(bool)
	if !ok {
		d.bad(v, "expected true or false")
	}
	return b
}

func (d *decoder) integer(v *text.Value, lo, hi int64) int64 {
	number, _ := v.V.(json.Number)
	n, err := number.Int64()
	if err != nil || n < lo || n > hi {
		d.bad(v, "expected a whole number from %d to %d", lo, hi)
	}
	return n
}

// quantity reads a number or a text with a unit, never negative.
func (d *decoder) quantity(v *text.Value, units []text.Unit) float64 {
	var x float64
	var err error
	switch written := v.V.(type) {
	case string:
		x, err = text.ParseQuantity(written, units)
	case json.Number:
		x, err = written.Float64()
	default:
		err = fmt.Errorf("expected a number, or text such as \"1%s\"", units[0].Suffix)
	}
	switch {
	case err != nil:
		d.bad(v, "%v", err)
	case badRate(x):
		d.bad(v, "%v must be a number of 0 or more", v.V)
	}
	return x
}

// size reads a number of bytes.
func (d *decoder) size(v *text.Value) int64 {
	var written string
	switch x := v.V.(type) {
	case string:
		written = x
	case json.Number:
		written = x.String()
	default:
		d.bad(v, "expected a number, or text such as \"8GB\"")
		return 0
	}
	n, err := text.ParseSize(written)
	if err != nil {
		d.bad(v, "%v", err)
	}
	return n
}
