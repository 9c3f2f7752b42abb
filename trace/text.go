package trace

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weft-run/weft/machine"
)

const (
	// timelineRows is the most devices that get a row of their own.
	timelineRows = 32
	// pathRows is the most steps of the critical path that are printed.
	pathRows = 12
	// nameColumns is the width of the column of device names, in characters.
	nameColumns = 16
)

// stateChars draw a device's states in a timeline.
var stateChars = [numStates]byte{idle: '.', waiting: '-', dispatch: ',', copying: '=', computing: '#', lost: 'x'}

// WriteTimeline draws what the devices did over time in at most width columns
// (at least 40): a row for each of the first 32 devices with its utilisation,
// and a line about the rest. Each column shows what the device did most of that
// column's time.
func WriteTimeline(w io.Writer, m *machine.Machine, evs []Event, width int) error {
	mo := newCauseGraph(m, evs, nil)
	width = max(width, 40)
	shown := min(len(m.Devices), timelineRows)
	names := 0
	for d := range shown {
		names = max(names, utf8.RuneCountInString(clip(deviceName(m, machine.DeviceID(d)), nameColumns)))
	}
	columns := width - names - len("  100 %") - 1

	b := bufio.NewWriter(w)
	if mo.makespan() <= 0 || shown == 0 {
		fmt.Fprintln(b, "nothing ran")
		return b.Flush()
	}
	fmt.Fprintf(b, "%-*s %s\n", names, "", scale(mo.makespan(), columns))
	var buf []edge
	lists := mo.byDevice()
	rest := make([]float64, 0, len(m.Devices)-shown)
	for d := range m.Devices {
		cells := make([][numStates]float64, columns)
		var computed time.Duration
		buf = mo.segments(d, lists[d], buf, func(s state, from, to time.Duration) {
			if s == computing {
				computed += to - from
			}
			if d < shown {
				mo.paint(cells, s, from, to)
			}
		})
		util := ratio(computed, mo.available(d, mo.makespan()))
		if d >= shown {
			rest = append(rest, util)
			continue
		}
		bar := make([]byte, columns)
		for c := range cells {
			most := idle
			for s := range cells[c] {
				if cells[c][s] > cells[c][most] {
					most = state(s)
				}
			}
			bar[c] = stateChars[most]
		}
		fmt.Fprintf(b, "%-*s %s  %3.0f %%\n", names, clip(deviceName(m, machine.DeviceID(d)), names), bar, 100*util)
	}
	if len(rest) > 0 {
		low, high, sum := rest[0], rest[0], 0.0
		for _, u := range rest {
			low, high, sum = min(low, u), max(high, u), sum+u
		}
		fmt.Fprintf(b, "%s more: mean %.0f %%, from %.0f %% to %.0f %%\n",
			count(len(rest), "device"), 100*sum/float64(len(rest)), 100*low, 100*high)
	}
	fmt.Fprintln(b, "# compute  = copy  - wait for inputs  , dispatch  . idle  x lost")
	return b.Flush()
}

// paint adds a stretch of time to the columns it covers, in parts of a column.
func (mo *causeGraph) paint(cells [][numStates]float64, s state, from, to time.Duration) {
	per := float64(mo.makespan()) / float64(len(cells))
	lo, hi := float64(from-mo.begin)/per, float64(to-mo.begin)/per
	for c := int(lo); c < len(cells) && float64(c) < hi; c++ {
		cells[c][s] += min(hi, float64(c+1)) - max(lo, float64(c))
	}
}

// scale is a line of the given width with times at its start, middle and end.
func scale(span time.Duration, width int) string {
	middle, end := short(span/2), short(span)
	line := []rune("0" + strings.Repeat(" ", width-1))
	copy(line[(width-utf8.RuneCountInString(middle))/2:], []rune(middle))
	copy(line[width-utf8.RuneCountInString(end):], []rune(end))
	return string(line)
}

// WriteAnalysis prints an analysis: the verdict, where the time went, the
// critical path, what would help, and a line for each of the first 32 devices.
func WriteAnalysis(w io.Writer, a Analysis) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, a.Sentence)
	if a.Makespan > 0 && len(a.Devices) > 0 {
		a.writeTotals(b)
		a.writeShares(b)
		a.writePath(b)
		a.writeFixes(b)
		a.writeDevices(b)
	}
	return b.Flush()
}

func (a *Analysis) writeTotals(b *bufio.Writer) {
	fmt.Fprintf(b, "\n%s on %s: %s", short(a.Makespan), count(len(a.Devices), "device"), count(a.Tasks, "task"))
	if a.Copies > 0 {
		fmt.Fprintf(b, ", %s of %s", plural(a.Copies, "copy", "copies"), size(a.Bytes))
	}
	if a.Failed > 0 {
		fmt.Fprintf(b, ", %s", count(a.Failed, "failed execution"))
	}
	if a.Repeated > 0 {
		fmt.Fprintf(b, ", %d repeated", a.Repeated)
	}
	fmt.Fprintln(b)
	if a.Missing > 0 {
		fmt.Fprintf(b, "%s not kept: this covers the time after them\n", count(int(a.Missing), "older event"))
	}
}

