package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// FaultKind is the kind of fault that a line of a fault script injects.
type FaultKind uint8

const (
	// Lose takes a device away with what its memory holds, or with Keep
	// without it.
	Lose FaultKind = iota
	// Back brings a lost device back.
	Back
	// Slow makes a device Factor times slower than its model.
	Slow
	// Shrink sets a device's memory capacity to Bytes.
	Shrink
	// Break takes the links between two memories away.
	Break
	// Mend puts them back.
	Mend
	// FailNext makes the next launch on a device fail at its end.
	FailNext
	// FailTask makes the next Times launches of tasks with a name fail.
	FailTask
	// Hang stops what a device is running, or else the next launch there,
	// from ever ending.
	Hang
	// Sense sends a telemetry sample.
	Sense
	// Swap puts the device Other in a device's place.
	Swap
	// Drain stops new work on a device.
	Drain
	// Undrain lets it in again.
	Undrain
	// Cancel cancels the run submitted as number Times, from 1.
	Cancel
	// FailCopy makes the next copy on a device's lanes fail at its end.
	FailCopy
	// Refuse makes the next launch on a device end as one its kernel cannot do.
	Refuse
	// Exhaust makes it end as one for which the device has too little memory.
	Exhaust
)

var faultVerbs = [...]string{
	Lose: "lose", Back: "back", Slow: "slow", Shrink: "shrink", Break: "break", Mend: "mend",
	FailNext: "fail next", FailTask: "fail task", Hang: "hang", Sense: "telemetry", Swap: "swap",
	Drain: "drain", Undrain: "undrain", Cancel: "cancel",
	FailCopy: "fail copy", Refuse: "refuse", Exhaust: "exhaust",
}

func (k FaultKind) String() string {
	if int(k) < len(faultVerbs) {
		return faultVerbs[k]
	}
	return fmt.Sprintf("unknown(%d)", int(k))
}

// Fault is one thing that goes wrong, or is mended, at one time.
type Fault struct {
	At     time.Duration
	Kind   FaultKind
	Device machine.DeviceID
	Other  machine.DeviceID // Break, Mend: the other end; Swap: the spare
	Keep   bool             // Lose: its memory survives
	Silent bool             // Slow: the engine is not told and has to notice
	Factor float64          // Slow
	Bytes  int64            // Shrink
	Task   string           // FailTask
	Times  int              // FailTask, Cancel
	Sample Sample           // Sense
}

// Faults is a fault script, in the order things happen.
type Faults []Fault

// Sample is the condition that a device reports; negative fields are not known.
type Sample struct {
	Util         float64 // 0 to 1
	MemUsed      float64 // fraction of memory
	TempC        float64
	PowerW       float64
	MemErrors    int64 // uncorrectable, since boot
	Unresponsive bool
}

// engine is the sample as the engine takes it.
func (s *Sample) engine() *engine.Sample {
	return &engine.Sample{
		Util: s.Util, MemUsed: s.MemUsed, TempC: s.TempC, PowerW: s.PowerW, MemErrors: s.MemErrors, Unresponsive: s.Unresponsive,
	}
}

// unknownSample has every field not known.
var unknownSample = Sample{Util: -1, MemUsed: -1, TempC: -1, PowerW: -1, MemErrors: -1}

// ParseFaults reads a fault script for a machine. A line is a time and what
// happens then; '#' begins a comment, and a line without a time happens at the
// start. Devices are named, or given by their position from 0.
//
//	at 2ms lose cuda:1            # with its memory; "keep" at the end spares it
//	at 9ms back cuda:1
//	at 1ms slow cuda:1 3x         # "silent" at the end: the engine is not told
//	at 1ms shrink cuda:0 2GB
//	at 3ms break cuda:0 cuda:1    # the links between them; "host" is an end too
//	at 4ms mend cuda:0 cuda:1
//	at 1ms fail next cuda:0
//	at 1ms fail copy cuda:0
//	at 1ms refuse cuda:0
//	at 1ms exhaust cuda:0         # its next launch is out of memory
//	fail task NAME 2 times
//	at 1ms hang cuda:0
//	at 1ms telemetry cuda:0 temp=90 util=0.5 mem=0.97 power=400 ecc=1 unresponsive
//	at 5ms swap cuda:0 cuda:2
//	at 1ms drain cuda:0
//	at 2ms undrain cuda:0
//	at 3ms cancel 2               # the second run submitted
//
// The result is sorted by time; lines of one time keep their order. An error
// is a *graph.SyntaxError.
func ParseFaults(src []byte, m *machine.Machine) (Faults, error) {
	var out Faults
	for n, fields := range lines(src) {
		at, rest, err := cutTime(fields)
		if err == nil {
			var f Fault
			if f, err = parseFault(rest, m); err == nil {
				f.At = at
				out = append(out, f)
				continue
			}
		}
		return nil, &graph.SyntaxError{Line: n, Reason: err.Error()}
	}
	out.sort()
	return out, nil
}

