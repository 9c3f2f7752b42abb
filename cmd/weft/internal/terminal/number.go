package terminal

import (
	"fmt"
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

func (p plainNumber) Set(s string) error {
	if err := text.Plain(s, p.Type()); err != nil {
		return err
	}
	return p.Value.Set(s)
}
