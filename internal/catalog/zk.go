package catalog

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk/msm"
)

// msmFlags are the flags of msm.
func msmFlags(f *pflag.FlagSet) Order {
	c := msm.Config{Size: 1 << 16}
	f.StringVar(&c.Group, "group", "g1", "group of BN254 that points are of, g1 or g2")
	f.Var((*power)(&c.Size), "size", "points, as 65536 or 2^16")
	f.Uint64Var(&c.Seed, "seed", 1, "what points and scalars are drawn from")
	f.BoolVar(&c.Resident, "resident", false, "let points stay on devices from run to run, as a key's do")
	o := order(&c, msm.New)
	o.outline = func() (workload.Job, error) { return msm.Outline(c) }
	return o
}

// power is a flag for a size that may be written as a power, as in 2^16.
type power int

func (p *power) Set(v string) error {
	base, exponent, isPower := strings.Cut(v, "^")
	whole, err := text.ParseWhole(base)
	n := int(whole)
	if err == nil && isPower {
		var e int
		if e, err = strconv.Atoi(exponent); err == nil && (n != 2 || e < 0 || e > bits.UintSize-2) {
			err = errors.New("it must be a power of two")
		}
		n = 1 << max(min(e, bits.UintSize-2), 0)
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		return strconv.ErrRange
	case err != nil:
		return errors.New("it must be a whole number, or a power of two as 2^16")
	}
	*p = power(n)
	return nil
}

func (p *power) String() string { return strconv.Itoa(int(*p)) }

// Type is that of other sizes, by which they grow.
func (p *power) Type() string { return "int" }
