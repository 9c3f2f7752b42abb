package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/monitor"
)

// keptEvents is the greatest number of events that are kept to be shown.
const keptEvents = 200

// top is a call of `weft top`.
type top struct {
	once, asJSON bool
	every        time.Duration
	events       []monitor.Event // the newest last
	missed       uint64
}

func newTop() *cobra.Command {
	t := &top{}
	c := &cobra.Command{
		Use:   "top [SOCKET|PID]",
		Short: "Watch what a runtime of another process does",
		Long: `Watch what a runtime of another process does: its devices, the runs in progress
with the time that is left as an estimate, the tasks that devices run, and what
happened last. The process must be of the same user and have been started to be
watched: by the flag --socket on, the setting socket = on, or Options.Socket.

Without an argument it attaches to the only such process there is. q ends it. If
the output is no terminal, frames are written one after another.`,
		Example: `  weft run gemm --repeat 1000 --socket on & weft top
  weft top --once
  weft top 4242 --json
  weft top ./weft.sock`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("top takes one socket or the number of a process; %q is too much", args[1])
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var pids []string
			for _, s := range monitor.Sockets() {
				pids = append(pids, strconv.Itoa(s.PID))
			}
			return pids, cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error {
			if t.every < 100*time.Millisecond || t.every > 10*time.Second {
				return terminal.Usagef("--every %v: it must be from 100ms to 10s", t.every)
			}
			path, err := findSocket(args, monitor.Sockets())
			if err != nil {
				return terminal.Usage(err)
			}
			return t.run(c, path)
		},
	}
	c.Flags().BoolVar(&t.once, "once", false, "show one frame and end")
	c.Flags().BoolVar(&t.asJSON, "json", false, "write each frame as a line of JSON")
	c.Flags().DurationVar(&t.every, "every", 500*time.Millisecond, "time from one frame to the next")
	return c
}

// findSocket returns the path of the socket that the arguments name, or of the only one.
func findSocket(args []string, found []monitor.Socket) (string, error) {
	if len(args) == 0 {
		switch len(found) {
		case 0:
			return "", errors.New("no process can be watched; start one with --socket on, or name its socket")
		case 1:
			return found[0].Path, nil
		}
		var names []string
		for _, s := range found {
			names = append(names, s.Path)
		}
		return "", fmt.Errorf("several runtimes can be watched, name one: %s", strings.Join(names, ", "))
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return args[0], nil
	}
	var paths []string
	for _, s := range found {
		if s.PID == pid {
			paths = append(paths, s.Path)
		}
	}
	switch len(paths) {
	case 0:
		return "", fmt.Errorf("process %d cannot be watched; start it with --socket on", pid)
	case 1:
		return paths[0], nil
	}
	return "", fmt.Errorf("process %d has several runtimes, name the socket of one: %s", pid, strings.Join(paths, ", "))
}

// run attaches and shows frames until the end of either side.
func (t *top) run(c *cobra.Command, path string) error {
	client, err := monitor.Dial(c.Context(), path, t.every)
	if err != nil {
		return terminal.FileError(path, err)
	}
	defer client.Close()
	out, file := c.OutOrStdout().(*os.File)
	if !t.once && !t.asJSON && file {
		if s := terminal.OpenScreen(os.Stdin, out); s != nil {
			err := func() error {
				defer s.Close()
				return t.watch(c.Context(), client, s)
			}()
			if errors.Is(err, io.EOF) {
				fmt.Fprintln(c.ErrOrStderr(), "weft top: what it watched has ended")
				return nil
			}
			return err
		}
	}
	for {
		f, err := client.Next()
		switch {
		case errors.Is(err, io.EOF) && !t.once:
			return nil // the runtime was closed
		case errors.Is(err, io.EOF):
			return errors.New("the runtime was closed before it showed anything")
		case err != nil:
			return err
		}
		if err := t.print(c.OutOrStdout(), f); err != nil || t.once {
			return err
		}
	}
}

// print writes a frame to an output that is not a terminal.
func (t *top) print(w io.Writer, f *monitor.Frame) error {
	if t.asJSON {
		line, err := json.Marshal(f)
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		return err
	}
	t.events, t.missed = f.Events, f.Missed
	lines := t.lines(f, terminal.Width, unlimited)
	if !t.once {
		lines = append(lines, "")
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// unlimited is a number of rows that is no limit.
const unlimited = 1 << 20

// watch shows frames on a screen until a key, the context or the runtime ends it.
func (t *top) watch(ctx context.Context, client *monitor.Client, s *terminal.Screen) error {
	frames, ended := make(chan *monitor.Frame), make(chan error, 1)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			f, err := client.Next()
			if err != nil {
				ended <- err
				return
			}
			select {
			case frames <- f:
			case <-stop:
				return
			}
		}
	}()
	var last *monitor.Frame
	for {
		select {
		case f := <-frames:
			last = f
			t.missed += f.Missed
			t.events = append(t.events, f.Events...)
			t.events = t.events[max(len(t.events)-keptEvents, 0):]
		case <-s.Resized():
		case key := <-s.Keys():
			switch key {
			case 'q', 'Q':
				return nil
			case terminal.CtrlC:
				return context.Canceled
			}
			continue
		case <-s.Hung():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			return err
		}
		if last == nil {
			continue
		}
		columns, rows := s.Size()
		if err := s.Show(t.lines(last, columns, rows)); err != nil {
			return err
		}
	}
}

