package workloads

import (
	"context"
	"errors"
	"math/bits"
	"strconv"
	"strings"

	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk"
	"github.com/weft-run/weft/workload/zk/msm"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// proofs are the workloads of proofs, whose curves and circuits are of module gnark.
var proofs = []catalog.Entry{
	{
		Name: "ntt", Short: "transform elements of a finite field, as proofs need it", Funcs: ntt.Funcs, Flags: nttFlags,
		Growth: catalog.Growth{Flags: []string{"log"}, Power: 16, Most: ntt.MaxLog}, // 21 of 20 are twice the work, as 1.05 to the power 16 is
	},
	{
		Name: "zk", Short: "prove that a circuit has a witness, by Groth16", Funcs: zk.Funcs, Flags: zkFlags,
		Growth: catalog.Growth{Flags: []string{"constraints"}, Power: 1, Most: 1 << 20},
	},
	{
		Name: "msm", Short: "add up multiples of points of an elliptic curve", Funcs: msm.Funcs, Flags: msmFlags,
		Growth: catalog.Growth{Flags: []string{"size"}, Power: 1, Most: 1 << 26},
	},
}

// nttFlags are the flags of ntt.
func nttFlags(f *catalog.Flags) catalog.Order {
	c := ntt.Config{}
	f.IntVar(&c.Log, "log", 20, "elements are two to this power")
	f.Var(powerOfTwo{&c.Log}, "size", "s", "elements, a power of two, as 2^20 or 1048576")
	f.BoolVar(&c.Inverse, "inverse", false, "from values to coefficients")
	f.BoolVar(&c.Coset, "coset", false, "values on a coset of the roots of unity")
	f.Uint32Var(&c.Seed, "seed", 1, "what the elements are drawn from")
	return catalog.OrderOf(&c, ntt.New)
}

// msmFlags are the flags of msm.
func msmFlags(f *catalog.Flags) catalog.Order {
	c := msm.Config{Size: 1 << 16}
	f.StringVar(&c.Group, "group", "g1", "group of BN254 that points are of, g1 or g2")
	f.Var((*power)(&c.Size), "size", "", "points, as 65536 or 2^16")
	f.Uint64Var(&c.Seed, "seed", 1, "what points and scalars are drawn from")
	f.BoolVar(&c.Resident, "resident", false, "let points stay on devices from run to run, as a key's do")
	o := catalog.OrderOf(&c, msm.New)
	o.Outline = func(context.Context) (workload.Job, error) { return msm.Outline(c) }
	return o
}

// zkFlags are the flags of zk.
func zkFlags(f *catalog.Flags) catalog.Order {
	c := zk.Config{}
	f.StringVar(&c.Circuit, "circuit", zk.Chain, "mimc (a chain of hashes), range (64-bit numbers) or merkle (leaves of a tree)")
	f.IntVar(&c.Constraints, "constraints", 1<<14, "constraints, about; keys for them are made first")
	f.BoolVar(&c.VerifyEach, "verify-each", false, "have gnark verify every proof, not the last one only")
	f.Uint64Var(&c.Seed, "seed", 1, "what the witness is drawn from")
	return catalog.Order{
		Bytes:   func() float64 { return c.Bytes() },
		Check:   func() error { return c.Validate() },
		Build:   func(ctx context.Context) (workload.Job, error) { return zk.New(ctx, c) },
		Outline: func(context.Context) (workload.Job, error) { return zk.Outline(c) },
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

// powerOfTwo is a flag that sets the log of a number.
type powerOfTwo struct{ log *int }

func (p powerOfTwo) Set(v string) error {
	if power, ok := strings.CutPrefix(v, "2^"); ok {
		log, err := strconv.Atoi(power)
		if err != nil || log < 0 {
			return errors.New("it must be 2^ and a whole number, as 2^20")
		}
		*p.log = log
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil || bits.OnesCount64(n) != 1 {
		return errors.New("it must be a power of two, as 2^20 or 1048576")
	}
	*p.log = bits.Len64(n) - 1
	return nil
}

func (p powerOfTwo) String() string { return "" } // the flag of the log says what it is
func (p powerOfTwo) Type() string   { return "number" }

// Served returns the workloads of proofs as a server takes them.
func Served() (out []serve.Workload) {
	for _, w := range proofs {
		out = append(out, serve.Workload{Name: w.Name, Does: w.Short, New: func() serve.Order {
			flags, order := w.Order()
			o := serve.Order{Bytes: order.Bytes, Check: order.Check, Make: order.Build}
			for _, f := range flags.All() {
				o.Parameters = append(o.Parameters, serve.Parameter{Name: f.Name, Usage: f.Usage, Value: f})
			}
			return o
		}})
	}
	return out
}
