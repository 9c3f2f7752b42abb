package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docs/COMMANDS.md says what the help of every command says.
func TestCommandsDoc(t *testing.T) {
	const file = "../../docs/COMMANDS.md"
	root := newRoot()
	addCompletion(root)
	d := newCommandsDoc(root)
	head := `# Commands

What ` + "`weft COMMAND --help`" + ` says, for every command. Written by
` + "`go test ./cmd/weft -run '^TestCommandsDoc$' -rewrite`" + `.
`
	d.describe(root)
	got := head + d.String()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("%s is not what the commands say (%v): go test ./cmd/weft -run '^TestCommandsDoc$' -rewrite", file, err)
	}
}

// A flag of many commands is described once, and one of a workload with the first command of that name.
func TestCommandsDocShort(t *testing.T) {
	root := &cobra.Command{Use: "top", Long: "It does.\n"}
	for _, family := range []string{"plan", "run"} {
		f := &cobra.Command{Use: family}
		root.AddCommand(f)
		for i := range many/2 + 1 {
			c := &cobra.Command{Use: fmt.Sprint("w", i), Short: "Do it", Run: func(*cobra.Command, []string) {}}
			c.Flags().Int("common", 3, map[bool]string{true: "what `N` is common", false: "another `N`"}[i > 0])
			c.Flags().Int(fmt.Sprint("own", i), 3, "what `N` is its own")
			f.AddCommand(c)
		}
	}
	d := newCommandsDoc(root)
	d.describe(root)
	for text, times := range map[string]int{
		"## top\n\n```\nIt does.\n```\n":                                                          1,
		"| `--common N` | what N is common (default 3) |\n":                                       1,
		"| `--own2 N` | what N is its own (default 3) |\n":                                        1,
		"### top plan w2\n\nDo it.\n\nAs `top run w2`: `--own2`. As many commands: `--common`.\n": 1,
	} {
		if n := strings.Count(d.String(), text); n != times {
			t.Errorf("%q is there %d times, not %d, in\n%s", text, n, times, d.String())
		}
	}
}

// many is how many commands must have a flag for it to be described once for all of them.
const many = 10

// commandsDoc is the text of docs/COMMANDS.md.
type commandsDoc struct {
	strings.Builder
	shared map[string]bool   // rows of flags that many commands have
	first  map[string]string // row of a flag and name of a command: the first command that has both
}

// newCommandsDoc begins with the flags that many of a command and those below it have.
func newCommandsDoc(root *cobra.Command) *commandsDoc {
	d := &commandsDoc{shared: make(map[string]bool), first: make(map[string]string)}
	most := make(map[string]string) // by the name of a flag: the row that most commands have
	count := make(map[string]int)
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		for _, row := range flagRows(c) {
			if count[row]++; count[row] > count[most[flagOf(row)]] {
				most[flagOf(row)] = row
			}
		}
		for _, below := range c.Commands() {
			look(below)
		}
	}
	look(root)
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(most)) {
		if row := most[name]; count[row] >= many {
			rows = append(rows, row)
			d.shared[row] = true
		}
	}
	d.WriteString("\n## Flags of many commands\n")
	d.table(rows)
	return d
}

// describe adds a command and those below it, weft run before others: they refer to its flags.
func (d *commandsDoc) describe(c *cobra.Command) {
	if c.Hidden {
		return
	}
	if c.Long == "" {
		fmt.Fprintf(d, "\n### %s\n\n%s.\n", c.CommandPath(), c.Short)
	} else {
		fmt.Fprintf(d, "\n## %s\n\n```\n%s\n```\n", c.CommandPath(), strings.TrimSpace(c.Long))
	}
	var own []string
	as := make(map[string][]string) // names of flags by where they are described
	for _, row := range flagRows(c) {
		name := flagOf(row)
		switch where := d.first[row+c.Name()]; {
		case d.shared[row]:
			as["many commands"] = append(as["many commands"], "`"+name+"`")
		case where != "":
			as["`"+where+"`"] = append(as["`"+where+"`"], "`"+name+"`")
		default:
			d.first[row+c.Name()] = c.CommandPath()
			own = append(own, row)
		}
	}
	d.table(own)
	for i, where := range slices.Sorted(maps.Keys(as)) {
		d.WriteString([]string{"\n", " "}[min(i, 1)])
		fmt.Fprintf(d, "As %s: %s.", where, strings.Join(as[where], ", "))
	}
	if len(as) > 0 {
		d.WriteString("\n")
	}
	below := c.Commands()
	for _, first := range []bool{true, false} {
		for _, x := range below {
			if (x.Name() == "run") == first {
				d.describe(x)
			}
		}
	}
}

// table adds rows of flags.
func (d *commandsDoc) table(rows []string) {
	if len(rows) > 0 {
		fmt.Fprintf(d, "\n| flag | what it does |\n|---|---|\n%s", strings.Join(rows, ""))
	}
}

// flagOf is the name of a row's flag.
func flagOf(row string) string { return strings.Trim(strings.Fields(row)[1], "`,") }

// flagRows are the flags of a command, a row of a table each.
func flagRows(c *cobra.Command) (rows []string) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name += "`, `-" + f.Shorthand
		}
		if value != "" {
			name += " " + value
		}
		if has := f.DefValue; has != "" && has != "0" && has != "false" && has != "[]" && !strings.Contains(usage, "default") {
			usage += fmt.Sprintf(" (default %s)", has)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", name, strings.ReplaceAll(strings.Join(strings.Fields(usage), " "), "|", `\|`)))
	})
	return rows
}
