package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/text"
)

// keeping is the flags of a run that is kept in checkpoints, and what came of it.
type keeping struct {
	dir    string
	every  time.Duration
	resume bool
	ifAny  bool                     // resume if there is a checkpoint
	params func() map[string]string // what the result depends on
	flags  *pflag.FlagSet
	all    int // tasks of all computations of the run, if it has several

	mu       sync.Mutex // guards the fields below: checkpoints are told by a goroutine of the runtime
	progress *terminal.Progress
	name     string // of what is run
	did      keptReport
	each     map[string]weft.Saved // the last that was told of each computation
}

// keptReport is the part of a report about checkpoints.
type keptReport struct {
	Dir     string `json:"dir"`
	Written int    `json:"written"`
	Failed  int    `json:"failed,omitempty"` // that were not written
	Why     string `json:"why,omitempty"`    // of the last of them
	Bytes   int64  `json:"bytes"`
	State   int64  `json:"state_bytes"` // of the last one
	// Held is the time that the run waited for copies of its state.
	Held    float64 `json:"held_seconds"`
	Resumed bool    `json:"resumed"`
	From    int     `json:"from,omitempty"`  // tasks that were done when it was resumed
	Done    int     `json:"done"`            // tasks that the last one has
	Total   int     `json:"total,omitempty"` // tasks there are
	// Refused says why checkpoints were passed over.
	Refused []string `json:"refused,omitempty"`
	unit    string   // what is counted where it is not tasks
}

// keptName identifies the computation of a run in the folder.
const keptName = "run"

func (k *keeping) bind(f *pflag.FlagSet) {
	k.flags = f
	f.StringVar(&k.dir, "checkpoint", "", "write checkpoints to a `folder`, from which --resume continues")
	f.DurationVar(&k.every, "every", 10*time.Second, "least time between two checkpoints")
	f.BoolVar(&k.resume, "resume", false, "go on from the checkpoint in the folder, and end as the run would have")
	f.BoolVar(&k.ifAny, "resume-if-any", false, "like --resume, but begin where there is no checkpoint")
}

// settle checks the flags and returns how often to run. A checkpoint is of one run.
func (k *keeping) settle(o *weft.Options, repeat int) (int, error) {
	switch {
	case k.dir == "" && k.flags.Changed("checkpoint"):
		return 0, terminal.Usagef(`--checkpoint "": name a folder`)
	case k.resume && k.ifAny:
		return 0, terminal.Usagef("--resume and --resume-if-any: give one of them")
	case k.dir == "" && (k.resume || k.ifAny || k.flags.Changed("every")):
		return 0, terminal.Usagef("--resume, --resume-if-any and --every go with --checkpoint DIR")
	case k.dir == "":
		return repeat, nil
	case k.every <= 0:
		return 0, terminal.Usagef("--every %v: give a time, as in --every 30s", k.every)
	case repeat != 1 && k.flags.Changed("repeat"):
		return 0, terminal.Usagef("--repeat %d: a checkpoint is of one run; leave it out", repeat)
	}
	k.did.Dir = k.dir
	o.Checkpoint = weft.Checkpoint{Dir: k.dir, Every: k.every, Resume: k.resume, ResumeIfAny: k.ifAny, Saved: k.saved}
	return 1, nil
}

// asked reports whether the run is kept.
func (k *keeping) asked() bool { return k.dir != "" }

// keep names the computation.
func (k *keeping) keep() weft.Keep {
	params := make(map[string]string)
	if k.params != nil {
		params = k.params()
	}
	// RunStages has a parameter "graph" of its own.
	if of, ok := params["graph"]; ok {
		delete(params, "graph")
		params["--graph"] = of
	}
	return weft.Keep{Name: keptName, Params: params}
}

// show has the progress line tell of checkpoints.
func (k *keeping) show(p *terminal.Progress, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.progress, k.name = p, name
}

