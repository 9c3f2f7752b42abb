package bench

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/cmd/weft/internal/pages"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

//go:embed page.html
var pageText string

// pageTemplate is the page of a suite: one file that needs nothing else and runs
// nothing in the browser. Charts are drawn here.
var pageTemplate = pages.New("page", pageText, template.FuncMap{
	"ms":      terminal.Seconds,
	"percent": terminal.Percent,
	"onoff":   terminal.OnOff,
	"size":    text.FormatSize,
	"bps":     func(x float64) string { return terminal.SI(x, "B/s") },
	"of": func(part, whole float64) string {
		if whole == 0 {
			return "–"
		}
		return terminal.Percent(part / whole)
	},
	"fixed": func(digits int, x float64) string { return fmt.Sprintf("%.*f", digits, x) },
	// width is the width of a bar, in percent of its cell.
	"width": func(x, most float64) float64 { return 100 * min(max(x/most, 0), 1) },
})

// page is the data of the template.
type page struct {
	*suiteReport
	Title   string
	Facts   []fact
	Devices []machine.Device
	Charts  []chartGroup
	Notes   []string  // what stands beside figures
	More    []section // benchmarks without a table of their own on the page
	Missing []string  // what was not measured, and why
}

// section is a benchmark as the command prints it.
type section struct{ Title, Text string }

// tabled are the benchmarks that the page has charts or tables for.
var tabled = []string{"strong", "weak", "overhead", "sync", "memory", "balance"}

// sections fills in the page's remarks on benchmarks, in addition to its charts and
// tables.
func (p *page) sections() {
	for _, part := range (&suite{}).parts(p.suiteReport) {
		row := p.part(part.name)
		if part.rows() == 0 {
			if row.Why != "" {
				p.Missing = append(p.Missing, part.name+": "+row.Why)
			}
			continue
		}
		if note := row.note(); note != "" {
			p.Notes = append(p.Notes, part.name+": "+note)
		}
		if !slices.Contains(tabled, part.name) {
			var b strings.Builder
			part.write(&b)
			p.More = append(p.More, section{strings.ToUpper(part.title[:1]) + part.title[1:], b.String()})
		}
	}
}

// fact is a figure at the top of the page.
type fact struct{ Figure, Says string }

// chartGroup is a section of charts.
type chartGroup struct {
	Title, Says string
	Charts      []chart
	Rows        []scalingRow
}

// writePage writes the page of a report.
func writePage(w io.Writer, r *suiteReport) error {
	p := page{suiteReport: r, Title: terminal.Models(r.here), Devices: r.here.Devices, Facts: r.facts()}
	for _, g := range []chartGroup{
		{Title: "Strong scaling", Says: "The same work on more devices: how many times as fast.", Rows: r.Strong},
		{Title: "Weak scaling", Says: "Work that grows with the devices: how many times as much in the same time.", Rows: r.Weak},
	} {
		if g.Charts = charts(g.Rows); len(g.Charts) > 0 {
			p.Charts = append(p.Charts, g)
		}
	}
	p.sections()
	return pageTemplate.Execute(w, p)
}

// FP32 is a device's rate, for the page.
func (p page) FP32(d machine.Device) string { return terminal.SI(d.Rates.Ops[graph.FP32], "FLOP/s") }

// Launch is the time that starting a kernel takes.
func (p page) Launch(d machine.Device) string {
	if d.Rates.LaunchNS == 0 {
		return "–"
	}
	return terminal.Short(time.Duration(d.Rates.LaunchNS))
}

// MachineText is the machine file.
func (p page) MachineText() string { return string(p.Machine) }

// facts are the figures at the top of the page.
func (r *suiteReport) facts() []fact {
	var out []fact
	for _, g := range []struct {
		name string
		rows []scalingRow
	}{{"strong", r.Strong}, {"weak", r.Weak}} {
		most, sum, n := 0, 0.0, 0
		for _, row := range g.rows {
			most = max(most, row.Devices)
		}
		for _, row := range g.rows {
			if row.Devices == most && most > 1 {
				sum, n = sum+row.Efficiency, n+1
			}
		}
		if n > 0 {
			out = append(out, fact{terminal.Percent(sum / float64(n)), fmt.Sprintf("%s-scaling efficiency on %d devices, mean of %s: %s", g.name, most, terminal.Count(n, "workload"), trace.ScalingVerdict(sum/float64(n)))})
		}
	}
	for _, row := range r.Overhead {
		if row.Case == "dag" && !row.Trace {
			out = append(out, fact{fmt.Sprintf("%.2f µs", row.USPerTask), "overhead of a task with three inputs"})
		}
	}
	for _, row := range r.Sync {
		if row.Case == "ping-pong" {
			out = append(out, fact{fmt.Sprintf("%.2f µs", row.USPerRound/2), "for a hop from one device to another"})
			break
		}
	}
	return out
}

