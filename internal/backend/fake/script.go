package fake

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// ErrScript is wrapped by every error about options and scripts.
var ErrScript = errors.New("bad script")

// Script lists events of devices. As text it is a list of statements, each ended by a
// semicolon or a line's end; text after # on a line is a comment:
//
//	devices 2                    how many devices there are
//	memory 65536                 bytes of memory of each
//	lanes 2                      launches each runs at once
//	peer                         devices copy directly from one another
//	joins nccl                   devices take part in native collectives
//
//	take 5ms kernel saxpy        what matches takes at least so long
//	fail op 7                    fails
//	hang launches times 1        never ends, unless released, lost or closed
//	corrupt kernel saxpy         ends well, with a wrong byte in what it writes
//	lose copies                  the device is lost when it would begin
//	lose                         the device is lost now
//	release                      what hangs now goes on
//	limit 4096                   allocations beyond that many bytes fail
//	set temp 90                  telemetry: util memory temp power clock errors faults
//	revive restart fails         how a rung of recovery ends: fails, empty or kept
//
// An operation matches by "op N" (the N-th copy or launch the device is given, from 1),
// "kernel NAME" (a launch with a step of that kernel), "copies" or "launches"; "times
// N" ends a rule after N matches. "on 1" before a rule limits it to device 1. Names
// that are not plain words are quoted as in Go. Several rules may match an operation:
// it is then lost before it hangs, hangs before it fails, and takes the longest of the
// times.
type Script []Rule

// Rule is one thing that happens.
type Rule struct {
	// Device is the one the rule is for, from 0, or AllDevices.
	Device int
	Do     Deed
	At     Match         // Take, Fail, Hang, Lose, Corrupt
	Times  int           // how often it applies at most; 0 means always
	For    time.Duration // Take
	Bytes  int64         // Limit
	Name   string        // Set: what is set
	Value  float64       // Set
	Rung   driver.Rung   // Revive
	End    Outcome       // Revive
}

// AllDevices is the Device of a rule that is for every one.
const AllDevices = -1

// Deed is the effect of a rule.
type Deed uint8

const (
	Take    Deed = iota // operations take at least For
	Fail                // operations fail
	Hang                // operations never end by themselves
	Lose                // the device is lost
	Release             // what hangs now goes on
	Limit               // the device provides no more than Bytes
	Set                 // telemetry shows Value for Name
	Revive              // an attempt by Rung ends as End says
	Corrupt             // operations end well, and a byte of what they write is wrong
)

// MatchKind is the way a rule chooses its operations.
type MatchKind uint8

const (
	Now      MatchKind = iota // none: the rule applies at once
	NthOp                     // the N-th copy or launch given to the device
	OfKernel                  // launches with a step of Kernel
	Copies                    // every copy
	Launches                  // every launch
)

// Match chooses operations.
type Match struct {
	Kind   MatchKind
	N      int64
	Kernel string
}

// Outcome is the end of an attempt to bring a device back.
type Outcome uint8

const (
	Empty Outcome = iota // it is back with empty memory
	Kept                 // it is back and its buffers are whole
	Fails                // it stays lost
)

var (
	deeds    = []string{"take", "fail", "hang", "lose", "release", "limit", "set", "revive", "corrupt"}
	rungs    = []string{"standby", "restart", "reopen"}
	outcomes = []string{"empty", "kept", "fails"}
	gauges   = []string{"util", "memory", "temp", "power", "clock", "errors", "faults"}
)

// longest bounds a Take, so that a typing error does not stop a test for days.
const longest = time.Hour

