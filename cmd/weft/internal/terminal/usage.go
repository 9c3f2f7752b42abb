package terminal

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/internal/text"
)

// Usage makes a [text.Mistake] of an error.
func Usage(err error) error { return text.Mistake{Err: err} }

// Usagef formats a [text.Mistake].
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Templates for the usage of a command. They are cobra's but for lines of at most
// 80 columns. OwnUsageTemplate leaves out the flags that a command inherits, which
// are those of the runtime.
const (
	UsageTemplate    = usageHead + usageInherited + usageTail
	OwnUsageTemplate = usageHead + usageTail
)

const usageHead = `Usage:
  {{if .HasParent}}{{.UseLine}}{{else}}{{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

{{if .HasParent}}One of{{else}}Commands{{end}}:{{range .Commands}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{end}}`

const usageInherited = `{{if .HasAvailableInheritedFlags}}

Flags of the runtime:
{{.InheritedFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{end}}`

const usageTail = `{{if .HasAvailableSubCommands}}

{{.CommandPath}} NAME --help says more about one of them.{{end}}
`

// SwitchType is the type that help shows for a switch of the runtime, which has the values of the key in a
// configuration file. See [Switches].
const SwitchType = "on|off"

// FlagError rewrites an error of pflag: it says what a flag takes, or which flag has
// a name close to an unknown one. Where a command that does not exist stands before the
// flag, the error is about that command.
func FlagError(c *cobra.Command, err error) error {
	if before := c.Flags().Args(); c.HasSubCommands() && len(before) > 0 {
		return c.ValidateArgs(before)
	}
	var (
		unknown *pflag.NotExistError
		value   *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &value):
		f := value.GetFlag()
		return fmt.Errorf("--%s %s: %s", f.Name, value.GetValue(), expected(f, value.Unwrap()))
	case errors.As(err, &unknown):
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near, ok := text.Nearest(unknown.GetSpecifiedName(), names); ok && unknown.GetSpecifiedShortnames() == "" {
			return fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	}
	return fmt.Errorf("%w; %s --help lists the flags", err, c.CommandPath())
}

// expected says what a flag takes. Values that check themselves say it in cause.
func expected(f *pflag.Flag, cause error) string {
	if errors.Is(cause, strconv.ErrRange) {
		return "it is too large or too small a number"
	}
	if form := text.FormError(""); errors.As(cause, &form) {
		return form.Error()
	}
	if number := new(strconv.NumError); f.Value.Type() == "int" && !errors.As(cause, &number) {
		return cause.Error()
	}
	switch f.Value.Type() {
	case "int", "int64", "uint", "uint32", "uint64":
		if strings.HasPrefix(f.Value.Type(), "u") {
			return "it must be a whole number, not negative"
		}
		return "it must be a whole number"
	case "float64":
		return "it must be a number"
	case "intSlice":
		return "it must be whole numbers joined by commas"
	case "float64Slice":
		return "it must be numbers joined by commas"
	case "bool", SwitchType:
		return "it must be on or off"
	case "duration":
		return "it must be a duration such as 500ms or 2s"
	}
	return cause.Error()
}

// NoArgs is the argument check of commands that take only flags.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, only flags; %q is too much", path(c), args[0])
	}
	return nil
}

// path is the name of a command without the program's, which stands before every
// error already.
func path(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ") }

// OneOf is the argument check of commands that only have commands below them; what
// is the word for one of those, but for some that are something else.
func OneOf(what string, but ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		names := slices.DeleteFunc(commandNames(c), func(name string) bool { return slices.Contains(but, name) })
		if len(args) == 0 {
			return fmt.Errorf("%s needs a %s: %s", path(c), what, strings.Join(names, ", "))
		}
		return text.Unknown(what, args[0], names)
	}
}

func commandNames(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// UnknownCommand is the error for a command that does not exist, or not without the one that
// it belongs to.
func UnknownCommand(root *cobra.Command, name string) error {
	for _, c := range root.Commands() {
		if slices.Contains(commandNames(c), name) {
			return fmt.Errorf("unknown command %q; did you mean %s %s?", name, c.Name(), name)
		}
	}
	return text.Unknown("command", name, commandNames(root))
}

// MustName returns a [text.Mistake] unless name is one of names.
func MustName(what, name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	return Usage(text.Unknown(what, name, names))
}

// Complete makes the value of a flag complete to names.
func Complete(c *cobra.Command, flag string, names func() []string) {
	if err := c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // the command has no such flag
	}
}