func (a *Analysis) writeShares(b *bufio.Writer) {
	s := &a.Shares
	fmt.Fprintln(b, "\nwhere device time went")
	for _, row := range []struct {
		what  string
		share float64
	}{
		{"compute", s.Compute},
		{"launch", s.Launch},
		{"wasted by faults", s.Wasted},
		{"copy, not hidden", s.Transfer},
		{"dispatch", s.Dispatch},
		{"wait for inputs", s.Sync},
		{"idle", s.Idle},
	} {
		fmt.Fprintf(b, "  %-17s %7s\n", row.what, percent(row.share))
	}
	fmt.Fprintf(b, "utilisation %s, deviation %s, imbalance %s\n", percent(a.Mean), percent(a.StdDev), percent(a.Imbalance))
	fmt.Fprintf(b, "tasks queued behind others for %s of their time\n", percent(a.Queueing))
}

func (a *Analysis) writePath(b *bufio.Writer) {
	fmt.Fprintf(b, "\ncritical path %s, %s of the time\n", short(a.PathLength), percent(ratio(a.PathLength, a.Makespan)))
	for i, e := range a.Path {
		if i == pathRows {
			fmt.Fprintf(b, "  and %s more\n", count(len(a.Path)-i, "step"))
			break
		}
		what, where := printable(a.Names.task(e.Run, e.Task)), printable(deviceName(a.Machine, e.Device))
		if e.Kind == Copy {
			what = "copy of " + size(e.Bytes)
			where = printable(deviceName(a.Machine, e.From)) + " to " + where
		}
		fmt.Fprintf(b, "  %9s  %s, %s\n", short(e.End-e.Start), what, where)
	}
}

func (a *Analysis) writeFixes(b *bufio.Writer) {
	if len(a.Fixes) > 0 {
		fmt.Fprintln(b, "\nwhat would help")
	}
	for _, f := range a.Fixes {
		bound := ""
		if f.Bounded {
			bound = " (bounded by the critical path)"
		}
		fmt.Fprintf(b, "  %7s  %s, %s%s\n", "-"+percent(f.Gain), f.What, short(f.Makespan), bound)
	}
}

func (a *Analysis) writeDevices(b *bufio.Writer) {
	fmt.Fprintf(b, "\n%-*s %7s %7s %7s %7s %7s %7s %7s\n", nameColumns, "device", "busy", "lanes", "copy", "wait", "idle", "tasks", "failed")
	for i := range a.Devices {
		if i == timelineRows {
			fmt.Fprintf(b, "and %s more\n", count(len(a.Devices)-i, "device"))
			break
		}
		d := &a.Devices[i]
		fmt.Fprintf(b, "%-*s %7s %7s %7s %7s %7s %7d %7d", nameColumns, clip(d.Name, nameColumns),
			percent(d.Utilisation()), percent(d.Occupancy()), percent(ratio(d.Transfer, d.Available)), percent(ratio(d.Sync+d.Dispatch, d.Available)),
			percent(ratio(d.Idle, d.Available)), d.Tasks, d.Failed)
		if d.Available < a.Makespan {
			fmt.Fprintf(b, "  lost for %s", short(a.Makespan-d.Available))
		}
		fmt.Fprintln(b)
	}
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func count(n int, what string) string { return plural(n, what, what+"s") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// short writes a duration with three significant digits.
func short(d time.Duration) string {
	unit, name := time.Nanosecond, "ns"
	switch {
	case d >= time.Second:
		unit, name = time.Second, "s"
	case d >= time.Millisecond:
		unit, name = time.Millisecond, "ms"
	case d >= time.Microsecond:
		unit, name = time.Microsecond, "µs"
	}
	return significant(float64(d)/float64(unit)) + " " + name
}

// size writes a number of bytes with three significant digits.
func size(bytes int64) string {
	x, i := float64(bytes), 0
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	for x >= 1024 && i < len(units)-1 {
		x, i = x/1024, i+1
	}
	return significant(x) + " " + units[i]
}

func significant(x float64) string {
	digits := 0
	switch {
	case x < 10:
		digits = 2
	case x < 100:
		digits = 1
	}
	s := fmt.Sprintf("%.*f", digits, x)
	if digits > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// printable keeps text from a file from moving the terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// clip makes a printable name of at most n characters.
func clip(s string, n int) string {
	r := []rune(printable(s))
	if len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return string(r)
}
