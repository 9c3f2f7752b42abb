// Command weft runs work on the devices of this machine, and simulates it on
// machines that are only described, with the same engine.
//
//	weft run gemm                 run a workload here, check it, report
//	weft run demo                 a short guided tour, simulated
//	weft devices, weft doctor     what this machine has
//	weft bench overhead           what a task costs beside its work
//	weft sim MACHINE SCENARIO     simulate work on a machine
//	weft trace FILE               read a saved trace
//	weft machines [NAME]          show described machines
//	weft partition                cut work among devices
//
// Files: main.go (exit status, errors), usage.go (help and mistakes), progress.go,
// input.go (what arguments name), options.go (flags of the runtime), host*.go
// (what the machine allows), then one file for each subcommand; report.go prints
// a simulation.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// usageError is a mistake in what the user wrote, on the command line or in a
// file it names.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// badUsage makes a usageError.
func badUsage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	weft.Worker()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, impatience)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// impatience waits for a second Ctrl-C, which ends the process whatever it is
// doing. Kernels that run are waited for where they cannot be stopped, and who waits
// is told so.
func impatience() {
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	select {
	case <-again:
		os.Exit(exitInterrupted)
	case <-time.After(time.Second):
	}
	fmt.Fprintln(os.Stderr, "\nweft: waiting for what runs; Ctrl-C or another SIGTERM ends at once")
	<-again
	os.Exit(exitInterrupted)
}

// run is the command without the process around it. It returns the exit status.
// An error is one line on stderr; help goes to stdout only when asked for.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	started := false
	// Cobra checks commands, flags and arguments before this runs: whatever it
	// reports until then is a mistake on the command line.
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(append([]string{}, args...)) // never nil, which cobra takes for those of the process
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root)
	err := root.ExecuteContext(ctx)
	switch usage := (usageError{}); {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "weft: interrupted")
		return exitInterrupted
	default:
		text := "weft: " + oneLine(err.Error())
		if terminal(stderr) { // people read lines of 80 columns, programs one line
			text = wrap(text, defaultWidth)
		}
		fmt.Fprintln(stderr, text)
		if !started || errors.As(err, &usage) {
			return exitUsage
		}
		return exitFailure
	}
}

// oneLine joins the lines of a message that several errors were joined into.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
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
mistake on the command line or in a file it names, and 130 after Ctrl-C, which
ends what runs and prints what was done so far; a second Ctrl-C ends weft at
once.`,
		Version:                    version(),
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(c, args[0])
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("weft {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usageTemplate)
	root.AddCommand(newDevices(), newDoctor(), newRun(), newBench(), newSim(), newTrace(), newMachines(), newPartition())
	root.SetHelpCommand(newHelp(root))
	return root
}

// newHelp is cobra's help command, but for a topic that does not exist, which
// is an error like any other.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			topic, rest, err := root.Find(args)
			if err != nil || topic == root && len(rest) > 0 {
				return usageError{unknownCommand(root, args[0])}
			}
			topic.InitDefaultHelpFlag()
			topic.InitDefaultVersionFlag()
			return topic.Help()
		},
	}
}

// addCompletion adds cobra's completion command, which writes to the root's
// output as it is now, and has it report a shell it does not know.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(*cobra.Command, []string) error {
			return badUsage("completion needs a shell: bash, fish, powershell or zsh; weft completion bash --help says how to load it")
		}
	}
}

// version is the module's version, as the go command stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// print has write fill a buffer and hands all of it to the command's output, so
// that an output which cannot be written is reported once.
func print(c *cobra.Command, write func(w *bytes.Buffer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	_, err := c.OutOrStdout().Write(b.Bytes())
	return err
}

// abandonable computes until it is done or ctx ends. What computes here knows
// no context, so an interrupted computation is left behind for the process to
// take with it; fn must touch nothing that the caller uses after an error. A
// broken invariant is a bug in weft, and for whoever runs it an error like others.
func abandonable(ctx context.Context, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("internal error: %v; please report this with the command and its files", p)
			}
		}()
		done <- fn()
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
}