// lines formats a frame for a terminal of some columns and rows. Devices, runs and tasks
// get at most a share of the rows each, events the rest.
func (t *top) lines(f *monitor.Frame, columns, rows int) []string {
	head := fmt.Sprintf("weft top   process %d   up %s   ", f.PID, terminal.Seconds(f.Uptime))
	out := []string{head + terminal.Cut(f.Program, max(columns-len(head), 0)), totals(f.Totals), ""}
	const heads = 14 // lines that are neither: heads, what is left out, blank ones
	share := max((rows-heads)/4, 2)
	out = append(out, section(deviceTable(f.Devices), share+1)...)
	if len(f.Runs) > 0 {
		runs := runTable(f.Runs)
		more := int(f.MoreRun)
		if n := len(runs) - 1 - share; n > 0 {
			runs, more = runs[:share+1], more+n
		}
		out = append(out, "")
		out = append(out, table(runs)...)
		if more > 0 {
			out = append(out, fmt.Sprintf("and %d more", more))
		}
	}
	if len(f.Tasks) > 0 {
		out = append(out, "")
		out = append(out, section(taskTable(f.Tasks), share+1)...)
	}
	out = append(out, "", eventHead(len(t.events), t.missed))
	room := max(rows-len(out), 1)
	for _, e := range t.events[max(len(t.events)-room, 0):] {
		out = append(out, fmt.Sprintf("%10s  %s", terminal.Seconds(e.At), e.Text))
	}
	return out
}

// eventHead is the line above events.
func eventHead(n int, missed uint64) string {
	switch {
	case missed > 0:
		return fmt.Sprintf("last events (%d were not kept)", missed)
	case n == 0:
		return "no events"
	}
	return "last events"
}

// totals writes the figures of a runtime on one line, those that are zero left out.
func totals(vs []monitor.Value) string {
	var parts []string
	for i, v := range vs {
		if i == 0 || v.V != 0 {
			parts = append(parts, v.Name+" "+figure(v))
		}
	}
	return strings.Join(parts, "   ")
}

// section is a table of at most some lines, the first of which is its head.
func section(rows [][]any, most int) []string {
	more := len(rows) - most
	if more > 0 {
		rows = rows[:most]
	}
	out := table(rows)
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// table aligns rows and returns them as lines.
func table(rows [][]any) []string {
	var b bytes.Buffer
	terminal.Table(&b, rows)
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// deviceTable has a column for every figure that a device has.
func deviceTable(devices []monitor.Device) [][]any {
	var names []string
	column := make(map[string]int)
	for i := range devices {
		for _, v := range devices[i].Values {
			if _, ok := column[v.Name]; !ok {
				column[v.Name] = len(names)
				names = append(names, v.Name)
			}
		}
	}
	row := func(first, second string) []any {
		cells := []any{first, second}
		for range names {
			cells = append(cells, "-")
		}
		return cells
	}
	head := row("device", "state")
	for i, n := range names {
		head[2+i] = n
	}
	rows := [][]any{head}
	for i := range devices {
		d := &devices[i]
		cells := row(d.Name, d.State)
		for _, v := range d.Values {
			cells[2+column[v.Name]] = figure(v)
		}
		rows = append(rows, cells)
	}
	return rows
}

func runTable(runs []monitor.Run) [][]any {
	rows := [][]any{{"run", "", "done", "tasks", "running", "moved", "took", "left"}}
	for _, r := range runs {
		left := "waits"
		if r.Left >= 0 {
			left = "about " + terminal.Seconds(r.Left)
		}
		rows = append(rows, []any{r.Run, "[" + terminal.Bar(r.Part, 20) + "]", r.Done, r.Tasks, r.Running, bytesText(float64(r.Bytes)), terminal.Seconds(r.Elapsed), left})
	}
	return rows
}

func taskTable(tasks []monitor.Task) [][]any {
	rows := [][]any{{"running on", "run", "task", "for", "predicted"}}
	for _, t := range tasks {
		rows = append(rows, []any{t.Device, t.Run, terminal.Cut(t.Task, 40), terminal.Seconds(t.For), terminal.Seconds(t.Predicted)})
	}
	return rows
}

// figure writes a figure by its unit.
func figure(v monitor.Value) string {
	if v.V < 0 {
		return "-"
	}
	switch v.Unit {
	case "":
		return fmt.Sprintf("%.0f", v.V)
	case "s":
		return terminal.Seconds(v.V)
	case "B":
		if v.Of > 0 {
			return bytesText(v.V) + " of " + bytesText(v.Of)
		}
		return bytesText(v.V)
	}
	return fmt.Sprintf("%.0f %s", v.V, v.Unit)
}

// bytesText writes a number of bytes, which may be none.
func bytesText(n float64) string {
	if n <= 0 {
		return "0 B"
	}
	return terminal.SI(n, "B")
}
