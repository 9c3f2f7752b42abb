package main

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

// usageTemplate is cobra's but for lines of at most 80 columns.
const usageTemplate = `Usage:
  {{if .HasParent}}{{.UseLine}}{{else}}{{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

{{if .HasParent}}One of{{else}}Commands{{end}}:{{range .Commands}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{end}}` + runtimeFlags + `{{if .HasAvailableSubCommands}}

{{.CommandPath}} NAME --help says more about one of them.{{end}}
`

// runtimeFlags is the part of usageTemplate about the runtime's settings.
const runtimeFlags = `{{if .HasAvailableInheritedFlags}}

Flags of the runtime:
{{.InheritedFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{end}}`

// flagError says what is wrong with a flag in words of this command's own.
func flagError(c *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		value   *pflag.InvalidValueError
		missing *pflag.ValueRequiredError
	)
	switch {
	case errors.As(err, &value):
		f := value.GetFlag()
		return fmt.Errorf("--%s %s: %s", f.Name, value.GetValue(), expected(f, value.Unwrap()))
	case errors.As(err, &missing) && missing.GetFlag().Value.Type() == toggleType:
		return fmt.Errorf("--%s needs on or off after it", missing.GetFlag().Name)
	case errors.As(err, &unknown):
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near, ok := text.Nearest(unknown.GetSpecifiedName(), names); ok && unknown.GetSpecifiedShortnames() == "" {
			return fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	}
	return fmt.Errorf("%w; %s --help lists the flags", err, c.CommandPath())
}

// expected says what a flag takes; values that check themselves say it.
func expected(f *pflag.Flag, cause error) string {
	if errors.Is(cause, strconv.ErrRange) { // a number, but not one that is ever of use
		return "it is too large or too small a number"
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
	case "bool":
		return fmt.Sprintf("it must be true or false, as in --%s=false", f.Name)
	case toggleType:
		return "it must be on or off"
	case "duration":
		return "it must be a duration such as 500ms or 2s"
	}
	return cause.Error()
}

// noArgs is for commands that take flags only.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, only flags; %q is too much", path(c), args[0])
	}
	return nil
}

// path names a command without the program, which stands before every error.
func path(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ") }

// oneOf is for commands that do nothing themselves: they need the name of one
// below them.
func oneOf(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		names := commandNames(c)
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

// unknownCommand is the error for a command there is not.
func unknownCommand(root *cobra.Command, name string) error {
	return text.Unknown("command", name, commandNames(root))
}

// mustName checks a name against those there are.
func mustName(what, name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	return usageError{text.Unknown(what, name, names)}
}