func (r *Rule) validate(devices int) error {
	if r.Device < AllDevices || r.Device >= devices {
		return fmt.Errorf("no device %d; there are %d, numbered from 0", r.Device, devices)
	}
	if int(r.Do) >= len(deeds) {
		return fmt.Errorf("unknown deed %d", r.Do)
	}
	if r.Times < 0 {
		return fmt.Errorf("times %d; use 1 or more, or leave it out", r.Times)
	}
	// What a rule has no use for must not be set: its text would not say it.
	plain := Rule{Device: r.Device, Do: r.Do}
	switch r.Do {
	case Take, Fail, Hang, Lose, Corrupt:
		if err := r.At.validate(r.Do); err != nil {
			return err
		}
		plain.At = r.At
		if r.At.Kind != Now && r.At.Kind != NthOp {
			plain.Times = r.Times
		}
		if r.Do == Take {
			if r.For <= 0 || r.For > longest {
				return fmt.Errorf("take %v; use more than 0 and at most %v", r.For, longest)
			}
			plain.For = r.For
		}
	case Limit:
		if r.Bytes < 0 || r.Bytes > maxBytes {
			return fmt.Errorf("limit %d; use 0 to %d", r.Bytes, int64(maxBytes))
		}
		plain.Bytes = r.Bytes
	case Set:
		if !slices.Contains(gauges, r.Name) {
			return fmt.Errorf("nothing called %q can be set; use one of %s", r.Name, strings.Join(gauges, ", "))
		}
		if math.IsNaN(r.Value) || math.Abs(r.Value) > 1e15 {
			return fmt.Errorf("set %s %v; use a number up to 1e15", r.Name, r.Value)
		}
		plain.Name, plain.Value = r.Name, r.Value
	case Revive:
		if int(r.Rung) >= len(rungs) || int(r.End) >= len(outcomes) {
			return fmt.Errorf("unknown rung %d or outcome %d", r.Rung, r.End)
		}
		plain.Rung, plain.End, plain.Times = r.Rung, r.End, r.Times
	}
	if plain != *r {
		return fmt.Errorf("%s does not use all that is set of %+v", deeds[r.Do], *r)
	}
	return nil
}

func (m Match) validate(do Deed) error {
	ok := false
	switch m.Kind {
	case Now:
		ok = do == Lose && m == (Match{})
	case NthOp:
		ok = m.N >= 1 && m.Kernel == ""
	case OfKernel:
		ok = m.N == 0 && m.Kernel != ""
	case Copies, Launches:
		ok = m.N == 0 && m.Kernel == ""
	}
	if !ok {
		return fmt.Errorf("%s needs %s", deeds[do], targets)
	}
	return nil
}

// targets lists the conditions of a statement, for error messages.
const targets = "op N (from 1), kernel NAME, copies or launches"

// String returns the text Parse reads.
func (r Rule) String() string {
	var b strings.Builder
	if r.Device != AllDevices {
		fmt.Fprintf(&b, "on %d ", r.Device)
	}
	b.WriteString(nameOf(deeds, int(r.Do)))
	switch r.Do {
	case Take:
		fmt.Fprintf(&b, " %v", r.For)
	case Limit:
		fmt.Fprintf(&b, " %d", r.Bytes)
	case Set:
		fmt.Fprintf(&b, " %s %s", quote(r.Name), strconv.FormatFloat(r.Value, 'g', -1, 64))
	case Revive:
		fmt.Fprintf(&b, " %s %s", nameOf(rungs, int(r.Rung)), nameOf(outcomes, int(r.End)))
	}
	switch r.At.Kind {
	case NthOp:
		fmt.Fprintf(&b, " op %d", r.At.N)
	case OfKernel:
		b.WriteString(" kernel " + quote(r.At.Kernel))
	case Copies:
		b.WriteString(" copies")
	case Launches:
		b.WriteString(" launches")
	}
	if r.Times > 0 {
		fmt.Fprintf(&b, " times %d", r.Times)
	}
	return b.String()
}

// String returns the text Parse reads, on one line; Funcs and Natives are left out.
func (o Options) String() string {
	var out []string
	if o.Devices > 0 {
		out = append(out, fmt.Sprintf("devices %d", o.Devices))
	}
	if o.MemBytes > 0 {
		out = append(out, fmt.Sprintf("memory %d", o.MemBytes))
	}
	if o.Lanes > 0 {
		out = append(out, fmt.Sprintf("lanes %d", o.Lanes))
	}
	if o.Peer {
		out = append(out, "peer")
	}
	if o.Joins != "" {
		out = append(out, "joins "+quote(o.Joins))
	}
	for _, r := range o.Script {
		out = append(out, r.String())
	}
	return strings.Join(out, "; ")
}

// Parse reads options from text. It checks each statement by itself; Validate,
// which New calls, also checks devices named against those there are.
func Parse(text string) (Options, error) {
	var o Options
	n := 0
	for text != "" {
		var words []string
		var err error
		rest := text
		words, text, err = statement(text)
		if len(words) > 0 || err != nil {
			n++
		}
		if err == nil && len(words) > 0 {
			err = o.add(words)
		}
		if err != nil {
			said := strings.TrimSpace(rest[:len(rest)-len(text)])
			return Options{}, fmt.Errorf("fake: %w: statement %d, %q: %w", ErrScript, n, said, err)
		}
	}
	return o, nil
}

