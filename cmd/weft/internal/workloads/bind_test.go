package workloads

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/catalog"
)

// declarer has the methods that pflag.FlagSet and catalog.Flags share.
type declarer interface {
	IntVar(at *int, name string, value int, usage string)
	Uint32Var(at *uint32, name string, value uint32, usage string)
	Uint64Var(at *uint64, name string, value uint64, usage string)
	Float64Var(at *float64, name string, value float64, usage string)
	BoolVar(at *bool, name string, value bool, usage string)
	StringVar(at *string, name, value, usage string)
}

// values are what flags of each type write to.
type values struct {
	zero, int int
	uint32    uint32
	uint64    uint64
	float64   float64
	off, on   bool
	none      string
	string    string
}

func (v *values) declare(f declarer) {
	f.IntVar(&v.zero, "zero", 0, "an int that is 0")
	f.IntVar(&v.int, "int", 1<<20, "an int, or a `word` of its own")
	f.Uint32Var(&v.uint32, "uint32", 1, "a uint32")
	f.Uint64Var(&v.uint64, "uint64", 1, "a uint64")
	f.Float64Var(&v.float64, "float64", 1e7, "a float64")
	f.BoolVar(&v.off, "off", false, "a bool that is false")
	f.BoolVar(&v.on, "on", true, "a bool that is true")
	f.StringVar(&v.none, "none", "", "an empty string")
	f.StringVar(&v.string, "string", "x y", "a string")
}

// Flags of a workload have the help, the values and the errors that flags of package pflag have.
func TestBind(t *testing.T) {
	var want, got values
	native, bound, flags := &cobra.Command{Use: "x"}, &cobra.Command{Use: "x"}, &catalog.Flags{}
	want.declare(native.Flags())
	got.declare(flags)
	Bind(bound.Flags(), flags)
	for _, c := range []*cobra.Command{native, bound} {
		terminal.PlainNumbers(c.Flags())
		terminal.TakeOnOff(c.Flags())
	}
	if got != want {
		t.Errorf("before anything is set: %+v, want %+v", got, want)
	}
	if a, b := bound.Flags().FlagUsagesWrapped(80), native.Flags().FlagUsagesWrapped(80); a != b {
		t.Errorf("help is\n%s\nand of package pflag\n%s", a, b)
	}
	texts := []string{"7", "+7", "-7", "-0", "00", "007", "0x10", "1_000", "1e3", "1e400", "1.5", ".5", "1,2", "", " 1", "x", "on", "off", "true", "T", "inf", "NaN", "4294967296", "99999999999999999999"}
	for _, values := range odd {
		texts = append(texts, values...)
	}
	well := 0
	native.Flags().VisitAll(func(f *pflag.Flag) {
		if c := bound.Flags().Changed(f.Name); c || flags.Changed(f.Name) {
			t.Errorf("--%s is said to be set", f.Name)
		}
		args := []string{"--" + f.Name}
		for _, s := range texts {
			args = append(args, "--"+f.Name+"="+s)
		}
		for _, arg := range args {
			says := func(c *cobra.Command) string {
				if err := c.ParseFlags([]string{arg}); err != nil {
					return terminal.FlagError(c, err).Error()
				}
				return ""
			}
			before := got
			wanted, said := says(native), says(bound)
			if wanted != "" { // package pflag writes a part of some values that it refuses
				want = before
			}
			if said != wanted || got != want {
				t.Errorf("%s: %q and %+v, want %q and %+v", arg, said, got, wanted, want)
			}
			if said == "" {
				well++
			} else if strings.Contains(said, "strconv") {
				t.Errorf("%s: %s", arg, said)
			}
			if g := flags.Lookup(f.Name); g.String() != f.Value.String() || g.Type() != f.Value.Type() || g.Default != f.DefValue || g.Changed != bound.Flags().Changed(f.Name) {
				t.Errorf("%s: the flag is %+v, want %+v", arg, g, f)
			}
		}
	})
	if well < 100 {
		t.Errorf("%d values were taken", well)
	}
}
