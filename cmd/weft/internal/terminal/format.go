package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weft-run/weft/internal/text"
)

// Width is the number of columns that help, reports and progress keep to.
const Width = 80

// CheckWidth refuses a --width that no timeline can be drawn in.
func CheckWidth(width int) error {
	if width < 40 || width > 1000 {
		return Usagef("--width %d: it must be from 40 to 1000", width)
	}
	return nil
}

// Wrap breaks s at blanks into lines of at most width columns, as far as its
// words are short enough. Lines after the first are indented by two blanks.
func Wrap(s string, width int) string {
	const indent = "  "
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// OneLine replaces the line breaks of a message, as errors.Join makes them, by
// semicolons, and what would command a terminal as [Printable] does.
func OneLine(s string) string {
	return Printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// Printable replaces characters that would command a terminal, or not show, by question marks:
// text may be of others, such as a server. Line breaks and tabs stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// jsonPrintable escapes those characters in JSON that would command a terminal and need not be
// escaped there: DEL, and those from 80 to 9F. They are in strings only.
func jsonPrintable(b []byte) []byte {
	if !bytes.ContainsFunc(b, func(r rune) bool { return unicode.IsControl(r) && r >= 0x7f }) {
		return b
	}
	var out []byte
	for _, r := range string(b) {
		if unicode.IsControl(r) && r >= 0x7f {
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// SI writes a quantity, as [text.SI] does.
func SI(x float64, unit string) string { return text.SI(x, unit) }

// Percent writes a fraction in percent.
func Percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// Chance writes a probability. Near 1 it has four digits, since 99.99 % and 98 %
// differ as much as 1e-4 and 2e-2 do.
func Chance(p float64) string {
	switch {
	case p <= 0:
		return "none"
	case p < 1e-3:
		return fmt.Sprintf("at most %.0e", p)
	case p > 0.9:
		return fmt.Sprintf("%.4g %%", 100*p)
	}
	return fmt.Sprintf("at most %.2g %%", 100*p)
}

// Count writes a number of things, as [text.Count] does.
func Count(n int, what string) string { return text.Count(n, what) }

// Short writes a duration with three significant digits.
func Short(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= u.size {
			return fmt.Sprintf("%.3g %s", float64(d)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d ns", d)
}

// Seconds writes seconds as [Short] does.
func Seconds(s float64) string { return Short(time.Duration(s * 1e9)) }

// OnOff writes a switch.
func OnOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