// saved counts a checkpoint and tells of it on the progress line.
func (k *keeping) saved(s weft.Saved) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := &k.did
	if s.Err == nil {
		if k.each == nil {
			k.each = make(map[string]weft.Saved)
		}
		d.Done, d.State = d.Done+s.Done-k.each[s.Name].Done, d.State+s.State-k.each[s.Name].State
		k.each[s.Name] = s
	}
	d.Total = max(s.Total, k.all)
	switch {
	case s.Resumed:
		d.Resumed, d.From = true, d.From+s.Done
		for _, err := range s.Refused {
			d.Refused = append(d.Refused, err.Error())
		}
		k.progress.At("%s, resumed at %d of %d", k.name, d.Done, d.Total)
	case s.Err != nil:
		d.Failed++
		d.Why = s.Err.Error()
		k.progress.At("%s, no checkpoint: %v", k.name, s.Err)
	default:
		d.Written++
		d.Bytes += s.Bytes
		d.Held += s.Held.Seconds()
		k.progress.At("%s, kept %d of %d", k.name, d.Done, d.Total)
	}
}

// report returns what a report says, nil for a run that was not kept. It waits for the last
// checkpoint.
func (k *keeping) report(rt *weft.Runtime) *keptReport {
	if !k.asked() {
		return nil
	}
	_ = rt.Checkpoint(context.Background()) // what went wrong was told
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.did
	return &out
}

// row makes the row of a run that was resumed one of the rest of it, which no prediction and no
// rate is of.
func (k *keeping) row(r runRow) runRow {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.did.Resumed {
		r.Predicted, r.Samples, r.Rate, r.Resumed = 0, 0, "-", true
	}
	return r
}

// finished reports whether the run had been finished before, so that nothing was computed.
func (r *keptReport) finished() bool { return r != nil && r.Resumed && r.From == r.Total }

// counted returns the name of the unit that a report counts.
func (r *keptReport) counted() string { return cmp.Or(r.unit, "task") }

// text writes the lines of a report, of a run that was interrupted or not.
func (r *keptReport) text(w io.Writer, interrupted bool) {
	switch {
	case r.finished():
		fmt.Fprintf(w, "Nothing was left to compute: the run in %s had finished.\n", r.Dir)
	case r.Resumed:
		fmt.Fprintf(w, "Resumed after %d of %s.\n", r.From, terminal.Count(r.Total, r.counted()))
	}
	for _, why := range r.Refused {
		fmt.Fprintf(w, "A checkpoint could not be used, and the one before was: %s.\n", why)
	}
	if r.Written > 0 {
		them := "them"
		if r.Written == 1 {
			them = "it"
		}
		fmt.Fprintf(w, "%s in %s: %s written, the run waited %s for %s.\n",
			terminal.Count(r.Written, "checkpoint"), r.Dir, terminal.SI(float64(r.Bytes), "B"), terminal.Seconds(r.Held), them)
	}
	if r.Failed > 0 {
		fmt.Fprintf(w, "%s could not be written: %s.\n", terminal.Count(r.Failed, "checkpoint"), r.Why)
	}
	switch {
	case !interrupted && r.Failed > 0 && (r.Written > 0 || r.Resumed):
		fmt.Fprintf(w, "The newest in the folder has %d of %s.\n", r.Done, terminal.Count(r.Total, r.counted()))
	case !interrupted && r.Failed > 0:
		fmt.Fprintln(w, "There is none in the folder.")
	case !interrupted:
	case r.Written > 0 || r.Resumed:
		fmt.Fprintf(w, "Kept: %d of %s; the same command with --resume goes on from there.\n", r.Done, terminal.Count(r.Total, r.counted()))
	default:
		fmt.Fprintln(w, "No "+r.counted()+" is kept yet; the same command begins anew.")
	}
}

// checkpointError marks errors about checkpoints that the user can mend as usage errors.
func checkpointError(err error) error {
	var path *fs.PathError
	switch {
	case errors.As(err, &path) && path.Op == "mkdir": // the folder cannot be made where it is named
		return terminal.Usage(err)
	case errors.Is(err, weft.ErrHasCheckpoint):
		return terminal.Usage(fmt.Errorf("%w with --resume", err)) // after "or resume it"
	case errors.Is(err, weft.ErrNoCheckpoint), errors.Is(err, weft.ErrOtherCheckpoint):
		return terminal.Usage(err)
	}
	return err
}

