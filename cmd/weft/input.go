package main

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// An argument is the name of a machine or scenario that comes with weft, or else a
// file. A file that has such a name is reached as ./NAME.

// work is the jobs and faults to simulate.
type work struct {
	name   string
	jobs   []sim.Job // in the order they are submitted
	faults sim.Faults
	tasks  int
}

// loadMachine returns a shipped machine, or the one a file describes.
func loadMachine(arg string) (*machine.Machine, error) {
	if m, ok := machine.Named(arg); ok {
		return m, nil
	}
	src, err := readFile(arg, "machine", machine.Names())
	if err != nil {
		return nil, err
	}
	m, err := machine.Decode(src)
	if err != nil {
		return nil, located(arg, err)
	}
	if m.Name == "" {
		m.Name = arg
	}
	return m, nil
}

// loadWork returns a scenario by its name, or the content of a file: a graph if it
// begins with a brace, otherwise a scenario.
func loadWork(arg string, m *machine.Machine) (*work, error) {
	file := arg
	var src []byte
	if s, ok := sim.FindScenario(arg); ok {
		src, file = []byte(s.Text), "scenario "+arg
	} else {
		var err error
		if src, err = readFile(arg, "scenario or graph", scenarioNames()); err != nil {
			return nil, err
		}
	}
	w := &work{name: arg}
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		g, err := graph.Decode(src, nil)
		if err != nil {
			return nil, located(file, err)
		}
		if g.NumTasks() == 0 {
			return nil, terminal.Usagef("%s: the graph has no tasks: nothing to run", file)
		}
		w.jobs = []sim.Job{{Name: arg, Graph: g}}
	} else {
		s, err := sim.ParseScenario(src, m)
		if err != nil {
			return nil, located(file, err)
		}
		if w.jobs, err = s.Jobs(); err != nil {
			return nil, located(file, err)
		}
		w.faults = s.Faults
	}
	slices.SortStableFunc(w.jobs, func(a, b sim.Job) int { return int(min(max(a.At-b.At, -1), 1)) })
	for i := range w.jobs {
		w.tasks += w.jobs[i].Graph.NumTasks()
	}
	return w, nil
}

// loadFaults reads a fault script.
func loadFaults(file string, m *machine.Machine) (sim.Faults, error) {
	src, err := readFile(file, "fault script", nil)
	if err != nil {
		return nil, err
	}
	f, err := sim.ParseFaults(src, m)
	if err != nil {
		return nil, located(file, err)
	}
	return f, nil
}

// maxInput is the largest file that is read, in bytes: a graph of a million tasks takes
// 200 MB.
const maxInput = 1 << 30

// readFile reads a file. The names that the argument could have been instead are in
// names, for the error.
func readFile(file, what string, names []string) ([]byte, error) {
	src, err := safefile.ReadInput(file, maxInput)
	switch {
	case err == nil:
		return src, nil
	case errors.Is(err, fs.ErrNotExist) && names == nil:
		return nil, terminal.Usagef("%s: no such %s", file, what)
	case errors.Is(err, fs.ErrNotExist):
		if near, ok := text.Nearest(file, names); ok {
			return nil, terminal.Usagef("%s: no such %s; did you mean %s?", file, what, near)
		}
		return nil, terminal.Usagef("%s: no such %s; give a file, or one of %s", file, what, strings.Join(names, ", "))
	}
	return nil, terminal.Usage(terminal.FileError(file, err))
}

// located puts file and line in front of a syntax error.
func located(file string, err error) error {
	if at := (*graph.SyntaxError)(nil); errors.As(err, &at) {
		return terminal.Usagef("%s:%d: %s", file, at.Line, at.Reason)
	}
	return terminal.Usagef("%s: %w", file, err)
}

func scenarioNames() []string {
	var names []string
	for _, s := range sim.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

// completeInputs completes a machine, then a scenario; files complete too.
func completeInputs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return machine.Names(), cobra.ShellCompDirectiveDefault
	case 1:
		return scenarioNames(), cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