func (f Faults) sort() {
	slices.SortStableFunc(f, func(a, b Fault) int { return int(min(max(a.At-b.At, -1), 1)) })
}

// lines yields the words of each line that has any, with its number from 1.
func lines(src []byte) func(yield func(int, []string) bool) {
	return func(yield func(int, []string) bool) {
		n := 0
		for line := range strings.Lines(string(src)) {
			n++
			line, _, _ = strings.Cut(line, "#")
			if fields := strings.Fields(line); len(fields) > 0 && !yield(n, fields) {
				return
			}
		}
	}
}

// cutTime takes "at TIME" off the front of a line.
func cutTime(fields []string) (time.Duration, []string, error) {
	if fields[0] != "at" {
		return 0, fields, nil
	}
	if len(fields) < 3 {
		return 0, nil, fmt.Errorf("want at TIME and what happens then")
	}
	at, err := text.ParseDuration(fields[1])
	return at, fields[2:], err
}

// isFault reports whether a word begins a fault, as against a generator.
func isFault(word string) bool {
	return word == "fail" || slices.Contains(faultVerbs[:], word)
}

func parseFault(w []string, m *machine.Machine) (Fault, error) {
	verb := w[0]
	if verb == "fail" && len(w) > 1 {
		verb = "fail " + w[1]
		w = w[1:]
	}
	k := slices.Index(faultVerbs[:], verb)
	if k < 0 {
		return Fault{}, text.Unknown("fault", verb, faultVerbs[:])
	}
	p := &words{w: w[1:], m: m}
	f := Fault{Kind: FaultKind(k)}
	switch f.Kind {
	case Lose:
		f.Device = p.device()
		f.Keep = p.flag("keep")
	case Back, FailNext, FailCopy, Refuse, Exhaust, Hang, Drain, Undrain:
		f.Device = p.device()
	case Slow:
		f.Device = p.device()
		s := p.next("a factor like 3x")
		f.Factor = p.float(strings.TrimSuffix(s, "x"), s, math.SmallestNonzeroFloat64, 1e9)
		f.Silent = p.flag("silent")
	case Shrink:
		f.Device = p.device()
		if f.Bytes = p.bytes(); f.Bytes == 0 {
			p.fail("a memory keeps at least 1 byte")
		}
	case Break, Mend:
		f.Device, f.Other = p.end(), p.end()
		if p.err == nil && f.Device == f.Other {
			p.err = fmt.Errorf("a link needs two different ends")
		}
	case Swap:
		f.Device, f.Other = p.device(), p.device()
		if p.err == nil && f.Device == f.Other {
			p.err = fmt.Errorf("a device cannot take its own place")
		}
	case FailTask:
		f.Task, f.Times = p.taskTimes()
	case Cancel:
		f.Times = p.count(p.next("which run, from 1"))
	case Sense:
		f.Device = p.device()
		f.Sample = p.sample()
	}
	if p.err == nil && len(p.w) > 0 {
		p.err = fmt.Errorf("unexpected %q after %s", p.w[0], verb)
	}
	return f, p.err
}

// words takes a line apart; the first mistake stays in err.
type words struct {
	w   []string
	m   *machine.Machine
	err error
}

func (p *words) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *words) next(what string) string {
	if len(p.w) == 0 {
		p.fail("missing %s", what)
		return ""
	}
	s := p.w[0]
	p.w = p.w[1:]
	return s
}

func (p *words) flag(word string) bool {
	if len(p.w) > 0 && p.w[0] == word {
		p.w = p.w[1:]
		return true
	}
	return false
}

func (p *words) device() machine.DeviceID {
	s := p.next("a device")
	if p.err != nil {
		return 0
	}
	d, ok := findDevice(p.m, s)
	if !ok {
		p.fail("no device %q on this machine; it has %s", s, deviceNames(p.m))
	}
	return d
}