// Geometry of a chart, in units of its drawing.
const (
	chartWidth, chartHeight  = 300, 190
	chartLeft, chartRight    = 22, 62
	chartTop, chartBottom    = 12, 24
	chartTicks               = 4
	pointRadius, labelOffset = 4, 9
)

// chart is the speed-up of one workload over the number of devices.
type chart struct {
	Workload, Job       string
	Width, Height       int
	Left, Right         float64 // of the plot
	Top, Bottom         float64
	Ideal, Actual       string // paths
	Points              []point
	XTicks, YTicks      []tick
	Last, LastX, LastY  string // the label of the last point
	Efficiency, Verdict string
	Alone, All          string
}

type point struct {
	X, Y, PredictedY float64
	Says             string
}

type tick struct {
	At   float64
	Text string
}

// charts draws a chart for each workload, whose rows stand together.
func charts(rows []scalingRow) []chart {
	var out []chart
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Workload == rows[0].Workload {
			n++
		}
		out = append(out, draw(rows[:n]))
		rows = rows[n:]
	}
	return out
}

// draw draws the chart of one workload.
func draw(rows []scalingRow) chart {
	most := 1.0
	for _, r := range rows {
		most = max(most, float64(r.Devices), r.Speedup)
	}
	devices := float64(rows[len(rows)-1].Devices)
	c := chart{
		Workload: rows[0].Workload, Job: rows[0].Job, Width: chartWidth, Height: chartHeight,
		Left: chartLeft, Right: chartWidth - chartRight, Top: chartTop, Bottom: chartHeight - chartBottom,
	}
	x := func(n float64) float64 { return c.Left + (c.Right-c.Left)*(n-1)/max(devices-1, 1) }
	y := func(up float64) float64 { return c.Bottom - (c.Bottom-c.Top)*up/most }
	c.Ideal = fmt.Sprintf("M%.1f %.1f L%.1f %.1f", x(1), y(1), x(devices), y(devices))
	var path strings.Builder
	for i, r := range rows {
		at := point{X: x(float64(r.Devices)), Y: y(r.Speedup), PredictedY: -1}
		at.Says = fmt.Sprintf("%s on %s: %s, %.2f times, efficiency %s", r.Workload, terminal.Count(r.Devices, "device"),
			terminal.Seconds(r.Seconds), r.Speedup, terminal.Percent(r.Efficiency))
		if r.Predicted > 0 {
			up := r.Speedup * r.Seconds / r.Predicted // the same work in the predicted time
			at.PredictedY = y(min(up, most))
			at.Says += fmt.Sprintf("; predicted %s", terminal.Seconds(r.Predicted))
		}
		c.Points = append(c.Points, at)
		c.XTicks = append(c.XTicks, tick{at.X, fmt.Sprint(r.Devices)})
		step := "L"
		if i == 0 {
			step = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f ", step, at.X, at.Y)
	}
	c.Actual = strings.TrimSpace(path.String())
	step := 1.0
	for most/step > chartTicks {
		step *= 2
	}
	for up := 0.0; up <= most; up += step {
		c.YTicks = append(c.YTicks, tick{y(up), fmt.Sprintf("%g", up)})
	}
	last := rows[len(rows)-1]
	end := c.Points[len(c.Points)-1]
	c.Last = fmt.Sprintf("%.2f×", last.Speedup)
	c.LastX, c.LastY = fmt.Sprintf("%.1f", end.X+labelOffset), fmt.Sprintf("%.1f", end.Y+pointRadius)
	c.Efficiency, c.Verdict = terminal.Percent(last.Efficiency), last.Verdict
	c.Alone, c.All = terminal.Seconds(rows[0].Seconds), terminal.Seconds(last.Seconds)
	return c
}
