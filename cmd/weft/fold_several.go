package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/workload/protein/fold"
)

// named are the structures to fold. A comma is part of the name of a file that is there.
func (f *folding) named() []string {
	if _, err := os.Stat(f.Structure); err == nil {
		return []string{f.Structure}
	}
	return strings.Split(f.Structure, ",")
}

// nameFor is the name of the file for one of several structures: traj-1CRN.pdb for traj.pdb.
func nameFor(file, structure string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", r) {
			return r
		}
		return '_'
	}, structure)
	ext := filepath.Ext(file)
	return strings.TrimSuffix(file, ext) + "-" + name + ext
}

// foldReports is the report of the foldings of a command.
type foldReports struct {
	Structures []*foldReport `json:"structures"`
	// Seconds and Steps are of several foldings at once, and 0 of one.
	Seconds float64     `json:"seconds,omitempty"`          // that they took together
	Steps   float64     `json:"steps_per_second,omitempty"` // of all their replicas
	Kept    *keptReport `json:"checkpoints,omitempty"`
}

func newFoldReports(runs []*fold.Run, rt *weft.Runtime) *foldReports {
	reps := new(foldReports)
	for _, r := range runs {
		reps.Structures = append(reps.Structures, newFoldReport(r, rt))
	}
	return reps
}

// kept says in the report of one folding what was kept of it.
func (reps *foldReports) kept() *foldReports {
	if len(reps.Structures) == 1 {
		reps.Structures[0].Kept = reps.Kept
	}
	return reps
}

// interrupted says that the results were neither checked nor written.
func (reps *foldReports) interrupted() *foldReports {
	for _, rep := range reps.Structures {
		rep.Interrupted = true
	}
	return reps.kept()
}

// timed says what several foldings took.
func (reps *foldReports) timed(took time.Duration, runs []*fold.Run) {
	reps.Seconds = took.Seconds()
	for _, r := range runs {
		reps.Steps += float64(r.Frame(r.Rounds()-1, 0).Step) * float64(r.Replicas()) / reps.Seconds
	}
}

func (reps *foldReports) text(b *bytes.Buffer) {
	for k, rep := range reps.Structures {
		if k > 0 {
			fmt.Fprintln(b)
		}
		rep.text(b)
	}
	one := reps.Structures[0]
	if len(reps.Structures) > 1 {
		fmt.Fprintln(b)
	}
	if reps.Steps > 0 {
		fmt.Fprintf(b, "All took %s. Rate: %s of all replicas.\n", terminal.Seconds(reps.Seconds), terminal.SI(reps.Steps, "step/s"))
	}
	unfinished := one.Interrupted && len(one.Replicas) == 0
	switch {
	case reps.Kept != nil:
		reps.Kept.text(b, unfinished)
	case unfinished:
		fmt.Fprintln(b, "Nothing is kept; --checkpoint DIR keeps checkpoints.")
	}
	if !unfinished {
		fmt.Fprintln(b, "The model is built from the native structure; it predicts none.")
	}
}
