package metrics

import (
	"strconv"
	"strings"
)

// page is text in the format of Prometheus, version 0.0.4.
type page struct {
	text []byte
	name string // of the family that is being written
}

// labels are names and values in turn.
type labels []string

// family begins a family. Its figures follow.
func (p *page) family(name, kind, help string) {
	p.name = name
	p.text = append(p.text, "# HELP "+name+" "+helpEscaper.Replace(help)+"\n# TYPE "+name+" "+kind+"\n"...)
}

var (
	helpEscaper  = strings.NewReplacer("\\", `\\`, "\n", `\n`)
	labelEscaper = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)
)

// add writes a figure of the family.
func (p *page) add(value float64, l ...string) { p.line("", value, l) }

// line writes a figure whose name is the family's with a suffix.
func (p *page) line(suffix string, value float64, l labels) {
	p.text = append(p.text, p.name+suffix...)
	for i := 0; i+1 < len(l); i += 2 {
		before := byte(',')
		if i == 0 {
			before = '{'
		}
		p.text = append(p.text, before)
		p.text = append(p.text, l[i]+`="`+labelEscaper.Replace(strings.ToValidUTF8(l[i+1], "�"))+`"`...)
	}
	if len(l) > 0 {
		p.text = append(p.text, '}')
	}
	p.text = append(p.text, ' ')
	p.text = strconv.AppendFloat(p.text, value, 'g', -1, 64)
	p.text = append(p.text, '\n')
}

// one writes a family of one figure.
func (p *page) one(name, kind, help string, value float64, l ...string) {
	p.family(name, kind, help)
	p.add(value, l...)
}

// fewer is how many buckets of a histogram are written as one: they are 20 % apart, and then twice.
const fewer = 4

// histogram writes a histogram: counts of all durations up to each bound.
func (p *page) histogram(bounds []float64, counts []uint64, sum float64, l ...string) {
	total := uint64(0)
	for i, c := range counts {
		total += c
		if i < len(bounds) && i%fewer == 0 {
			p.line("_bucket", float64(total), append(l[:len(l):len(l)], "le", strconv.FormatFloat(bounds[i], 'g', 6, 64)))
		}
	}
	p.line("_bucket", float64(total), append(l[:len(l):len(l)], "le", "+Inf"))
	p.line("_sum", sum, l)
	p.line("_count", float64(total), l)
}
