package workloads

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/host"
)

// odd are values that some flag or other may not have.
var odd = map[string][]string{
	"int":     {"0", "-1", "1", "2", "3", "63", "65", "4097", "1048577", "268435457", "9223372036854775807"},
	"uint32":  {"0", "4294967295"},
	"uint64":  {"0", "18446744073709551615"},
	"float64": {"0", "-1", "1", "0.5", "1e-300", "1e300", "NaN", "Inf", "-Inf"},
	"bool":    {"true", "false"},
	"string": {
		"", "none", "product", "g2", "max", "dup", "data", "hybrid", "rows", "neurons", "histogram", "eager", "periodic 1s", "adaptive", "layers",
		"medoids", "light", "boosts", "curves", "schubert", "3,1 2", "range", "glider", "B36/S23", "anm", "x*y", "expression", "last", "karate", "A,B",
	},
	"number": {"2^3", "2^40", "7"},
}

// What Job refuses Validate has refused before it, in the same words, whatever the flags are and beside which others:
// nothing of a job is wrong only when it is made. What takes more memory than the machine has is refused too.
func TestValidate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	refused, made := 0, 0
	for _, w := range list {
		for _, base := range variantsOf(t, w) {
			for range 40 {
				f := pflag.NewFlagSet(w.Name, pflag.ContinueOnError)
				o := Flags(f, w)
				if err := f.Parse(strings.Fields(base)); err != nil {
					t.Fatal(err)
				}
				args := draw(r, f)
				err := o.Validate()
				if errors.Is(err, host.ErrMemory) || err == nil && o.Bytes() > 1<<22 {
					continue // it would be made for too long
				}
				_, failed := o.Build(t.Context())
				switch {
				case err == nil && failed == nil:
					made++
				case failed == nil:
					t.Errorf("%s %s%s: it is refused with %q and can be made", w.Name, base, args, err)
				case ofContents(failed):
				case err == nil || err.Error() != failed.Error():
					t.Errorf("%s %s%s: it is judged with %v and fails with %v", w.Name, base, args, err, failed)
				default:
					refused++
				}
			}
		}
	}
	if refused < 300 || made < 300 {
		t.Errorf("%d were refused and %d made", refused, made)
	}
	large := catalog.Order{Check: func() error { return nil }, Bytes: func() float64 { return 1e30 }}
	if err := large.Validate(); !errors.Is(err, host.ErrMemory) {
		t.Errorf("a job of 1e30 bytes: %v", err)
	}
}

// draw sets one to three flags to odd values, and returns them.
func draw(r *rand.Rand, f *pflag.FlagSet) (args string) {
	var all []*pflag.Flag
	f.VisitAll(func(g *pflag.Flag) { all = append(all, g) })
	for range 1 + r.IntN(3) {
		g := all[r.IntN(len(all))]
		values := odd[g.Value.Type()]
		if v := values[r.IntN(len(values))]; f.Set(g.Name, v) == nil {
			args += " --" + g.Name + "='" + v + "'"
		}
	}
	return args
}

// ofContents reports whether an error is about what is seen only when a structure or a graph was read or drawn.
func ofContents(err error) bool {
	for _, of := range []string{"no such file", "no C-alpha atom", "falls into", "have no cycle"} {
		if strings.Contains(err.Error(), of) {
			return true
		}
	}
	return false
}
