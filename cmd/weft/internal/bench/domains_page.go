package bench

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
)

//go:embed domains.html
var domainsText string

// domainsTemplate is the page of the benchmark, in the style of the suite's.
var domainsTemplate = template.Must(template.Must(pageTemplate.Clone()).New("domains").Parse(domainsText))

// curve is the times of an operation over sizes, on a device and the cpu.
type curve struct {
	crossover
	Width, Height            int
	Left, Right, Top, Bottom float64
	CPU, Path                string
	Points                   []point
	XTicks, YTicks           []tick
}

// writeDomainsPage writes the page of a report.
func writeDomainsPage(w io.Writer, r *domainsReport) error {
	return domainsTemplate.Execute(w, struct {
		*domainsReport
		Curves []curve
	}{r, curves(r)})
}

// curves draws every operation on every device together with the cpu, whose rows come
// first.
func curves(r *domainsReport) (out []curve) {
	for _, c := range r.Crossovers {
		var cpu, device []domainRow
		for _, row := range r.Rows {
			switch {
			case row.Operation != c.Operation || row.Seconds == 0:
			case row.Device == r.Rows[0].Device:
				cpu = append(cpu, row)
			case row.Device == c.Device:
				device = append(device, row)
			}
		}
		out = append(out, drawCurve(c, cpu, device))
	}
	return out
}

func drawCurve(c crossover, cpu, device []domainRow) curve {
	out := curve{
		crossover: c, Width: chartWidth, Height: chartHeight,
		Left: 2 * chartLeft, Right: chartWidth - chartLeft, Top: chartTop, Bottom: chartHeight - chartBottom,
	}
	least, most := math.Inf(1), 0.
	smallest, largest := math.MaxInt, 1
	for _, row := range slices.Concat(cpu, device) {
		least, most = min(least, row.Seconds), max(most, row.Seconds)
		smallest, largest = min(smallest, row.Size), max(largest, row.Size)
	}
	low, high := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	high = max(high, low+1)
	x := func(n int) float64 {
		wide := math.Log(float64(largest) / float64(smallest))
		if wide == 0 {
			return (out.Left + out.Right) / 2
		}
		return out.Left + (out.Right-out.Left)*math.Log(float64(n)/float64(smallest))/wide
	}
	y := func(s float64) float64 { return out.Bottom - (out.Bottom-out.Top)*(math.Log10(s)-low)/(high-low) }
	path := func(rows []domainRow) string {
		var b strings.Builder
		for i, row := range rows {
			step := "L"
			if i == 0 {
				step = "M"
			}
			fmt.Fprintf(&b, "%s%.1f %.1f ", step, x(row.Size), y(row.Seconds))
		}
		return strings.TrimSpace(b.String())
	}
	out.CPU, out.Path = path(cpu), path(device)
	for _, row := range device {
		out.Points = append(out.Points, point{X: x(row.Size), Y: y(row.Seconds),
			Says: fmt.Sprintf("%s of %d on %s: %s; %s", row.Operation, row.Size, row.Device, terminal.Seconds(row.Seconds), row.Verdict)})
	}
	for _, row := range cpu {
		out.XTicks = append(out.XTicks, tick{x(row.Size), terminal.SI(float64(row.Size), "")})
	}
	for e := low; e <= high; e++ {
		out.YTicks = append(out.YTicks, tick{y(math.Pow(10, e)), terminal.Seconds(math.Pow(10, e))})
	}
	return out
}
