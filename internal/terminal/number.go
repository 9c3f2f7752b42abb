package terminal

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft/internal/text"
)

// PlainNumbers has the flags of a set that take a number read it in decimal digits only. Package pflag takes 010 for 8,
// 0x10 for 16, and inf for a number.
func PlainNumbers(f *pflag.FlagSet) {
	f.VisitAll(func(f *pflag.Flag) {
		if kind := fmt.Sprintf("%T", f.Value); strings.HasPrefix(kind, "*pflag.int") || strings.HasPrefix(kind, "*pflag.uint") || kind == "*pflag.float64Value" {
			f.Value = plainNumber{f.Value}
		}
	})
}

// plainNumber is the value of a flag that is looked at before it is read.
type plainNumber struct{ pflag.Value }

// notPlain says what a number must be.
type notPlain struct{ what string }

func (n notPlain) Error() string { return n.what }

var (
	// manyForm is a whole number, or several joined by commas.
	manyForm  = regexp.MustCompile(`^[+-]?[0-9]+(,[+-]?[0-9]+)*$`)
	octalForm = regexp.MustCompile(`(^|,)[+-]?0[0-9]`)
)

func (p plainNumber) Set(s string) error {
	_, err := text.ParseNumber(s)
	switch whole := p.Type() != "float64"; {
	case octalForm.MatchString(s):
		return notPlain{"it must not begin with 0, since some programs read that as octal"}
	case whole && strings.HasSuffix(p.Type(), "Slice") && !manyForm.MatchString(s):
		return notPlain{"it must be whole numbers joined by commas"}
	case whole && !manyForm.MatchString(s):
		return notPlain{"it must be a whole number"}
	case !whole && errors.Is(err, strconv.ErrRange):
		return err
	case !whole && err != nil:
		return notPlain{"it must be a number"}
	}
	return p.Value.Set(s)
}
