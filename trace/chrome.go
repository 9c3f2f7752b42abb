package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// formatVersion is otherData.weft of the files WriteChrome writes.
const formatVersion = 1

// chromeHeader is a file's description of the machine, enough for an analysis.
type chromeHeader struct {
	Weft    int            `json:"weft"`
	Machine string         `json:"machine"`
	Devices []chromeDevice `json:"devices"`
}

type chromeDevice struct {
	Name     string       `json:"name"`
	Model    string       `json:"model,omitempty"`
	Backend  string       `json:"backend,omitempty"`
	Kind     machine.Kind `json:"kind"`
	Lanes    int          `json:"lanes"`
	LaunchNS float64      `json:"launch_ns"`
	FP32     float64      `json:"fp32"`
}

// laneThread has the first thread number of each kind of lane, of which a device has
// up to 256. Perfetto gives thread 0 a meaning of its own.
var laneThread = [...]int{laneCompute: 1, laneIn: 301, laneOut: 601}

var laneTitle = [...]string{laneCompute: "compute", laneIn: "copy in", laneOut: "copy out"}

// pid is the process a device is shown as; the host is 1.
func pid(d machine.DeviceID) int { return int(d) + 2 }

// WriteChrome writes events in the Chrome trace format, for ui.perfetto.dev and
// chrome://tracing: a process per device, a thread per lane, arrows from what
// produced data to what used it on another device, state changes as instants,
// and a counter of tasks that could run and wait for their turn. Times are
// microseconds with three decimals, so no nanosecond is lost. The file is
// written as it is made; nothing holds the whole of it.
func WriteChrome(w io.Writer, m *machine.Machine, evs []Event, names Names) error {
	header := chromeHeader{Weft: formatVersion, Machine: m.Name, Devices: make([]chromeDevice, len(m.Devices))}
	for d, dev := range m.Devices {
		header.Devices[d] = chromeDevice{Name: dev.Name, Model: dev.Model, Backend: dev.Backend, Kind: dev.Kind,
			Lanes: dev.Lanes, LaunchNS: dev.Rates.LaunchNS, FP32: dev.Rates.Ops[graph.FP32]}
	}
	head, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("trace: write machine %q: %w", m.Name, err)
	}
	mo := newCauseGraph(m, evs, nil)
	c := &chromeWriter{w: bufio.NewWriterSize(w, 1<<16), m: m, names: names}
	fmt.Fprintf(c.w, `{"displayTimeUnit":"ns","otherData":%s,"traceEvents":[`, head)
	c.metadata(mo)
	for i := range evs {
		c.event(&evs[i])
	}
	c.flows(mo)
	c.queues(mo)
	fmt.Fprint(c.w, "\n]}\n")
	if err := c.w.Flush(); err != nil {
		return fmt.Errorf("trace: write: %w", err)
	}
	return nil
}

// chromeWriter writes one trace event a line. Errors stay in the bufio.Writer
// until Flush.
type chromeWriter struct {
	w     *bufio.Writer
	m     *machine.Machine
	names Names
	b     []byte // the line being built
	lines int
}

// open begins a line with the fields every trace event has.
func (c *chromeWriter) open(name, cat, ph string, pid, tid int, at time.Duration) {
	c.b = append(c.b[:0], `{"name":`...)
	c.b = appendText(c.b, name)
	c.b = append(append(append(c.b, `,"cat":"`...), cat...), `","ph":"`...)
	c.b = append(append(c.b, ph...), `","pid":`...)
	c.b = append(strconv.AppendInt(c.b, int64(pid), 10), `,"tid":`...)
	c.b = append(strconv.AppendInt(c.b, int64(tid), 10), `,"ts":`...)
	c.b = appendMicros(c.b, at)
}

func (c *chromeWriter) field(text string, v int64) {
	c.b = strconv.AppendInt(append(c.b, text...), v, 10)
}

// optional writes a number that ReadChrome takes for 0 when absent.
func (c *chromeWriter) optional(text string, v int64) {
	if v != 0 {
		c.field(text, v)
	}
}

func (c *chromeWriter) close(tail string) {
	sep := ",\n"
	if c.lines == 0 {
		sep = "\n"
	}
	c.lines++
	c.w.WriteString(sep)
	c.w.Write(append(c.b, tail...))
}

// metadata names processes and threads, the latter where something ran.
func (c *chromeWriter) metadata(mo *causeGraph) {
	named := func(what string, pid, tid int, title string) {
		c.open(what, "", "M", pid, tid, 0)
		c.b = appendText(append(c.b, `,"args":{"name":`...), title)
		c.close("}}")
	}
	for d := machine.Host; int(d) < len(c.m.Devices); d++ {
		title := deviceName(c.m, d)
		if d >= 0 && c.m.Devices[d].Model != "" {
			title += " (" + c.m.Devices[d].Model + ")"
		}
		named("process_name", pid(d), 0, title)
	}
	seen := make(map[laneKey]bool)
	for i := range mo.evs {
		k := mo.evs[i].laneKey()
		if !seen[k] {
			seen[k] = true
			title := laneTitle[k.kind]
			if k.lane > 0 || k.kind == laneCompute {
				title = fmt.Sprintf("%s %d", title, k.lane)
			}
			named("thread_name", pid(k.device), k.thread(), title)
		}
	}
}

