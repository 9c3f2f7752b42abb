package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// switchWords are what may stand after a switch, and whether it is on by them.
var switchWords = map[string]bool{"on": true, "true": true, "off": false, "false": false}

// isSwitch reports whether a flag is on or off.
func isSwitch(f *pflag.Flag) bool { return f.Value.Type() == SwitchType || f.Value.Type() == "bool" }

// Switches returns the arguments of a command line with every switch written as --name=value, as package
// pflag reads it: --isolate, --isolate on and --isolate=on are one. Pflag takes the word after a flag either
// always or never. A word after a switch is its value only if it is on, off, true or false.
func Switches(root *cobra.Command, args []string) []string {
	var out []string
	c, end := root, len(args)
	if len(args) > 1 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		out, args = append(out, args[0]), args[1:]
		end = len(args) - 1 // the last is not written yet
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, flagged := strings.CutPrefix(arg, "--")
		switch {
		case i >= end || arg == "--":
			return append(out, args[i:]...)
		case !strings.HasPrefix(arg, "-"):
			if at := slices.IndexFunc(c.Commands(), func(below *cobra.Command) bool { return below.Name() == arg }); at >= 0 {
				c = c.Commands()[at]
			}
		case flagged && !strings.Contains(name, "="):
			f := c.Flag(name)
			if f == nil {
				f = c.InheritedFlags().Lookup(name)
			}
			next := ""
			if i+1 < len(args) {
				next = args[i+1]
			}
			_, word := switchWords[strings.ToLower(next)]
			switch {
			case f == nil:
			case isSwitch(f) && word && i+1 < end:
				arg += "=" + next
				i++
			case isSwitch(f) && i+1 < end, isSwitch(f) && end == len(args):
				arg += "=on"
			case !isSwitch(f) && f.NoOptDefVal == "" && i+1 < end:
				out = append(out, arg) // with its value, which is no command
				i++
				arg = args[i]
			}
		}
		out = append(out, arg)
	}
	return out
}

// TakeOnOff has the flags of a set that are true or false read on and off too, as switches of the runtime do.
func TakeOnOff(f *pflag.FlagSet) {
	f.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			f.Value = onOff{f.Value}
		}
	})
}

// onOff is the value of a flag that is true or false.
type onOff struct{ pflag.Value }

// IsBoolFlag has help show no value for the flag.
func (o onOff) IsBoolFlag() bool { return true }

func (o onOff) Set(s string) error {
	on, ok := switchWords[strings.ToLower(s)]
	if !ok {
		return fmt.Errorf("%q is neither on nor off", s)
	}
	return o.Value.Set(fmt.Sprint(on))
}
