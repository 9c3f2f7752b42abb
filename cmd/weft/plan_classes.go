package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/bench"
	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload/protein"
)

// planMachines are the described machines that size classes are planned on.
var planMachines = []string{"rtx4060", "8xh100"}

// classPlan is a chain of a size class on a machine.
type classPlan struct {
	Machine   string            `json:"machine"`
	Chain     string            `json:"chain"`
	Residues  int               `json:"residues"`
	Structure bool              `json:"structure"` // a real one, and no helix
	Seconds   float64           `json:"seconds"`
	Low       float64           `json:"low"`
	High      float64           `json:"high"`
	Plan      *plan.ProteinPlan `json:"plan"`
}

// planClasses plans a chain of each size class and prints a table for each machine.
func (p *foldPlanning) planClasses(c *cobra.Command) error {
	recordings, err := bench.LoadRecordings(p.recorded)
	if err != nil {
		return err
	}
	names := planMachines
	if p.here != "" {
		names = []string{p.here}
	}
	var machines []*machine.Machine
	for _, name := range names {
		m, err := loadMachine(name)
		if err != nil {
			return err
		}
		machines = append(machines, m)
	}
	var all []classPlan
	for _, e := range plan.ProteinExamples() {
		s, real, err := p.example(e)
		if err != nil {
			return err
		}
		_, of, err := p.protein(s)
		if err != nil {
			return err
		}
		of.Name = e.Name
		for i, m := range machines {
			x, err := plan.PlanProtein(of, m, recordings)
			if err != nil {
				return err
			}
			row := classPlan{Machine: names[i], Chain: e.Name, Residues: of.Residues, Structure: real, Plan: x}
			if x.Fits {
				row.Seconds, row.Low, row.High = x.Seconds()
			}
			all = append(all, row)
		}
	}
	return terminal.Print(c, p.asJSON, all, func(b *bytes.Buffer) error {
		p.writeClasses(b, names, all)
		return nil
	})
}

// example returns the structure of a chain: from the folder, from the structures
// that come with weft, or a helix of the same length.
func (p *foldPlanning) example(e plan.Protein) (s *protein.Structure, real bool, err error) {
	if p.structures != "" {
		for _, name := range []string{e.Name, strings.ToLower(e.Name)} {
			s, err = protein.Open(filepath.Join(p.structures, name+".pdb"), protein.Select{Chain: e.Chain})
			if err == nil || !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		switch {
		case err == nil:
			return s, true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, false, terminal.Usage(err)
		}
	}
	for _, name := range protein.Shipped() {
		if strings.EqualFold(name, e.Name) {
			s, err = protein.Open(name, protein.Select{})
			return s, true, err
		}
	}
	return protein.Helix(e.Residues), false, nil
}

// writeClasses prints a table for each machine.
func (p *foldPlanning) writeClasses(b *bytes.Buffer, names []string, all []classPlan) {
	fmt.Fprintln(b, terminal.Wrap(fmt.Sprintf("%d replicas of %d steps and the energy landscape", p.config.Replicas, p.config.Steps), terminal.Width))
	for _, name := range names {
		fmt.Fprintf(b, "\n%s\n", name)
		rows := [][]any{{"class", "chain", "residues", "memory", "time", "90 % of them", "limit"}}
		var why []string
		for i := range all {
			x := &all[i]
			if x.Machine != name {
				continue
			}
			chain := x.Chain
			if !x.Structure {
				chain += " (helix)"
			}
			time, interval, limit := "-", "-", "-"
			if x.Plan.Fits {
				time, interval = terminal.Seconds(x.Seconds), terminal.Seconds(x.Low)+" to "+terminal.Seconds(x.High)
				limit = x.Plan.Estimates[0].Bottleneck
			} else {
				why = append(why, fmt.Sprintf("%s: %s", chain, x.Plan.Why))
			}
			rows = append(rows, []any{x.Plan.Class, chain, x.Residues, terminal.SI(float64(x.Plan.Bytes), "B"), time, interval, limit})
		}
		terminal.Table(b, rows)
		for _, w := range why {
			fmt.Fprintln(b, terminal.Wrap("- "+w, terminal.Width))
		}
	}
	fmt.Fprintln(b, "\nexpected accuracy:")
	for i := range all {
		if all[i].Machine == names[0] {
			fmt.Fprintln(b, terminal.Wrap("- "+all[i].Chain+": "+accuracyText(&all[i].Plan.Accuracy, p.config.Replicas), terminal.Width))
		}
	}
}

// accuracyText says how near to the native structure replicas come.
func accuracyText(a *plan.Accuracy, replicas int) string {
	if !a.Known {
		return a.Why
	}
	percent := func(p float64) string {
		if p > 0.99 {
			return "over 99 %"
		}
		return fmt.Sprintf("%.0f %%", 100*p)
	}
	return fmt.Sprintf("RMSD below %g Å by a replica with %s, by one of %d with %s (%s)", a.RMSD, percent(a.Chance), replicas, percent(a.Best), a.Why)
}

// writeProtein writes the known facts of a protein, apart from its time.
func writeProtein(b *bytes.Buffer, x *plan.ProteinPlan, on *machine.Machine) {
	fmt.Fprintf(b, "\nprotein of %d residues, class %s\n", x.Residues, x.Class)
	lines := []string{"expected accuracy: " + accuracyText(&x.Accuracy, x.Replicas)}
	if len(x.Estimates) > 1 {
		e := x.Estimates[1]
		lines = append(lines, fmt.Sprintf("its energy landscape would take another %s on %s, within %s and %s", terminal.Seconds(e.Median), on.Name, terminal.Seconds(e.Low), terminal.Seconds(e.High)))
	}
	where := "in host memory, where the devices compute"
	switch {
	case x.Why != "":
		where = x.Why
	case x.Layout != nil && len(x.Layout.Spills) > 0:
		where = "in host memory, from which they take turns on devices"
	case x.Layout != nil:
		where = "on devices"
	}
	lines = append(lines, fmt.Sprintf("%s if all that is computed of %d conformations is kept: %s", terminal.SI(float64(x.Bytes), "B"), x.Replicas, where))
	for _, l := range lines {
		fmt.Fprintln(b, terminal.Wrap("- "+l, terminal.Width))
	}
}
