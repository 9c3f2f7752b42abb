package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
)

// migrateRow is the cost of moving a running computation from one process to another.
type migrateRow struct {
	State int64  `json:"state_bytes"`
	Bytes int64  `json:"checkpoint_bytes"` // written for the last checkpoint
	From  string `json:"from"`             // devices of the first process
	To    string `json:"to"`               // devices of the second
	Steps int    `json:"steps"`
	Done  int    `json:"done"` // steps that were done when it was decided to move
	Kept  int    `json:"kept"` // of them that the checkpoint had
	// Lost is the work that is done again: that of the step which the decision ended, in
	// seconds since it began.
	Lost float64 `json:"lost_seconds"`
	// Stop is the time from the decision until the first process had ended, with its
	// checkpoint on the disk, Start from there until the second has its devices and the
	// state, and First how long its first step takes. Again is Stop and Start: from the
	// decision to running again.
	Stop  float64 `json:"stop_seconds"`
	Start float64 `json:"start_seconds"`
	First float64 `json:"first_step_seconds"`
	Again float64 `json:"again_seconds"`
	// Upload is by formula: the checkpoint over the uplink that weft plan assumes, which a move
	// to another machine would take besides.
	Upload float64 `json:"upload_seconds"`
	Uplink float64 `json:"uplink_bps"`
	Digest string  `json:"sha256"` // of the result, which an undisturbed process has too
}

// migrate is the benchmark of moving a computation.
type migrate struct {
	size, dir, from, to string
	steps               int
	every               time.Duration
}

func newMigrate(s Setup) *cobra.Command {
	var o migrate
	c := benchmark[migrateRow]{
		use:   "migrate",
		short: "How long a running computation takes to move to another process",
		long: `Run steps that each change all of a state in a process, decide during a step to
move, and continue in another process on other devices: the first writes a
checkpoint and ends, the second resumes it. The result must have the same bytes
as that of an undisturbed process. The time is from the decision until the
second process computes; the upload to another machine is estimated by formula.`,
		repeat: 1, measure: o.measure, text: writeMigrate,
	}.command(s)
	c.Flags().StringVar(&o.size, "bytes", "1GiB", "`size` of the state")
	c.Flags().StringVar(&o.from, "from", "cpu/2", "`devices` of the first process")
	c.Flags().StringVar(&o.to, "to", "cpu", "`devices` of the second process")
	c.Flags().IntVar(&o.steps, "steps", 6, "steps of the computation, of which half are done when it moves")
	c.Flags().DurationVar(&o.every, "every", 10*time.Second, "least time between two checkpoints")
	c.Flags().StringVar(&o.dir, "dir", "", "`folder` in which checkpoints are written and removed again (one for temporary files)")
	c.AddCommand(newMigrateProcess(s))
	return c
}

