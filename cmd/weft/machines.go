package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/machine"
)

func newMachines() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "machines [NAME|FILE]",
		Short: "Show described machines",
		Long: `List the machines that come with weft, or show one of them, or a machine file:
devices, links, storage, network, and power at full load with its budget.
With --json a machine is printed in the format of machine files: begin your own
from one that is close.`,
		Example: `  weft machines
  weft machines mixed
  weft machines 8xh100 --json > mine.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("machines takes one name or file at most")
			}
			return nil
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, to string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeInputs(c, args, to)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				names, err := json.Marshal(machine.Names())
				if err != nil {
					return err
				}
				return terminal.Print(c, asJSON, append(names, '\n'), writeMachines)
			}
			m, err := loadMachine(args[0])
			if err != nil {
				return err
			}
			return terminal.Print(c, asJSON, machine.Encode(m), func(b *bytes.Buffer) error {
				terminal.Machine(b, m)
				fmt.Fprintf(b, "\n%s\n", origin(args[0]))
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return c
}

// measuredMachine is the shipped machine whose figures were measured; all others have figures from
// datasheets.
const measuredMachine = "h200"

// origin says where the figures of a machine are from, by its name or file.
func origin(name string) string {
	switch _, shipped := machine.Named(name); {
	case name == measuredMachine:
		return "Figures are as weft measured them on such a machine."
	case shipped:
		return "Figures are from datasheets, none was measured."
	}
	return "Figures are from the file."
}

func writeMachines(b *bytes.Buffer) error {
	for _, name := range machine.Names() {
		m, _ := machine.Named(name)
		fmt.Fprintf(b, "%-13s %s\n", name, terminal.Models(m))
	}
	return nil
}
