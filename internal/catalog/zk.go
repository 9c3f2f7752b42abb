package catalog

import (
	"context"
	"errors"
	"math/bits"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk"
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
	o.outline = func(context.Context) (workload.Job, error) { return msm.Outline(c) }
	return o
}

// zkFlags are the flags of zk.
func zkFlags(f *pflag.FlagSet) Order {
	c := zk.Config{}
	f.StringVar(&c.Circuit, "circuit", zk.Chain, "mimc (a chain of hashes), range (64-bit numbers) or merkle (leaves of a tree)")
	f.IntVar(&c.Constraints, "constraints", 1<<14, "constraints, about; keys for them are made first")
	f.BoolVar(&c.VerifyEach, "verify-each", false, "have gnark verify every proof, not the last one only")
	f.Uint64Var(&c.Seed, "seed", 1, "what the witness is drawn from")
	return Order{
		bytes:   func() float64 { return c.Bytes() },
		valid:   func() error { return c.Validate() },
		make:    func(ctx context.Context) (workload.Job, error) { return zk.New(ctx, c) },
		outline: func(context.Context) (workload.Job, error) { return zk.Outline(c) },
	}
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