// end is a device or the host.
func (p *words) end() machine.DeviceID {
	if p.flag("host") {
		return machine.Host
	}
	return p.device()
}

func findDevice(m *machine.Machine, s string) (machine.DeviceID, bool) {
	if d, ok := m.Lookup(s); ok && d != machine.Host {
		return d, true
	}
	if i, err := strconv.Atoi(s); err == nil && i >= 0 && i < len(m.Devices) {
		return machine.DeviceID(i), true
	}
	return 0, false
}

func deviceNames(m *machine.Machine) string {
	var names []string
	for i := range m.Devices {
		if i == 8 {
			names = append(names, "…")
			break
		}
		names = append(names, m.Devices[i].Name)
	}
	return strings.Join(names, ", ")
}

// float parses num, which was written as s, and checks its range.
func (p *words) float(num, s string, lo, hi float64) float64 {
	x, err := strconv.ParseFloat(num, 64)
	if p.err == nil && (err != nil || !(x >= lo && x <= hi)) {
		p.fail("bad number %q", s)
	}
	return x
}

func (p *words) count(s string) int {
	n, err := strconv.Atoi(s)
	if p.err == nil && (err != nil || n < 1 || n > 1e9) {
		p.fail("bad count %q", s)
	}
	return n
}

func (p *words) bytes() int64 {
	s := p.next("a size like 2GB")
	if p.err != nil {
		return 0
	}
	n, err := text.ParseSize(s)
	if err != nil {
		p.err = err
	}
	return n
}

// taskTimes reads NAME N times; the name may hold spaces.
func (p *words) taskTimes() (string, int) {
	n := len(p.w)
	if n < 3 || p.w[n-1] != "times" {
		p.fail("want fail task NAME N times")
		return "", 0
	}
	name, times := strings.Join(p.w[:n-2], " "), p.count(p.w[n-2])
	p.w = nil
	return name, times
}

func (p *words) sample() Sample {
	s := unknownSample
	if len(p.w) == 0 {
		p.fail("missing a reading like temp=90")
	}
	for p.err == nil && len(p.w) > 0 {
		word := p.next("")
		key, val, _ := strings.Cut(word, "=")
		num := func() float64 { return p.float(val, word, 0, 1e15) }
		switch key {
		case "util":
			s.Util = num()
		case "mem":
			s.MemUsed = num()
		case "temp":
			s.TempC = num()
		case "power":
			s.PowerW = num()
		case "ecc":
			s.MemErrors = int64(num())
		case "unresponsive":
			s.Unresponsive = true
			if val != "" {
				p.fail("unresponsive takes no value")
			}
		default:
			p.fail("unknown reading %q; there are temp, util, mem, power, ecc, unresponsive", word)
		}
	}
	return s
}

// Text writes the script in the language ParseFaults reads.
func (f Faults) Text(m *machine.Machine) string {
	var b strings.Builder
	num := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i := range f {
		x := &f[i]
		fmt.Fprintf(&b, "at %v %v", x.At, x.Kind)
		switch x.Kind {
		case Break, Mend, Swap:
			fmt.Fprintf(&b, " %s %s", m.DeviceName(x.Device), m.DeviceName(x.Other))
		case FailTask:
			fmt.Fprintf(&b, " %s %d times", x.Task, x.Times)
		case Cancel:
			fmt.Fprintf(&b, " %d", x.Times)
		default:
			fmt.Fprintf(&b, " %s", m.DeviceName(x.Device))
		}
		switch x.Kind {
		case Lose:
			if x.Keep {
				b.WriteString(" keep")
			}
		case Slow:
			fmt.Fprintf(&b, " %sx", num(x.Factor))
			if x.Silent {
				b.WriteString(" silent")
			}
		case Shrink:
			fmt.Fprintf(&b, " %dB", x.Bytes)
		case Sense:
			reading := func(key string, v float64) {
				if v >= 0 {
					fmt.Fprintf(&b, " %s=%s", key, num(v))
				}
			}
			reading("temp", x.Sample.TempC)
			reading("util", x.Sample.Util)
			reading("mem", x.Sample.MemUsed)
			reading("power", x.Sample.PowerW)
			reading("ecc", float64(x.Sample.MemErrors))
			if x.Sample.Unresponsive {
				b.WriteString(" unresponsive")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
