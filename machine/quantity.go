package machine

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// unit is a suffix of a quantity in a machine file: a decimal power, or a
// binary one for the units of memory that have it.
type unit struct {
	suffix string
	exp    int  // power of ten
	shift  uint // power of two
}

// The units of each quantity, largest decimal first: the order in which Encode
// tries them.
var (
	byteUnits = []unit{
		{"PB", 15, 0}, {"TB", 12, 0}, {"GB", 9, 0}, {"MB", 6, 0}, {"kB", 3, 0}, {"B", 0, 0},
		{"TiB", 0, 40}, {"GiB", 0, 30}, {"MiB", 0, 20}, {"KiB", 0, 10},
	}
	rateUnits = []unit{
		{"TB/s", 12, 0}, {"GB/s", 9, 0}, {"MB/s", 6, 0}, {"kB/s", 3, 0}, {"B/s", 0, 0},
		{"GiB/s", 0, 30}, {"MiB/s", 0, 20},
	}
	flopUnits = []unit{{"PFLOP/s", 15, 0}, {"TFLOP/s", 12, 0}, {"GFLOP/s", 9, 0}, {"MFLOP/s", 6, 0}, {"FLOP/s", 0, 0}}
	intUnits  = []unit{{"POP/s", 15, 0}, {"TOP/s", 12, 0}, {"GOP/s", 9, 0}, {"MOP/s", 6, 0}, {"OP/s", 0, 0}}
	opsUnits  = slices.Concat(flopUnits, intUnits) // people write either
	timeUnits = []unit{{"s", 9, 0}, {"ms", 6, 0}, {"us", 3, 0}, {"ns", 0, 0}, {"µs", 3, 0}}
	wattUnits = []unit{{"kW", 3, 0}, {"W", 0, 0}}
)

// parseQuantity reads a number with a unit, as "8GB" or "15.11 TFLOP/s".
func parseQuantity(s string, units []unit) (float64, error) {
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '-' })
	if end < 0 {
		end = len(s)
	}
	suffix := strings.TrimSpace(s[end:])
	for _, u := range units {
		if u.suffix == suffix {
			// The exponent goes into the text so that the result is the
			// nearest number to what was written, with no second rounding.
			x, err := strconv.ParseFloat(s[:end]+"e"+strconv.Itoa(u.exp), 64)
			if err != nil {
				break
			}
			return x * float64(uint64(1)<<u.shift), nil
		}
	}
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.suffix
	}
	return 0, fmt.Errorf("bad quantity %q; write a number and one of %s", s, strings.Join(names, ", "))
}

// formatQuantity is the inverse of parseQuantity: a short text when one says
// exactly x, else x itself; nil for zero, which files leave out.
func formatQuantity(x float64, units []unit) any {
	if x == 0 {
		return nil
	}
	for _, u := range units {
		scale, _ := strconv.ParseFloat("1e"+strconv.Itoa(u.exp), 64)
		if x < scale || u.shift != 0 {
			continue
		}
		s := strconv.FormatFloat(x/scale, 'g', 9, 64) + u.suffix
		if y, err := parseQuantity(s, units); err == nil && y == x {
			return s
		}
		break
	}
	return x
}

// ParseBytes reads a size: a number with a unit, as "512MiB" or "1.5 GB", or
// just a number of bytes. It is not negative and fits any machine there is.
func ParseBytes(s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 && n <= maxBytes {
		return n, nil
	}
	x, err := parseQuantity(s, byteUnits)
	if err != nil {
		return 0, err
	}
	if !(x >= 0 && x <= maxBytes) {
		return 0, fmt.Errorf("bad size %q; it must be from 0 to %s", s, FormatBytes(maxBytes))
	}
	return int64(math.Round(x)), nil
}

// maxBytes is the largest size that is read: up to it, numbers are exact.
const maxBytes = 1 << 53

// FormatBytes writes a size as ParseBytes reads it, in the largest unit that
// divides it.
func FormatBytes(n int64) string {
	if n == 0 {
		return "0B"
	}
	return fmt.Sprint(formatBytes(n))
}

// formatBytes writes a size in the largest unit that divides it.
func formatBytes(n int64) any {
	if n == 0 {
		return nil
	}
	for _, u := range byteUnits {
		scale := int64(1) << u.shift
		for range u.exp {
			scale *= 10
		}
		if n%scale == 0 && scale > 1 {
			return strconv.FormatInt(n/scale, 10) + u.suffix
		}
	}
	return n
}
