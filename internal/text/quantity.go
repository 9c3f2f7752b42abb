// Package text reads what people write: sizes and other quantities with units,
// durations, JSON whose mistakes have a line, and names that may be misspelt. Every
// file format, option and flag reads them here, so each is written one way
// everywhere.
package text

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Unit is a suffix of numbers; it stands for a power of ten times a power of two.
type Unit struct {
	Suffix string
	Exp    int  // power of ten
	Shift  uint // power of two
}

// The units of each kind of quantity. Formatting takes the first that fits, so
// decimal units come first, the largest of them before the others.
var (
	Bytes = []Unit{
		{"PB", 15, 0}, {"TB", 12, 0}, {"GB", 9, 0}, {"MB", 6, 0}, {"kB", 3, 0}, {"B", 0, 0},
		{"PiB", 0, 50}, {"TiB", 0, 40}, {"GiB", 0, 30}, {"MiB", 0, 20}, {"KiB", 0, 10},
	}
	BytesPerSecond = []Unit{
		{"TB/s", 12, 0}, {"GB/s", 9, 0}, {"MB/s", 6, 0}, {"kB/s", 3, 0}, {"B/s", 0, 0},
		{"TiB/s", 0, 40}, {"GiB/s", 0, 30}, {"MiB/s", 0, 20}, {"KiB/s", 0, 10},
	}
	flops               = []Unit{{"PFLOP/s", 15, 0}, {"TFLOP/s", 12, 0}, {"GFLOP/s", 9, 0}, {"MFLOP/s", 6, 0}, {"FLOP/s", 0, 0}}
	IntegersPerSecond   = []Unit{{"POP/s", 15, 0}, {"TOP/s", 12, 0}, {"GOP/s", 9, 0}, {"MOP/s", 6, 0}, {"OP/s", 0, 0}}
	OperationsPerSecond = slices.Concat(flops, IntegersPerSecond) // of any kind; both are written
	Nanoseconds         = []Unit{{"s", 9, 0}, {"ms", 6, 0}, {"us", 3, 0}, {"ns", 0, 0}, {"µs", 3, 0}}
	Watts               = []Unit{{"kW", 3, 0}, {"W", 0, 0}}
)

// ParseQuantity reads a number with a unit, as "8GB", "64kib" or "15.11 TFLOP/s".
// Letters may be small or capital.
func ParseQuantity(s string, units []Unit) (float64, error) {
	number, suffix := cutNumber(s)
	if octalForm.MatchString(number) {
		return 0, errOctal(s)
	}
	for _, u := range units {
		if !strings.EqualFold(u.Suffix, suffix) {
			continue
		}
		// The power of ten goes into the text, so that the result is rounded
		// once and is the nearest number to what was written.
		mantissa, exp, ok := strings.Cut(strings.ToLower(number), "e")
		e, err := strconv.Atoi(exp)
		if ok && err != nil {
			break
		}
		x, err := strconv.ParseFloat(mantissa+"e"+strconv.Itoa(e+u.Exp), 64)
		if err != nil {
			break
		}
		return x * float64(uint64(1)<<u.Shift), nil
	}
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.Suffix
	}
	return 0, fmt.Errorf("bad quantity %q; write a number and one of %s", s, strings.Join(names, ", "))
}

// cutNumber takes a number off the front of s. No unit begins with an e.
func cutNumber(s string) (number, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("0123456789.+-eE", r) })
	if end < 0 {
		return s, ""
	}
	return s[:end], strings.TrimSpace(s[end:])
}

// FormatQuantity is the inverse of ParseQuantity where a short text says exactly
// x; else ok is false.
func FormatQuantity(x float64, units []Unit) (s string, ok bool) {
	for _, u := range units {
		scale, _ := strconv.ParseFloat("1e"+strconv.Itoa(u.Exp), 64)
		if x < scale || u.Shift != 0 {
			continue
		}
		s := strconv.FormatFloat(x/scale, 'g', 9, 64) + u.Suffix
		y, err := ParseQuantity(s, units)
		return s, err == nil && y == x
	}
	return "", false
}

// maxSize is the largest size that is read: up to it a float64 is exact.
const maxSize = 1 << 53

// ParseSize reads a number of bytes: with a unit, as "512MiB" or "1.5 GB", or
// without, as 4096 or 1e6. It is not negative. A fraction of a byte that a unit
// leaves is rounded, unless it is all there is.
func ParseSize(s string) (int64, error) {
	outside := fmt.Errorf("bad size %q; it must be from 0 to %s", s, FormatSize(maxSize))
	if octalForm.MatchString(s) {
		return 0, errOctal(s)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n < 0 || n > maxSize {
			return 0, outside
		}
		return n, nil
	}
	whole := s
	if _, unit := cutNumber(s); unit == "" {
		whole = s + "B"
	}
	x, err := ParseQuantity(whole, Bytes)
	switch {
	case err != nil:
		return 0, fmt.Errorf("bad size %q; write one such as 64KB, 1.5GiB or 4096", s)
	case !(x >= 0 && x <= maxSize):
		return 0, outside
	case x != math.Trunc(x) && strings.EqualFold(strings.TrimLeft(whole, "0123456789.+-eE "), "B"):
		return 0, fmt.Errorf("bad size %q; it must be a whole number of bytes", s)
	case x > 0 && x < 1: // it would be rounded to nothing, or made more than it is
		return 0, fmt.Errorf("bad size %q; it is less than a byte; write 1 or more", s)
	}
	return int64(math.Round(x)), nil
}

// FormatSize writes a number of bytes as ParseSize reads it, in the largest unit
// that divides it.
func FormatSize(n int64) string {
	if n == 0 {
		return "0B"
	}
	for _, u := range Bytes {
		scale := int64(1) << u.Shift
		for range u.Exp {
			scale *= 10
		}
		if n%scale == 0 && scale > 1 {
			return strconv.FormatInt(n/scale, 10) + u.Suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// ParseDuration reads a duration that is not negative.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("bad duration %q; write one such as 500ms or 2s", s)
	}
	return d, nil
}

// Count writes a number of things, in the plural where they are not one.
func Count[T int | int32 | int64](n T, one string) string {
	switch stem, y := strings.CutSuffix(one, "y"); {
	case n == 1:
	case y && !strings.HasSuffix(stem, "a"): // as in ray
		one = stem + "ies"
	case strings.HasSuffix(one, "s"):
		one += "es"
	default:
		one += "s"
	}
	return fmt.Sprintf("%d %s", n, one)
}

// Rate writes a rate with as many digits as matter: whole from 100 on, and three below.
func Rate(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// SI writes a quantity with the largest decimal prefix that leaves it at least 1,
// and "-" for 0, which stands for unknown.
func SI(x float64, unit string) string {
	if x <= 0 {
		return "-"
	}
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T", "P"} {
		if x < 1000 {
			break
		}
		x, prefix = x/1000, p
	}
	return fmt.Sprintf("%.4g %s%s", x, prefix, unit)
}