// statement splits the first statement of a text into words.
func statement(s string) (words []string, rest string, err error) {
	for i := 0; i < len(s); {
		switch c := s[i]; c {
		case ' ', '\t', '\r':
			i++
		case ';', '\n':
			return words, s[i+1:], nil
		case '#':
			if end := strings.IndexByte(s[i:], '\n'); end >= 0 {
				return words, s[i+end+1:], nil
			}
			return words, "", nil
		case '"':
			q, err := strconv.QuotedPrefix(s[i:])
			if err != nil {
				return nil, "", errors.New("a quoted name does not end")
			}
			w, err := strconv.Unquote(q)
			if err != nil {
				return nil, "", fmt.Errorf("quoted name %s: %w", q, err)
			}
			words = append(words, w)
			i += len(q)
		default:
			end := strings.IndexAny(s[i:], " \t\r\n;#\"")
			if end < 0 {
				end = len(s) - i
			}
			words = append(words, s[i:i+end])
			i += end
		}
	}
	return words, "", nil
}

// quote writes a word so that statement reads it back.
func quote(s string) string {
	plain := s != ""
	for _, c := range []byte(s) {
		plain = plain && (c == '_' || c == '-' || c == '.' || c == '/' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// add takes one statement in.
func (o *Options) add(words []string) error {
	p := &parser{words: words}
	switch p.words[0] {
	case "devices":
		p.next()
		o.Devices = int(p.integer(1, maxDevices))
		return p.end()
	case "memory":
		p.next()
		o.MemBytes = p.integer(1, maxBytes)
		return p.end()
	case "lanes":
		p.next()
		o.Lanes = int(p.integer(1, maxLanes))
		return p.end()
	case "peer":
		p.next()
		o.Peer = true
		return p.end()
	case "joins":
		p.next()
		o.Joins = p.next()
		if o.Joins == "" {
			p.fail("no library is named")
		}
		return p.end()
	}
	r := Rule{Device: AllDevices}
	if p.peek() == "on" {
		p.next()
		r.Device = int(p.integer(0, maxDevices-1))
	}
	r.Do = Deed(p.choice("statement", deeds))
	switch r.Do {
	case Take:
		r.For = p.duration()
		r.At = p.match()
	case Fail, Hang, Corrupt:
		r.At = p.match()
	case Lose:
		if len(p.words) > 0 {
			r.At = p.match()
		}
	case Limit:
		r.Bytes = p.integer(0, maxBytes)
	case Set:
		r.Name = gauges[p.choice("gauge", gauges)]
		r.Value = p.number()
	case Revive:
		r.Rung = driver.Rung(p.choice("rung", rungs))
		r.End = Outcome(p.choice("outcome", outcomes))
	}
	if p.peek() == "times" {
		p.next()
		r.Times = int(p.integer(1, math.MaxInt32))
	}
	if err := p.end(); err != nil {
		return err
	}
	if err := r.validate(maxDevices); err != nil {
		return err
	}
	o.Script = append(o.Script, r)
	return nil
}

// parser takes words one after another and remembers the first mistake.
type parser struct {
	words []string
	err   error
}

func (p *parser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *parser) next() string {
	w := p.peek()
	if len(p.words) > 0 {
		p.words = p.words[1:]
	}
	return w
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *parser) end() error {
	if len(p.words) > 0 {
		p.fail("%q is too much", p.words[0])
	}
	return p.err
}

func (p *parser) integer(lo, hi int64) int64 {
	w := p.next()
	n, err := strconv.ParseInt(w, 10, 64)
	if err != nil || n < lo || n > hi {
		p.fail("%q where a number from %d to %d is expected", w, lo, hi)
		return lo
	}
	return n
}

func (p *parser) number() float64 {
	w := p.next()
	x, err := strconv.ParseFloat(w, 64)
	if err != nil {
		p.fail("%q where a number is expected", w)
	}
	return x
}

func (p *parser) duration() time.Duration {
	w := p.next()
	d, err := time.ParseDuration(w)
	if err != nil {
		p.fail("%q where a duration such as 5ms is expected", w)
	}
	return d
}

func (p *parser) choice(what string, names []string) int {
	w := p.next()
	i := slices.Index(names, w)
	if i < 0 {
		p.fail("unknown %s %q; use one of %s", what, w, strings.Join(names, ", "))
		return 0
	}
	return i
}

func (p *parser) match() Match {
	switch w := p.next(); w {
	case "op":
		return Match{Kind: NthOp, N: p.integer(1, math.MaxInt64)}
	case "kernel":
		m := Match{Kind: OfKernel, Kernel: p.next()}
		if m.Kernel == "" {
			p.fail("kernel needs a name")
		}
		return m
	case "copies":
		return Match{Kind: Copies}
	case "launches":
		return Match{Kind: Launches}
	default:
		p.fail("%q where %s is expected", w, targets)
		return Match{}
	}
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}