func (k laneKey) thread() int { return laneThread[k.kind] + int(k.lane) }

// event writes an event with all its numbers, so that ReadChrome gets it back.
func (c *chromeWriter) event(e *Event) {
	k := e.laneKey()
	switch {
	case e.Kind.lasts():
		name := c.names.task(e.Run, e.Task)
		if e.Kind == Copy {
			name = "copy " + size(e.Bytes) + " from " + deviceName(c.m, e.From)
		}
		c.open(name, e.Kind.String(), "X", pid(k.device), k.thread(), e.Start)
		c.b = appendMicros(append(c.b, `,"dur":`...), max(0, e.End-e.Start))
	case e.Kind == RunBegin || e.Kind == RunEnd || e.Kind == Missing:
		c.open(e.Kind.String(), e.Kind.String(), "i", pid(machine.Host), 1, e.Start)
		c.b = append(c.b, `,"s":"g"`...)
	default:
		c.open(e.Kind.String(), e.Kind.String(), "i", pid(e.Device), 1, e.Start)
		c.b = append(c.b, `,"s":"p"`...)
	}
	c.field(`,"args":{"run":`, int64(e.Run))
	c.field(`,"task":`, int64(e.Task))
	c.field(`,"device":`, int64(e.Device))
	c.field(`,"from":`, int64(e.From))
	c.field(`,"lane":`, int64(e.Lane))
	c.optional(`,"width":`, int64(e.Width))
	c.optional(`,"ready_ns":`, int64(e.Ready))
	c.optional(`,"issued_ns":`, int64(e.Issued))
	c.optional(`,"inputs_ns":`, int64(e.InputsAt))
	c.optional(`,"predicted_ns":`, int64(e.Predicted))
	c.optional(`,"bytes":`, e.Bytes)
	if e.Failed {
		c.b = append(c.b, `,"failed":true`...)
	}
	if !e.Kind.lasts() {
		c.optional(`,"end_ns":`, int64(e.End))
	} else if e.Kind == Exec {
		if kernel := c.names.kernel(e.Run, e.Task); kernel != "" {
			c.b = appendText(append(c.b, `,"kernel":`...), kernel)
		}
	}
	c.close("}}")
}

// flows draws an arrow from each cause to its effect where a copy or another
// device is involved; order within a lane needs none.
func (c *chromeWriter) flows(mo *causeGraph) {
	id := int64(0)
	for i := range mo.evs {
		to := &mo.evs[i]
		for _, cause := range mo.causesOf(i) {
			from := &mo.evs[cause]
			if from.Kind == Exec && to.Kind == Exec && from.Device == to.Device {
				continue
			}
			id++
			kf, kt := from.laneKey(), to.laneKey()
			// An arrow starts inside the slice it belongs to.
			c.open("data", "flow", "s", pid(kf.device), kf.thread(), max(from.Start, from.End-1))
			c.field(`,"id":`, id)
			c.close("}")
			c.open("data", "flow", "f", pid(kt.device), kt.thread(), to.Start)
			c.field(`,"bp":"e","id":`, id)
			c.close("}")
		}
	}
}

// queues writes, for every device, how many tasks had all they needed but their
// turn.
func (c *chromeWriter) queues(mo *causeGraph) {
	type change struct {
		at    time.Duration
		delta int64
	}
	var changes []change
	for d, list := range mo.byDevice() {
		changes = changes[:0]
		for _, i := range list {
			e := &mo.evs[i]
			if ready := mo.ready(int(i)); e.Kind == Exec && ready < e.Start {
				changes = append(changes, change{ready, 1}, change{e.Start, -1})
			}
		}
		slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		var queued int64
		for i, ch := range changes {
			queued += ch.delta
			if i+1 < len(changes) && changes[i+1].at == ch.at {
				continue
			}
			c.open("queued", "queue", "C", pid(machine.DeviceID(d)), 0, ch.at)
			c.field(`,"args":{"tasks":`, queued)
			c.close("}}")
		}
	}
}

// appendText appends a JSON string.
func appendText(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always marshals
	return append(b, quoted...)
}

// appendMicros appends a time in microseconds with three decimals.
func appendMicros(b []byte, t time.Duration) []byte {
	u := uint64(t)
	if t < 0 {
		b, u = append(b, '-'), -u
	}
	b = strconv.AppendUint(b, u/1000, 10)
	u %= 1000
	return append(b, '.', byte('0'+u/100), byte('0'+u/10%10), byte('0'+u%10))
}