func newCheckpoint() *cobra.Command {
	c := &cobra.Command{
		Use:   "checkpoint WHAT",
		Short: "Show what checkpoints hold",
		Args:  terminal.OneOf("command"),
		RunE:  func(*cobra.Command, []string) error { return nil },
	}
	var asJSON bool
	show := &cobra.Command{
		Use:   "show DIR",
		Short: "Show what the checkpoints in a folder hold, and verify them",
		Long: `Show what the checkpoints in a folder hold: whose they are, how far it was and
which data they have. All of it is read, and compared with its checksums. The
exit status is 1 if one of them is damaged.`,
		Example: "  weft checkpoint show /var/tmp/life",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("checkpoint show takes one folder, and %d are given", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			infos, err := weft.ReadCheckpoints(args[0])
			if errors.Is(err, weft.ErrNoCheckpoint) || errors.Is(err, syscall.ENOTDIR) {
				return noneIn(args[0])
			}
			if err != nil {
				return checkpointError(err)
			}
			if err := terminal.Print(c, asJSON, infos, func(b *bytes.Buffer) error {
				writeCheckpoints(b, infos)
				return nil
			}); err != nil {
				return err
			}
			for i := range infos {
				if err := infos[i].Err(); err != nil {
					return fmt.Errorf("%s: %w", checkpoint.Shown(infos[i].File), err)
				}
			}
			return nil
		},
	}
	show.Flags().BoolVar(&asJSON, "json", false, "write it as JSON")
	c.AddCommand(show)
	return c
}

// noneIn says why a folder has no checkpoints to show.
func noneIn(dir string) error {
	inside, _ := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
	switch info, err := os.Stat(dir); {
	case err != nil:
		return terminal.Usagef("%s: there is no such folder", terminal.OneLine(dir))
	case !info.IsDir():
		return terminal.Usagef("%s is no folder", terminal.OneLine(dir))
	case len(inside) > 0:
		return terminal.Usagef("%s has the checkpoints of one computation: name the folder it is in", terminal.OneLine(dir))
	}
	return terminal.Usagef("%s: there are no checkpoints in it", terminal.OneLine(dir))
}

// writeCheckpoints writes a paragraph for each checkpoint.
func writeCheckpoints(b *bytes.Buffer, infos []weft.CheckpointInfo) {
	for i := range infos {
		c := &infos[i]
		if i > 0 {
			fmt.Fprintln(b)
		}
		if c.Data == nil { // it could not be read at all
			fmt.Fprintf(b, "%s is no checkpoint that can be used: %s.\n", checkpoint.Shown(c.File), checkpoint.Shown(c.Damaged))
			continue
		}
		state := "whole"
		if c.Err() != nil {
			state = "damaged: " + checkpoint.Shown(c.Damaged)
		}
		fmt.Fprintf(b, "%s, %s\n", checkpoint.Shown(c.File), state)
		unit := "step"
		if _, ok := c.Params["graph"]; ok {
			unit = "task"
		}
		done := fmt.Sprintf("%d of %s", c.Done, terminal.Count(c.Total, unit))
		if c.Finished {
			done += ", finished"
		}
		rows := [][]any{{"of", checkpoint.Shown(c.Name)}, {"done", done}, {"taken", c.Time.UTC().Format(time.RFC3339)}, {"state", text.FormatSize(c.State)}}
		for _, name := range slices.Sorted(maps.Keys(c.Data)) {
			rows = append(rows, []any{"data " + checkpoint.Shown(name), text.FormatSize(c.Data[name])})
		}
		for _, key := range slices.Sorted(maps.Keys(c.Params)) {
			value := []rune(c.Params[key])
			if len(value) > maxShown {
				value = append(value[:maxShown], '…')
			}
			rows = append(rows, []any{checkpoint.Shown(key), checkpoint.Shown(string(value))})
		}
		for _, r := range rows {
			fmt.Fprintf(b, "  %-14s %v\n", r[0], r[1])
		}
	}
}

// maxShown is the most characters of a parameter that a person is shown.
const maxShown = 50
