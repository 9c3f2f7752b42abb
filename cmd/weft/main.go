// Command weft runs work on the devices of this machine, and simulates it on
// machines that are only described, with the same engine.
//
//	weft run gemm                 run a workload here, check it, report
//	weft run graph.json           run a graph of the user's own
//	weft run demo                 a short guided tour, simulated
//	weft checkpoint show DIR      what the checkpoints of a run hold
//	weft train reservoir          train a model and save it
//	weft serve                    answer predictions and jobs over HTTP
//	weft devices, weft doctor     what this machine has
//	weft top                      watch what another process runs
//	weft bench overhead           what a task costs beside its work
//	weft chaos gemm               strike worker processes while a workload runs
//	weft load URL                 measure a server of predictions
//	weft sim MACHINE SCENARIO     simulate work on a machine
//	weft trace FILE               read a saved trace
//	weft machines [NAME]          show described machines
//	weft partition                cut work among devices
//	weft plan gemm                what a job would take and cost, here or rented
//	weft kernels [NAME]           show Go functions for graphs of the user's own
//	weft version                  show the version of this program
//
// Files: main.go (exit status, errors), options.go (flags of the runtime), input.go
// (files and names that arguments give), then one for each subcommand; demo.go and
// run_graph.go belong to run, simulation.go to sim. Benchmarks are in cmd/weft/internal/bench, workloads
// in cmd/weft/internal/workloads, tables and help in cmd/weft/internal/terminal.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/consensys/gnark/logger"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
)

// Exit statuses. After a signal it is 128 and the signal's number, as shells have it.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNothingFits = 3   // weft plan: no machine, or none within the limits
	exitInterrupted = 130 // SIGINT
	exitTerminated  = 143 // SIGTERM
)

func main() {
	logger.Disable() // gnark writes to standard output, where reports are
	// A child is told of a lack of memory too.
	if err := host.Room(); err != nil {
		fmt.Fprintln(os.Stderr, "weft:", err)
		os.Exit(exitFailure)
	}
	proc.Main(chaos.Makers(kernels))
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cancel(signalled{<-signals})
		endAtOnce(signals)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// signalled is why a context ended: the process received a signal.
type signalled struct{ signal os.Signal }

func (s signalled) Error() string {
	if s.signal == syscall.SIGTERM {
		return "terminated"
	}
	return "interrupted"
}

// Is makes a context that ended by a signal one that was cancelled.
func (s signalled) Is(target error) bool { return target == context.Canceled }

func (s signalled) status() int {
	if s.signal == syscall.SIGTERM {
		return exitTerminated
	}
	return exitInterrupted
}

// endAtOnce ends the process at a second signal, whatever it is doing. After the first
// one weft waits for kernels that cannot be stopped, and says so after a second.
func endAtOnce(signals <-chan os.Signal) {
	select {
	case again := <-signals:
		terminal.CloseScreen()
		os.Exit(signalled{again}.status())
	case <-time.After(time.Second):
	}
	fmt.Fprintln(os.Stderr, "\nweft: waiting for what runs; Ctrl-C or another SIGTERM ends at once")
	os.Exit(signalled{<-signals}.status())
}

// run is the command without the process around it. It returns the exit status.
// An error is one line on stderr; help goes to stdout only when asked for.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	started := false
	// Cobra checks commands, flags and arguments before this runs: an error until
	// then is a mistake on the command line.
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root)
	help := writtenHelp(root)
	// Not nil, for which cobra takes the arguments of the process.
	root.SetArgs(append([]string{}, terminal.Switches(root, args)...))
	err := root.ExecuteContext(ctx)
	if err == nil {
		err, started = help(), true
	}
	switch usage := (text.Mistake{}); {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		why := signalled{os.Interrupt}
		errors.As(context.Cause(ctx), &why)
		fmt.Fprintln(stderr, "weft:", why)
		return why.status()
	default:
		text := "weft: " + terminal.OneLine(err.Error())
		if terminal.Interactive(stderr) { // people read lines of 80 columns, programs one line
			text = terminal.Wrap(text, terminal.Width)
		}
		fmt.Fprintln(stderr, text)
		if !started || errors.As(err, &usage) {
			return exitUsage
		}
		if nothing := (*plan.NothingFitsError)(nil); errors.As(err, &nothing) {
			return exitNothingFits
		}
		return exitFailure
	}
}

// writtenHelp has help written in one piece. The function it returns says whether that failed, as on a full disk,
// which cobra's help function cannot.
func writtenHelp(root *cobra.Command) func() error {
	var failed error
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		var text bytes.Buffer
		out := c.OutOrStdout()
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		_, failed = out.Write(text.Bytes())
	})
	return func() error { return failed }
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "Run task graphs on every compute device of a machine",
		Long: `weft runs task graphs on every compute device of a machine.

It runs workloads on the devices of this machine, and simulates them on machines
that are only described, with the same engine. Begin with:

  weft run gemm
  weft run demo
  weft sim --list

The exit status is 0 when all went well, 1 when something failed, 2 for a
mistake on the command line or in a file it names, 3 when weft plan finds no way
within the limits, and 130 after Ctrl-C (143 after SIGTERM), which stops the
work and prints the results so far; a second one ends weft at once.`,
		Version:                    built().String(),
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return terminal.UnknownCommand(c, args[0])
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("weft {{.Version}}\n")
	root.SetFlagErrorFunc(terminal.FlagError)
	root.SetUsageTemplate(terminal.UsageTemplate)
	root.AddCommand(newDevices(), newDoctor(), newRun(), newCheckpoint(), newTrain(), newServe(), newTop(), newBench(), newChaos(), newLoad(), newSim(), newTrace(), newMachines(), newPartition(), newPlan(), newKernels(), newZK(), newVersion())
	root.SetHelpCommand(newHelp(root))
	plainValues(root)
	return root
}

// plainValues has the flags of a command and of those below it read numbers in decimal digits only, and take
// on and off where they are true or false.
func plainValues(c *cobra.Command) {
	for _, f := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		terminal.PlainNumbers(f)
		terminal.TakeOnOff(f)
	}
	for _, below := range c.Commands() {
		plainValues(below)
	}
}

// newHelp is cobra's help command, except that an unknown topic is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			topic, rest, err := root.Find(args)
			if err != nil || topic == root && len(rest) > 0 {
				return terminal.Usage(terminal.UnknownCommand(root, args[0]))
			}
			topic.InitDefaultHelpFlag()
			topic.InitDefaultVersionFlag()
			return topic.Help()
		},
	}
}

// addCompletion adds cobra's completion command and makes an unknown shell an error. It
// is called when the root's output is set, to which the command writes.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(*cobra.Command, []string) error {
			return terminal.Usagef("completion needs a shell: bash, fish, powershell or zsh; weft completion bash --help says how to load it")
		}
	}
}
