package terminal

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// state is a switch as the runtime has them, which takes a value.
type state string

func (s *state) String() string     { return string(*s) }
func (s *state) Type() string       { return SwitchType }
func (s *state) Set(v string) error { *s = state(v); return nil }

// tree has a command below another, with a switch of each kind, a flag with a value, and what it was given.
func tree() (root *cobra.Command, isolate *state, check *bool, got *[]string) {
	isolate, check, got = new(state), new(bool), new([]string)
	root = &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true}
	run := &cobra.Command{Use: "run"}
	run.PersistentFlags().VarPF(isolate, "isolate", "", "")
	run.PersistentFlags().String("config", "", "")
	work := &cobra.Command{Use: "work", RunE: func(_ *cobra.Command, args []string) error { *got = args; return nil }}
	work.Flags().BoolVar(check, "check", true, "")
	work.Flags().IntP("repeat", "r", 1, "")
	TakeOnOff(work.Flags())
	other := &cobra.Command{Use: "other", RunE: func(*cobra.Command, []string) error { return nil }}
	other.Flags().String("check", "", "") // no switch here
	run.AddCommand(work, other)
	root.AddCommand(run)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root, isolate, check, got
}

// Every way to write a switch works, for both kinds, before and behind the command it belongs to, and a word
// that is not the value of a switch stays an argument.
func TestSwitches(t *testing.T) {
	for _, c := range []struct {
		line    string
		isolate state
		check   bool
		args    string
	}{
		{"run work", "", true, ""},
		{"run work --isolate", "on", true, ""},
		{"run work --isolate on", "on", true, ""},
		{"run work --isolate=on", "on", true, ""},
		{"run work --isolate off", "off", true, ""},
		{"run work --isolate=off", "off", true, ""},
		{"run work --isolate OFF", "OFF", true, ""},
		{"run work --isolate true", "true", true, ""},
		{"run --isolate work", "on", true, ""},
		{"run --isolate on work", "on", true, ""},
		{"run --isolate off work --check off", "off", false, ""},
		{"run --isolate=off work --check=false", "off", false, ""},
		{"run work --check", "", true, ""},
		{"run work --check on", "", true, ""},
		{"run work --check off", "", false, ""},
		{"run work --check=off", "", false, ""},
		{"run work --check false", "", false, ""},
		{"run work --check=FALSE", "", false, ""},
		{"run work --check off --isolate", "on", false, ""},
		{"run work --isolate --check off -r 3", "on", false, ""},
		{"run work --isolate off file", "off", true, "file"},
		{"run work --isolate file", "on", true, "file"},
		{"run work file --isolate", "on", true, "file"},
		{"run work --isolate -- off", "on", true, "off"},
		{"run work -- --isolate", "", true, "--isolate"},
		{"run --config other work --check off", "", false, ""}, // the value of a flag is no command
		{"run --config=other work --check off", "", false, ""},
		{"run work --repeat 2 on", "", true, "on"},
		{"run other --check off", "", true, ""}, // a flag with a value
	} {
		root, isolate, check, got := tree()
		root.SetArgs(Switches(root, strings.Fields(c.line)))
		err := root.Execute()
		if args := strings.Join(*got, " "); err != nil || *isolate != c.isolate || *check != c.check || args != c.args {
			t.Errorf("%s: isolate %q, check %v, arguments %q, %v; want %q, %v, %q", c.line, *isolate, *check, args, err, c.isolate, c.check, c.args)
		}
	}
	for _, line := range []string{"run work --check=perhaps", "run work --check=1", "run work --check="} {
		root, _, _, _ := tree()
		root.SetArgs(Switches(root, strings.Fields(line)))
		if err := root.Execute(); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
}

// What the shell asks to complete is left alone: the word after a switch is not written yet.
func TestSwitchesOfCompletion(t *testing.T) {
	root, _, _, _ := tree()
	for _, c := range []struct{ args, want []string }{
		{[]string{"__complete", "run", "work", "--isolate", ""}, nil},
		{[]string{"__complete", "run", "work", "--isolate", "o"}, nil},
		{[]string{"__complete", "run", "work", "--isolate", "off"}, nil},
		{[]string{"__complete", "run", "work", "--iso"}, nil},
		{[]string{"__complete", "run", "--isolate", "work", ""}, []string{"__complete", "run", "--isolate=on", "work", ""}},
	} {
		want := c.want
		if want == nil {
			want = c.args
		}
		if got := Switches(root, c.args); !slices.Equal(got, want) {
			t.Errorf("%q became %q, want %q", c.args, got, want)
		}
	}
}
