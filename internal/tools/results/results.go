// Command results writes bench/RESULTS.md and bench/history.svg from
// bench/history.csv, where every figure that weft claims is a row. Run it from the
// root of the repository after a row was added; its test fails when that was
// forgotten.
package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"html"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// figure is a row of history.csv.
type figure struct {
	date, machine, commit, what, command string
	value                                float64
	unit, bar, peer                      string
}

// machines are the kinds of machine there are figures of, in the order they are
// shown. Figures of two kinds do not compare.
var machines = []struct{ name, about string }{
	{"2 cores", "2 × Intel Xeon with AVX-512, a virtual machine on a shared host; Go 1.26.8. Runs of one binary differ by up to 40 % within minutes."},
	{"lavapipe", "Vulkan on the CPU: llvmpipe (LLVM 15.0.6, 256 bits) of mesa 22.3.6 on the 2 cores above."},
	{"16 cores", "16 × Intel Xeon with AVX-512, threads of cores shared with others; Go 1.26.8."},
	{"H200", "one NVIDIA H200 (700 W, driver 580.159.04) in a virtual machine with 16 cores; PyTorch 2.11.0+cu130; Go 1.26.8, CGO_ENABLED=0; the GPU in a worker process."},
}

func main() {
	log.SetFlags(0)
	if err := write("bench"); err != nil {
		log.Fatal("results: ", err)
	}
}

// write makes the files in a folder again.
func write(dir string) error {
	figures, err := read(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "RESULTS.md"), table(figures), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "history.svg"), plot(figures), 0o666)
}

func read(dir string) ([]figure, error) {
	f, err := os.Open(filepath.Join(dir, "history.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(f)
}

// parse reads the rows and checks what a program can.
func parse(r io.Reader) ([]figure, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	const head = "date,machine,commit,what,command,figure,unit,bar,peer"
	if len(lines) == 0 || strings.Join(lines[0], ",") != head {
		return nil, fmt.Errorf("line 1: the columns are %s", head)
	}
	var out []figure
	for i, l := range lines[1:] {
		f := figure{date: l[0], machine: l[1], commit: l[2], what: l[3], command: l[4], unit: l[6], bar: l[7], peer: l[8]}
		if f.value, err = strconv.ParseFloat(l[5], 64); err != nil {
			return nil, fmt.Errorf("line %d: figure %q is not a number", i+2, l[5])
		}
		if !slices.ContainsFunc(machines, func(m struct{ name, about string }) bool { return m.name == f.machine }) {
			return nil, fmt.Errorf("line %d: machine %q is not described in internal/tools/results", i+2, f.machine)
		}
		if f.commit == "" || f.what == "" || f.command == "" || f.date == "" {
			return nil, fmt.Errorf("line %d: date, commit, what or command is missing", i+2)
		}
		if _, err := f.reached(); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// reached reports whether the bar is reached; what has none reaches it.
func (f *figure) reached() (bool, error) {
	if f.bar == "" {
		return true, nil
	}
	sign, number, _ := strings.Cut(f.bar, " ")
	bar, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false, fmt.Errorf("bar %q: want a sign and a number, as in ≤ 0.5", f.bar)
	}
	switch sign {
	case "≤":
		return f.value <= bar, nil
	case "<":
		return f.value < bar, nil
	case "≥":
		return f.value >= bar, nil
	case "=":
		return f.value == bar, nil
	}
	return false, fmt.Errorf("bar %q: the sign is ≤, <, ≥ or =", f.bar)
}

// series are the figures of one thing on one machine, oldest first.
func series(figures []figure, machine string) [][]figure {
	var out [][]figure
	at := make(map[string]int)
	for _, f := range figures {
		if f.machine != machine {
			continue
		}
		i, ok := at[f.what]
		if !ok {
			i = len(out)
			at[f.what] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], f)
	}
	return out
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// table is RESULTS.md: of every series the newest figure.
func table(figures []figure) []byte {
	var b bytes.Buffer
	b.WriteString("# Results\n\nThe newest figure of everything that is measured, by kind of machine. A figure in bold is\nshort of its bar. All figures are in [history.csv](history.csv), drawn in\n[history.svg](history.svg); [README.md](README.md) says how each is made. Written by\n`go run ./internal/tools/results`.\n")
	for _, m := range machines {
		all := series(figures, m.name)
		if len(all) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| what | figure | bar | peer | commit | command |\n|---|---|---|---|---|---|\n", m.name, m.about)
		for _, s := range all {
			f := s[len(s)-1]
			value := number(f.value) + " " + f.unit
			if ok, _ := f.reached(); !ok {
				value = "**" + value + "**"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | `%s` |\n", f.what, value, f.bar, f.peer, f.commit, strings.ReplaceAll(f.command, "|", `\|`))
		}
	}
	return b.Bytes()
}

// plot draws each series that has at least two figures, from zero to its largest
// figure, with its bar as a dashed line.
func plot(figures []figure) []byte {
	const width, height, columns = 300, 90, 4
	var cells [][]figure
	for _, m := range machines {
		for _, s := range series(figures, m.name) {
			if len(s) > 1 {
				cells = append(cells, s)
			}
		}
	}
	var b bytes.Buffer
	rows := (len(cells) + columns - 1) / columns
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="10">`+"\n", columns*width, rows*height)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, s := range cells {
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`, i%columns*width, i/columns*height)
		cell(&b, s, width, height)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// cell draws one series.
func cell(b *bytes.Buffer, s []figure, width, height float64) {
	last := s[len(s)-1]
	_, text, _ := strings.Cut(last.bar, " ")
	bar, _ := strconv.ParseFloat(text, 64)
	top := bar
	for _, f := range s {
		top = max(top, f.value)
	}
	x := func(i int) float64 { return 10 + float64(i)*(width-80)/float64(len(s)-1) }
	y := func(v float64) float64 { return height - 12 - v/max(top, 1e-300)*(height-40) }
	fmt.Fprintf(b, `<text x="8" y="14"><title>%s</title>%s: %s</text>`, html.EscapeString(last.command), last.machine, html.EscapeString(shorten(last.what, 44)))
	if bar > 0 {
		fmt.Fprintf(b, `<line x1="10" x2="%.0f" y1="%.1f" y2="%.1f" stroke="#999" stroke-dasharray="3"/>`, x(len(s)-1), y(bar), y(bar))
	}
	b.WriteString(`<polyline fill="none" stroke="#06c" points="`)
	for i, f := range s {
		fmt.Fprintf(b, "%.1f,%.1f ", x(i), y(f.value))
	}
	b.WriteString(`"/>`)
	for i, f := range s {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2" fill="#06c"><title>%s: %s %s</title></circle>`, x(i), y(f.value), f.commit, number(f.value), f.unit)
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s %s</text>`, x(len(s)-1)+5, y(last.value)+3, number(last.value), last.unit)
}

// shorten cuts a text to n characters.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
