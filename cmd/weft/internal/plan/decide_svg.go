package plan

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// Size of the drawing in pixels, and of its margins.
const (
	svgWidth, svgHeight = 720, 420
	svgLeft, svgRight   = 80, 20
	svgTop, svgBottom   = 40, 60
)

// SVG draws the Pareto front over time and cost, and the rejected options.
func (d *Decision) SVG() []byte {
	shown := append([]Option{d.Best}, d.Front...)
	for _, l := range d.Lost {
		shown = append(shown, l.Option)
	}
	t, c := newAxis(svgLeft, svgWidth-svgRight), newAxis(svgHeight-svgBottom, svgTop)
	for _, o := range shown {
		t.add(o.Seconds90)
		c.add(o.Cost)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="15">%s: time and cost</text>`+"\n", svgLeft, escaped(d.Need.Name))
	for _, v := range t.ticks() {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			t.at(v), svgTop, t.at(v), svgHeight-svgBottom, t.at(v), svgHeight-svgBottom+18, escaped(span(v)))
	}
	for _, v := range c.ticks() {
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">$%s</text>`+"\n",
			svgLeft, c.at(v), svgWidth-svgRight, c.at(v), svgLeft-8, c.at(v)+4, money(v))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">time until the result is here, with the asked confidence</text>`+"\n", (svgLeft+svgWidth)/2, svgHeight-16)
	for i, o := range d.Front {
		if i > 0 { // what is cheaper needs its own time: a step
			last := d.Front[i-1]
			fmt.Fprintf(&b, `<path d="M%.1f %.1f H%.1f V%.1f" fill="none" stroke="#2a6fbb" stroke-width="1.5"/>`+"\n",
				t.at(last.Seconds90), c.at(last.Cost), t.at(o.Seconds90), c.at(o.Cost))
		}
	}
	for _, l := range d.Lost {
		l.Option.dot(&b, t, c, "#999", 3)
	}
	for _, o := range d.Front {
		o.dot(&b, t, c, "#2a6fbb", 4)
	}
	d.Best.dot(&b, t, c, "#c33", 6)
	x, anchor := t.at(d.Best.Seconds90)+10, "start"
	if x > svgWidth/2 {
		x, anchor = x-20, "end"
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#c33">%s</text>`+"\n</svg>\n", x, c.at(d.Best.Cost)-10, anchor, escaped(d.Best.Name))
	return b.Bytes()
}

// dot draws an option, whose name shows when it is pointed at.
func (o *Option) dot(b *bytes.Buffer, t, c *axis, color string, r int) {
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%d" fill="%s"><title>%s: %s, $%s</title></circle>`+"\n",
		t.at(o.Seconds90), c.at(o.Cost), r, color, escaped(o.Name), span(o.Seconds90), money(o.Cost))
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // writing to a buffer does not fail
	return b.String()
}

// axis maps positive values to pixels, by their logarithm.
type axis struct {
	from, to float64 // pixels
	lo, hi   float64 // logarithms to the base of 10
}

func newAxis(from, to float64) *axis { return &axis{from, to, math.Inf(1), math.Inf(-1)} }

// leastShown is the least value that is drawn: what costs nothing is drawn there.
const leastShown = 1e-6

func (a *axis) add(v float64) {
	l := math.Log10(max(v, leastShown))
	a.lo, a.hi = min(a.lo, l-0.1), max(a.hi, l+0.1)
}

func (a *axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*(math.Log10(max(v, leastShown))-a.lo)/(a.hi-a.lo)
}

// ticks are 1, 2 and 5 times the powers of ten within the axis, fewer if there are many.
func (a *axis) ticks() (out []float64) {
	steps := []float64{1, 2, 5}
	if a.hi-a.lo > 3 {
		steps = steps[:1]
	}
	for e := math.Floor(a.lo); e <= a.hi; e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, e); math.Log10(v) >= a.lo && math.Log10(v) <= a.hi {
				out = append(out, v)
			}
		}
	}
	return out
}
