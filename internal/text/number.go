package text

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
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

// FormError says what form a number must have. Unlike the errors of ParseWhole and ParseNumber it does not have what
// was written: it follows the name of a flag and its value.
type FormError string

func (e FormError) Error() string { return string(e) }

var (
	// manyForm is a whole number, or several joined by commas.
	manyForm      = regexp.MustCompile(`^[+-]?[0-9]+(,[+-]?[0-9]+)*$`)
	manyOctalForm = regexp.MustCompile(`(^|,)[+-]?0[0-9]`)
)

// Plain refuses a value of a flag whose type, as package pflag names it, is a number or a list of them, if it is not in
// decimal digits: functions of the standard library take 010 for 8, 0x10 for 16, and inf for a number. The error is a
// FormError, or strconv.ErrRange by errors.Is.
func Plain(s, kind string) error {
	_, err := ParseNumber(s)
	switch whole := kind != "float64"; {
	case manyOctalForm.MatchString(s):
		return FormError("it must not begin with 0, since some programs read that as octal")
	case whole && strings.HasSuffix(kind, "Slice") && !manyForm.MatchString(s):
		return FormError("it must be whole numbers joined by commas")
	case whole && !manyForm.MatchString(s):
		return FormError("it must be a whole number")
	case !whole && errors.Is(err, strconv.ErrRange):
		return err
	case !whole && err != nil:
		return FormError("it must be a number")
	}
	return nil
}
