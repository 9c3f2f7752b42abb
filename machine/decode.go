package machine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-run/weft/graph"
)

// SyntaxError says which line of a machine file is wrong and why. Callers put
// the file's name in front.
type SyntaxError struct {
	Line   int
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Decode reads a machine file. Every error is a *SyntaxError, the first one
// found. The format is JSON; every object may hold a "note", which is ignored:
//
//	{
//	  "name": "workstation",
//	  "host": {"memory": "32GB", "bandwidth": "40GB/s"},
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
// Sizes, rates and times are text with a unit, or a plain number of bytes,
// bytes or operations per second, nanoseconds, or watts. An entry of devices or
// resources with a count stands for name:0, name:1 and so on. A resource has a
// rate, or "cores" that devices share. The ends of a
// link are a device ("cuda:0"), "host", a range ("cuda:0-3") or all devices
// counted under a name ("cuda"); every pair is joined once. In a link's
// resources {a} and {b} stand for the position of its ends among the devices,
// so that "nvlink:{a}" names what one device's links share.
func Decode(src []byte) (*Machine, error) {
	root, err := parseJSON(src)
	if err != nil {
		return nil, err
	}
	d := decoder{m: new(Machine)}
	d.machine(root)
	if d.err == nil {
		if at, err := d.m.check(); err != nil {
			line := root.line
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

// value is a JSON value that remembers its line.
type value struct {
	line   int
	kind   byte   // one of { [ " 0 t n
	text   string // what a string says, or a number's digits, or true or false
	fields []field
	items  []*value
}

type field struct {
	name  string
	value *value
}

// parseJSON reads src into a tree with lines, which encoding/json does not keep.
func parseJSON(src []byte) (*value, error) {
	// An end that comes too early is reported where the text ends.
	src = bytes.TrimRight(src, "\r\n\t ")
	// The whole is checked first, so that reading tokens below cannot fail.
	var raw json.RawMessage
	if err := json.Unmarshal(src, &raw); err != nil {
		var syntax *json.SyntaxError
		at := len(src)
		if errors.As(err, &syntax) {
			at = min(at, int(syntax.Offset))
		}
		before := src[:max(at-1, 0)] // the offset is past the byte that is wrong
		return nil, &SyntaxError{1 + bytes.Count(before, []byte("\n")), "not JSON: " + err.Error()}
	}
	r := reader{src: src, tokens: json.NewDecoder(bytes.NewReader(src)), line: 1}
	r.tokens.UseNumber()
	return r.value(), nil
}

type reader struct {
	src    []byte
	tokens *json.Decoder
	line   int
	at     int64
}

func (r *reader) next() json.Token {
	t, err := r.tokens.Token()
	if err != nil {
		panic("machine: json.Unmarshal accepted what json.Decoder does not: " + err.Error())
	}
	to := r.tokens.InputOffset()
	r.line += bytes.Count(r.src[r.at:to], []byte("\n"))
	r.at = to
	return t
}

func (r *reader) value() *value {
	t := r.next()
	v := &value{line: r.line}
	switch t := t.(type) {
	case json.Delim:
		v.kind = byte(t)
		for r.tokens.More() {
			if t == '[' {
				v.items = append(v.items, r.value())
				continue
			}
			name := r.next().(string)
			v.fields = append(v.fields, field{name, r.value()})
		}
		r.next()
	case string:
		v.kind, v.text = '"', t
	case json.Number:
		v.kind, v.text = '0', t.String()
	case bool:
		v.kind, v.text = 't', strconv.FormatBool(t)
	default:
		v.kind = 'n'
	}
	return v
}

// decoder turns the tree into a machine. It keeps the first error; after one,
// what its methods return means nothing.
type decoder struct {
	m     *Machine
	err   error
	field string   // being read, for messages about its value
	lines [4][]int // of the machine's entries, by list
	// groups has the devices a name with a count stands for.
	groups    map[string][]DeviceID
	ids       map[string]DeviceID
	resources map[string]bool
}

func (d *decoder) fail(line int, format string, args ...any) {
	if d.err == nil {
		d.err = &SyntaxError{line, fmt.Sprintf(format, args...)}
	}
}

// bad fails because of the value of the field being read.
func (d *decoder) bad(v *value, format string, args ...any) {
	d.fail(v.line, "%s: "+format, append([]any{d.field}, args...)...)
}

func (d *decoder) machine(root *value) {
	var host, resources, devices, links *value
	d.object(root, "a machine", map[string]func(*value){
		"name":      func(v *value) { d.m.Name = d.text(v) },
		"host":      func(v *value) { host = v },
		"resources": func(v *value) { resources = v },
		"devices":   func(v *value) { devices = v },
		"links":     func(v *value) { links = v },
	})
	// Links name devices and resources, wherever in the file those stand.
	if host != nil {
		d.object(host, "host", map[string]func(*value){
			"memory":    func(v *value) { d.m.HostBytes = d.size(v) },
			"bandwidth": func(v *value) { d.m.HostBPS = d.quantity(v, rateUnits) },
		})
	}
	d.field = "resources"
	for _, v := range d.array(resources) {
		d.resource(v)
	}
	d.resources = make(map[string]bool, len(d.m.Resources))
	for _, r := range d.m.Resources {
		d.resources[r.Name] = true
	}
	d.groups = make(map[string][]DeviceID)
	d.field = "devices"
	for _, v := range d.array(devices) {
		d.device(v)
	}
	d.ids = make(map[string]DeviceID, len(d.m.Devices)+1)
	for i := range d.m.Devices {
		d.ids[d.m.Devices[i].Name] = DeviceID(i)
	}
	d.ids[hostName] = Host
	d.field = "links"
	for _, v := range d.array(links) {
		d.link(v)
	}
}

func (d *decoder) resource(v *value) {
	var r Resource
	count, line := 0, v.line
	d.object(v, "a resource", map[string]func(*value){
		"name":  func(v *value) { r.Name, line = d.text(v), v.line },
		"count": func(v *value) { count = int(d.integer(v, 1, maxDevices)) },
		"rate":  func(v *value) { r.BPS = d.quantity(v, rateUnits) },
		"cores": func(v *value) { r.Cores = int(d.integer(v, 1, math.MaxInt32)) },
	})
	for _, name := range repeat(r.Name, count) {
		r.Name = name
		d.m.Resources = append(d.m.Resources, r)
		d.lines[inResources] = append(d.lines[inResources], line)
	}
}

func (d *decoder) device(v *value) {
	var dev Device
	count, line, hasKind := 0, v.line, false
	d.object(v, "a device", map[string]func(*value){
		"name":  func(v *value) { dev.Name, line = d.text(v), v.line },
		"count": func(v *value) { count = int(d.integer(v, 1, maxDevices)) },
		"model": func(v *value) { dev.Model = d.text(v) },
		"kind": func(v *value) {
			k, err := ParseKind(d.text(v))
			if err != nil {
				d.fail(v.line, "%v", err)
			}
			dev.Kind, hasKind = k, true
		},
		"backend":     func(v *value) { dev.Backend = d.text(v) },
		"arch":        func(v *value) { dev.Arch = d.text(v) },
		"uuid":        func(v *value) { dev.UUID = d.text(v) },
		"memory":      func(v *value) { dev.MemBytes = d.size(v) },
		"host_memory": func(v *value) { dev.HostMemory = d.boolean(v) },
		"cores":       func(v *value) { dev.ComputeUnits = int(d.integer(v, 0, math.MaxInt32)) },
		"simd_lanes":  func(v *value) { dev.SIMDLanes = int(d.integer(v, 0, math.MaxInt32)) },
		"lanes":       func(v *value) { dev.Lanes = int(d.integer(v, 0, math.MaxInt32)) },
		"numa":        func(v *value) { dev.NUMA = int(d.integer(v, -1, math.MaxInt32)) },
		"power":       func(v *value) { dev.PowerWatts = d.quantity(v, wattUnits) },
		"rates":       func(v *value) { dev.Rates = d.rates(v) },
		"resources": func(v *value) {
			dev.Resources = d.texts(v)
			d.known(v, dev.Resources)
		},
	})
	switch {
	case !hasKind:
		d.fail(v.line, "device %q has no kind; use one of %s", dev.Name, strings.Join(kindNames, ", "))
	case count > 1 && dev.UUID != "":
		d.fail(v.line, "device %q: %d devices cannot have one uuid; list them one by one", dev.Name, count)
	case len(d.m.Devices)+count > maxDevices:
		d.fail(v.line, "more than %d devices", maxDevices)
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
		one.Resources = slices.Clone(dev.Resources)
		d.m.Devices = append(d.m.Devices, one)
		d.lines[inDevices] = append(d.lines[inDevices], line)
	}
}

func (d *decoder) rates(v *value) (r Rates) {
	set := map[string]func(*value){
		"memory": func(v *value) { r.MemoryBPS = d.quantity(v, rateUnits) },
		"launch": func(v *value) { r.LaunchNS = d.quantity(v, timeUnits) },
		"reply":  func(v *value) { r.ReplyNS = d.quantity(v, timeUnits) },
	}
	for u := range graph.Unit(graph.NumUnits) {
		set[u.String()] = func(v *value) { r.Ops[u] = d.quantity(v, opsUnits) }
	}
	d.object(v, "rates", set)
	return r
}

func (d *decoder) link(v *value) {
	var l Link
	var as, bs []DeviceID
	resources := &value{kind: '['}
	d.object(v, "a link", map[string]func(*value){
		"a": func(v *value) { as = d.ends(v) },
		"b": func(v *value) { bs = d.ends(v) },
		"kind": func(v *value) {
			k, err := ParseLinkKind(d.text(v))
			if err != nil {
				d.fail(v.line, "%v", err)
			}
			l.Kind = k
		},
		"rate":      func(v *value) { l.BPS = d.quantity(v, rateUnits) },
		"latency":   func(v *value) { l.LatencyNS = d.quantity(v, timeUnits) },
		"resources": func(v *value) { resources = v },
	})
	d.field = "resources"
	names := d.texts(resources)
	switch {
	case as == nil || bs == nil:
		d.fail(v.line, "a link needs the ends a and b")
	case len(as)*len(bs) > maxLinks-len(d.m.Links):
		d.fail(v.line, "more than %d links", maxLinks)
	case slices.Equal(as, bs) && len(as) == 1:
		d.fail(v.line, "link %s to %s joins a memory to itself", d.m.DeviceName(as[0]), d.m.DeviceName(bs[0]))
	case (slices.Contains(as, Host) && strings.Contains(strings.Join(names, " "), "{a}")) ||
		(slices.Contains(bs, Host) && strings.Contains(strings.Join(names, " "), "{b}")):
		d.fail(resources.line, "{a} and {b} stand for devices, and the host is none")
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
			d.lines[inLinks] = append(d.lines[inLinks], v.line)
		}
	}
}

// known checks that the names v stands for are resources.
func (d *decoder) known(v *value, names []string) {
	for _, n := range names {
		if !d.resources[n] {
			d.fail(v.line, "unknown resource %q; list it under resources", n)
		}
	}
}

// ends returns the devices a link's end stands for.
func (d *decoder) ends(v *value) []DeviceID {
	s := d.text(v)
	if id, ok := d.ids[s]; ok {
		return []DeviceID{id}
	}
	if ids, ok := d.groups[s]; ok {
		return ids
	}
	if colon := strings.LastIndexByte(s, ':'); colon >= 0 {
		first, last, _ := strings.Cut(s[colon+1:], "-")
		lo, err1 := strconv.Atoi(first)
		hi, err2 := strconv.Atoi(last)
		if ids := d.groups[s[:colon]]; err1 == nil && err2 == nil && 0 <= lo && lo <= hi && hi < len(ids) {
			return ids[lo : hi+1]
		}
	}
	d.fail(v.line, "unknown device %q in a link; name a device, host, or a range of counted devices such as cuda:0-3", s)
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
func (d *decoder) object(v *value, what string, set map[string]func(*value)) {
	if v.kind != '{' {
		d.fail(v.line, "%s must be an object in braces", what)
		return
	}
	seen := make(map[string]bool)
	for _, f := range v.fields {
		switch put := set[f.name]; {
		case f.name == "note":
			continue
		case put == nil:
			names := make([]string, 0, len(set))
			for n := range set {
				names = append(names, n)
			}
			slices.Sort(names)
			d.fail(f.value.line, "unknown field %q in %s; known are %s", f.name, what, strings.Join(names, ", "))
		case seen[f.name]:
			d.fail(f.value.line, "field %q is there twice", f.name)
		case d.err == nil:
			seen[f.name] = true
			d.field = f.name
			put(f.value)
		}
	}
}

// array returns the items of v, none when it is absent or an error came first.
func (d *decoder) array(v *value) []*value {
	if v == nil || d.err != nil {
		return nil
	}
	if v.kind != '[' {
		d.bad(v, "expected a list in brackets")
	}
	return v.items
}

func (d *decoder) text(v *value) string {
	if v.kind != '"' {
		d.bad(v, "expected text in quotes")
	}
	return v.text
}

func (d *decoder) texts(v *value) []string {
	var out []string
	for _, item := range d.array(v) {
		out = append(out, d.text(item))
	}
	return out
}

func (d *decoder) boolean(v *value) bool {
	if v.kind != 't' {
		d.bad(v, "expected true or false")
	}
	return v.text == "true"
}

func (d *decoder) integer(v *value, lo, hi int64) int64 {
	n, err := strconv.ParseInt(v.text, 10, 64)
	if v.kind != '0' || err != nil || n < lo || n > hi {
		d.bad(v, "expected a whole number from %d to %d", lo, hi)
	}
	return n
}

// quantity reads a number or a text with a unit, never negative.
func (d *decoder) quantity(v *value, units []unit) float64 {
	var x float64
	var err error
	switch v.kind {
	case '"':
		x, err = parseQuantity(v.text, units)
	case '0':
		x, err = strconv.ParseFloat(v.text, 64)
	default:
		err = fmt.Errorf("expected a number, or text such as \"1%s\"", units[0].suffix)
	}
	switch {
	case err != nil:
		d.bad(v, "%v", err)
	case badRate(x):
		d.bad(v, "%s must be a number of 0 or more", v.text)
	}
	return x
}

// size reads a number of bytes.
func (d *decoder) size(v *value) int64 {
	if n, err := strconv.ParseInt(v.text, 10, 64); err == nil && v.kind == '0' && n >= 0 {
		return n // exact where a float64 is not
	}
	x := d.quantity(v, byteUnits)
	if d.err == nil && (x != math.Trunc(x) || x >= math.MaxInt64) {
		d.bad(v, "%s is not a whole number of bytes that fits in 63 bits", v.text)
	}
	if d.err != nil {
		return 0
	}
	return int64(x)
}
