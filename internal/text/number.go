package text

import (
	"fmt"
	"regexp"
	"strconv"
)

var (
	wholeForm    = regexp.MustCompile(`^[+-]?[0-9]+$`)
	numberForm   = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	octalForm    = regexp.MustCompile(`^[+-]?0[0-9]`)
	fractionForm = regexp.MustCompile(`^[+-]?[0-9]*\.[0-9]*([eE][+-]?[0-9]+)?$`)
)

// ParseWhole reads a whole number as people write it, in decimal digits. Fractions are refused and not cut
// off, and so are forms whose value depends on the program that reads them: 010, 0x10 and 1_000. The error
// has what was written.
func ParseWhole(s string) (int64, error) {
	switch {
	case octalForm.MatchString(s):
		return 0, errOctal(s)
	case fractionForm.MatchString(s):
		return 0, fmt.Errorf("%q has a decimal point; write a whole number", s)
	case !wholeForm.MatchString(s):
		return 0, fmt.Errorf("%q is not a whole number; write one in decimal digits, as 10", s)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errLarge(s)
	}
	return n, nil
}

// ParseNumber reads a number as people write it, in decimal digits and perhaps with an exponent. NaN, infinity and
// what overflows are refused, as are the forms that ParseWhole refuses. The error has what was written.
func ParseNumber(s string) (float64, error) {
	switch {
	case octalForm.MatchString(s):
		return 0, errOctal(s)
	case !numberForm.MatchString(s):
		return 0, fmt.Errorf("%q is not a number; write one in decimal digits, as 0.5", s)
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, errLarge(s)
	}
	return x, nil
}

// errLarge keeps what errors.Is knows of it.
func errLarge(s string) error {
	return &rangeError{fmt.Sprintf("%q is too large or too small a number", s)}
}

type rangeError struct{ text string }

func (e *rangeError) Error() string        { return e.text }
func (e *rangeError) Is(target error) bool { return target == strconv.ErrRange }

func errOctal(s string) error {
	return fmt.Errorf("%q begins with 0, and some programs read that as octal; write it without that zero", s)
}