func (o *migrate) measure(m *meter) (rows []migrateRow, err error) {
	bytes, err := text.ParseSize(o.size)
	if err != nil || bytes < 1<<16 {
		return nil, terminal.Usagef("--bytes %s: a size is written such as 1GiB and is at least 64KiB", o.size)
	}
	if o.steps < 4 || o.every <= 0 {
		return nil, terminal.Usagef("--steps %d --every %v: expected at least 4 steps, and a time", o.steps, o.every)
	}
	if err := host.Enough("bench migrate", 5*bytes); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.dir, "weft-bench-")
	if err != nil {
		return nil, terminal.Usage(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := m.progress("process", 3*m.repeat)
	defer p.Finish()
	for i := range m.repeat {
		row := migrateRow{State: bytes / 8 * 8, From: o.from, To: o.to, Steps: o.steps, Uplink: plan.DefaultAssumptions().Uplink}
		folder := filepath.Join(dir, strconv.Itoa(i))
		p.At("until it moves")
		decided, err := o.leave(m.ctx, folder, &row)
		if err != nil {
			return rows, err
		}
		p.Add()
		p.At("after it moved")
		if err := o.arrive(m.ctx, folder, decided, &row); err != nil {
			return rows, err
		}
		p.Add()
		p.At("undisturbed")
		alone, err := o.start(m.ctx, o.from, row.State)
		if err != nil {
			return rows, err
		}
		if err := errors.Join(alone.end(func(*migrateEvent) {}), os.RemoveAll(folder)); err != nil {
			return rows, err
		}
		p.Add()
		if alone.digest != row.Digest {
			return rows, fmt.Errorf("the computation that moved has another result: SHA-256 %s and not %s", row.Digest, alone.digest)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// leave runs the first process until it has ended for the move. It returns when that was
// decided.
func (o *migrate) leave(ctx context.Context, folder string, row *migrateRow) (decided time.Time, err error) {
	a, err := o.start(ctx, o.from, row.State, "--dir", folder, "--every", o.every.String(), "--moves")
	if err != nil {
		return decided, err
	}
	var began, ended time.Time // of the last step
	err = a.until(func(e *migrateEvent) bool {
		began, ended = ended, time.Now()
		return e.Event == "step" && e.Done == o.steps/2
	})
	if err != nil {
		return decided, err
	}
	// The decision falls in the middle of a step, so that work is lost as it is in the mean.
	time.Sleep(min(ended.Sub(began)/2, time.Second))
	decided = time.Now()
	row.Done, row.Lost = o.steps/2, decided.Sub(ended).Seconds()
	if err := a.stop(); err != nil {
		return decided, err
	}
	err = a.end(func(e *migrateEvent) {
		switch e.Event {
		case "saved":
			row.Bytes = e.Bytes
		case "step": // it was quicker than the decision
			row.Done, row.Lost = e.Done, 0
		}
	})
	row.Stop = time.Since(decided).Seconds()
	row.Upload = float64(row.Bytes) / row.Uplink
	return decided, err
}

// arrive runs the second process, which goes on from the checkpoint.
func (o *migrate) arrive(ctx context.Context, folder string, decided time.Time, row *migrateRow) error {
	b, err := o.start(ctx, o.to, row.State, "--dir", folder, "--every", o.every.String(), "--resume")
	if err != nil {
		return err
	}
	row.Kept = -1
	if err := b.until(func(e *migrateEvent) bool {
		switch e.Event {
		case "resumed":
			row.Kept = e.Done
		case "begin":
			row.Again = time.Since(decided).Seconds()
		case "step":
			row.First = time.Since(decided).Seconds() - row.Again
			return true
		}
		return false
	}); err != nil {
		return err
	}
	row.Start = row.Again - row.Stop
	err = b.end(func(*migrateEvent) {})
	row.Digest = b.digest
	switch {
	case err != nil:
		return err
	case row.Kept < 1 || row.Kept > row.Done:
		return fmt.Errorf("the second process went on after %d steps of %d that were done", row.Kept, row.Done)
	}
	return nil
}

// migrateEvent is a line that a process writes.
type migrateEvent struct {
	Event  string `json:"event"` // "begin" and "step" of the computation, "saved" and "resumed" of checkpoints, "result"
	Done   int    `json:"done"`
	Bytes  int64  `json:"bytes,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// migrateProcess is a process that computes.
type migrateProcess struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	lines  *bufio.Scanner
	stderr bytes.Buffer
	digest string
}

// start starts this program as a process that computes.
func (o *migrate) start(ctx context.Context, devices string, state int64, more ...string) (*migrateProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"bench", "migrate", "process", "--devices", devices, "--bytes", strconv.FormatInt(state, 10), "--steps", strconv.Itoa(o.steps)}
	p := &migrateProcess{cmd: exec.CommandContext(ctx, self, append(args, more...)...)}
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin, p.lines = in, bufio.NewScanner(out)
	return p, p.cmd.Start()
}

// stop tells the process to end. It writes a checkpoint first.
func (p *migrateProcess) stop() error { return p.stdin.Close() }

// until reads what the process writes until it is what was looked for. That the process ends
// before is an error.
func (p *migrateProcess) until(found func(e *migrateEvent) bool) error {
	seen := false
	if err := p.read(func(e *migrateEvent) bool { seen = found(e); return seen }); err != nil || seen {
		return err
	}
	return errors.New("bench migrate process: it ended before it had done a step to be measured")
}

// end reads what the process writes until it has ended.
func (p *migrateProcess) end(tell func(e *migrateEvent)) error {
	return p.read(func(e *migrateEvent) bool { tell(e); return false })
}

// read reads what the process writes until it is to stop, or else until the process has ended. An
// error of the process is one.
func (p *migrateProcess) read(stop func(e *migrateEvent) bool) error {
	for p.lines.Scan() {
		var e migrateEvent
		if err := json.Unmarshal(p.lines.Bytes(), &e); err != nil {
			continue // not of this benchmark, as of a runtime that is told to print
		}
		if e.Event == "result" {
			p.digest = e.Digest
		}
		if stop(&e) {
			return nil
		}
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("bench migrate process: %w: %s", err, strings.TrimSpace(p.stderr.String()))
	}
	return nil
}

// newMigrateProcess makes the command that the benchmark starts: it computes until its
// standard input ends.
func newMigrateProcess(s Setup) *cobra.Command {
	var dir string
	var state int64
	var steps int
	var every time.Duration
	var resume, moves bool
	c := &cobra.Command{
		Use: "process", Short: "Compute until standard input ends", Hidden: true, Args: terminal.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			m := &meter{Setup: s, stderr: c.ErrOrStderr()}
			if m.options, err = s.Options(); err != nil {
				return err
			}
			var cancel context.CancelFunc
			m.ctx, cancel = context.WithCancel(c.Context())
			defer cancel()
			if dir != "" || moves {
				go func() { // ends with the process
					_, _ = io.Copy(io.Discard, c.InOrStdin())
					cancel()
				}()
			}
			held := steps
			if moves {
				held = steps - 1
			}
			return migrating(m, weft.Checkpoint{Dir: dir, Every: every, Resume: resume}, state, steps, held, json.NewEncoder(c.OutOrStdout()))
		},
	}
	c.Flags().Int64Var(&state, "bytes", 1<<20, "size of the state")
	c.Flags().IntVar(&steps, "steps", 6, "steps of the computation")
	c.Flags().StringVar(&dir, "dir", "", "`folder` of checkpoints; none keeps nothing")
	c.Flags().DurationVar(&every, "every", 10*time.Second, "least time between two checkpoints")
	c.Flags().BoolVar(&moves, "moves", false, "leave the last step to another process: wait for the end of standard input before it")
	c.Flags().BoolVar(&resume, "resume", false, "go on from the checkpoint in the folder")
	return c
}

// migrateTasks is the number of tasks of a step: the same on any devices, since what a step
// computes depends on where the state is cut.
const migrateTasks = 16

// migrating computes and writes what happens. It waits to be told to stop before step held, if there
// is such a step. That it was told to stop is no error.
func migrating(m *meter, keep weft.Checkpoint, state int64, steps, held int, out *json.Encoder) (err error) {
	events := make(chan migrateEvent, 16) // checkpoints are told by a goroutine of the runtime
	wrote := make(chan error, 1)
	go func() {
		var failed error
		for e := range events {
			failed = errors.Join(failed, out.Encode(e))
		}
		wrote <- failed
	}()
	defer func() {
		close(events)
		err = errors.Join(err, <-wrote)
	}()
	keep.Saved = func(s weft.Saved) {
		e := migrateEvent{Event: "saved", Done: s.Done, Bytes: s.Bytes}
		if s.Resumed {
			e.Event = "resumed"
		}
		if s.Err == nil {
			events <- e
		}
	}
	rt, err := m.open(func(o *weft.Options) { o.Checkpoint = keep })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	g, err := evolveGraph(state, migrateTasks)
	if err != nil {
		return err
	}
	data, err := weft.Alloc[byte](rt, "state", int(state))
	if err != nil {
		return err
	}
	defer data.Release()
	ready, err := rt.Prepare(g, data.As("from"), data.As("to"))
	if err != nil {
		return err
	}
	err = rt.Steps(m.ctx, weft.Keep{Name: "migrate"}, steps, []weft.Binding{data.As("state")}, func(ctx context.Context, i int) error {
		if i == held {
			<-ctx.Done()
			return ctx.Err()
		}
		events <- migrateEvent{Event: "begin", Done: i}
		if _, err := ready.Run(ctx); err != nil {
			return err
		}
		events <- migrateEvent{Event: "step", Done: i + 1}
		return nil
	})
	if err != nil {
		if m.ctx.Err() != nil {
			return nil
		}
		return err
	}
	all, err := data.Get(m.ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(all)
	events <- migrateEvent{Event: "result", Done: steps, Digest: hex.EncodeToString(sum[:])}
	return nil
}

func writeMigrate(w io.Writer, rows []migrateRow) {
	out := [][]any{{"state", "from", "to", "stop", "start", "running again", "first step", "steps kept", "lost", "upload by formula"}}
	for _, r := range rows {
		out = append(out, []any{text.FormatSize(r.State), r.From, r.To, terminal.Seconds(r.Stop), terminal.Seconds(r.Start), terminal.Seconds(r.Again), terminal.Seconds(r.First),
			fmt.Sprintf("%d of %d", r.Kept, r.Done), terminal.Seconds(r.Lost), terminal.Seconds(r.Upload)})
	}
	terminal.Table(w, out)
	fmt.Fprintln(w, "\nStop: from the decision until the first process had ended, with its checkpoint\non the disk. Start: until the second had its devices and the state. Lost: work\nof the step that was ended, which is done again. Upload: the checkpoint at the\nuplink that weft plan assumes, in addition. The result equals that of an\nundisturbed process.")
}
