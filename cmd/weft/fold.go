package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/fold"
)

// folding is a call of `weft run fold`.
type folding struct {
	catalog.Fold
	settings *settings
	options  weft.Options
	check    bool
	asJSON   bool
	out      string
	html     string
	keeping  keeping
}

func newFold(s *settings) *cobra.Command {
	f := &folding{settings: s}
	c := &cobra.Command{
		Use:   "fold",
		Short: "Fold replicas of a protein chain",
		Long: `Fold replicas of a protein chain, which begin straight, by Langevin dynamics of
a structure-based model: one bead a residue, and a potential whose minimum is
the native structure. The model is built from that structure. It shows how and
how fast the chain finds it, and at which temperature it melts; it predicts no
structure. Lengths are in angstrom, temperatures in contact energies. Q is the
share of native contacts that a replica has, and Rg its radius of gyration.

A structure is one that comes with weft (1CRN, 1UBI or BPTI) or a file in the
PDB or mmCIF format, also compressed by gzip. With two temperatures, replicas
have those in between and exchange them, and the heat capacity is computed.
Several structures, with commas, fold at once: each has all replicas, a report,
and files of its own (fold.html is fold-1CRN.html), and devices advance
whichever has the most left to do.

Replicas are dealt out to devices whole. With --split-chain and one replica its
beads are, and devices gather all positions after every step. That pays for few
chains: it is refused with the predicted times where it does not, unless it is
--split-chain=always. The trajectory has the same bytes.

A trajectory (--out) takes the place of an earlier file with the first frame,
and has each frame as soon as it is computed. Whatever moment weft is ended at,
all frames before can be read; a DCD file's header may count one less than
there are. A run that goes on from a checkpoint goes on in its file, without a
frame twice or missing. Frames for which the disk had no room are written once
it has.`,
		Example: `  weft run fold
  weft run fold --structure BPTI --temperature 0.6-1.1 --steps 2000000
  weft run fold --temperature 0.6-1.1 --html fold.html
  weft run fold --structure 1CRN,BPTI,1UBI --html fold.html --out traj.dcd
  weft run fold --structure 4ake.pdb --chain A --out traj.pdb`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.bind(c.Flags())
	terminal.Complete(c, "structure", protein.Shipped)
	terminal.Complete(c, "spacing", func() []string { return []string{"geometric", "tuned"} })
	return c
}

func (f *folding) bind(p *pflag.FlagSet) {
	flags := &catalog.Flags{}
	f.Flags(flags)
	workloads.Bind(p, flags)
	p.BoolVar(&f.check, "check", true, "compare the last steps and energies with an independent reference")
	p.StringVarP(&f.out, "out", "o", "", "write frames of the lowest temperature to a `file`: .pdb, .dcd or .xtc")
	p.StringVar(&f.html, "html", "", "draw the result on a page in a `file`, which needs no network")
	p.BoolVar(&f.asJSON, "json", false, "write the report as JSON")
	f.keeping.bind(p)
}

// settle makes a configuration and options of the flags.
func (f *folding) settle() (err error) {
	if err := f.Complete(); err != nil {
		return err
	}
	if f.options, err = f.settings.options(); err != nil {
		return err
	}
	_, err = f.keeping.settle(&f.options, 1)
	return err
}

func (f *folding) run(c *cobra.Command) error {
	if err := f.settle(); err != nil {
		return err
	}
	runs, err := f.open()
	if err != nil {
		return err
	}
	files, err := f.files(c, runs)
	if err != nil {
		return err
	}
	for _, file := range files {
		defer file.out.Close()
	}
	rt, err := open(c.Context(), f.options, c.ErrOrStderr())
	if err != nil {
		return checkpointError(err)
	}
	defer rt.Close()
	rep, err := f.do(c, rt, runs, files)
	if rep == nil {
		return err
	}
	for _, file := range files {
		one := rep.Structures[file.run]
		written := false
		if written, err = file.finish(one, err); written {
			one.Files = append(one.Files, file.name)
		}
	}
	var shown any = rep
	if len(runs) == 1 {
		shown = rep.Structures[0]
	}
	if perr := terminal.Print(c, f.asJSON, shown, func(b *bytes.Buffer) error { rep.text(b); return nil }); perr != nil {
		return perr
	}
	return err
}

// open reads the structures.
func (f *folding) open() ([]*fold.Run, error) {
	var read []*protein.Structure
	memory := 0.0
	for _, name := range f.named() {
		if name == "" {
			return nil, terminal.Usagef("--structure %s: name a structure or a file, several with commas", f.Structure)
		}
		s, err := protein.Open(name, f.Config.Select)
		if err != nil {
			return nil, terminal.Usage(err)
		}
		read, memory = append(read, s), memory+f.Config.Bytes(s.Len())
	}
	if len(read) > 1 && f.Config.Split != fold.SplitNever {
		return nil, terminal.Usagef("--split-chain with %d structures: give one", len(read))
	}
	if err := host.Enough("fold", int64(memory)); err != nil {
		return nil, err
	}
	var runs []*fold.Run
	for _, s := range read {
		r, err := fold.NewOf(f.Config, s)
		if err != nil {
			return nil, terminal.Usage(err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// foldFile is a file that is written of the result: a trajectory, while it is computed, or at the end a page.
type foldFile struct {
	name  string
	run   int
	out   *terminal.Output
	traj  *fold.Trajectory
	write func(w io.Writer, rep *foldReport) error
}

// begin makes the trajectory for a file that is open.
func (file *foldFile) begin(r *fold.Run, format string) (err error) {
	if w := file.out.Stream(); w != nil {
		file.traj, err = fold.NewStream(r, w, format)
	} else {
		file.traj, err = fold.NewTrajectory(r, file.out, format)
	}
	return err
}

// frames writes the frames of a trajectory that have been computed. A failed write is tried
// again by the next call.
func (file *foldFile) frames(n int) error {
	err := file.traj.Write(n)
	switch {
	case err == nil || errors.Is(err, fold.ErrFormat):
		return err
	case file.out.Stream() != nil:
		err = terminal.FileError(file.name, err)
	}
	return fmt.Errorf("%w; it has the first %d of %d frames", err, file.traj.Frames(), n)
}

// finish writes the rest of a file, but a page only where nothing failed. It reports whether
// the file was written, and returns the first error.
func (file *foldFile) finish(rep *foldReport, failed error) (bool, error) {
	switch {
	case file.traj != nil:
		err := file.frames(rep.Done)
		if err == nil {
			err = file.out.Close()
		}
		if failed == nil {
			failed = err
		}
		return err == nil && rep.Done > 0, failed
	case failed != nil:
		return false, failed
	}
	err := file.out.Replace(func(w io.Writer) error { return file.write(w, rep) })
	return err == nil, err
}

// files opens what the results are written to.
func (f *folding) files(c *cobra.Command, runs []*fold.Run) ([]foldFile, error) {
	format := ""
	if f.out != "" {
		var err error
		if format, err = fold.Format(f.out); err != nil {
			return nil, terminal.Usage(err)
		}
	}
	if len(runs) > 1 && f.html == "-" {
		return nil, terminal.Usagef("--html - with %d structures: name a file, or give one", len(runs))
	}
	var files []foldFile
	for k, r := range runs {
		for _, file := range []foldFile{
			{name: f.out},
			{name: f.html, write: func(w io.Writer, rep *foldReport) error { return writeFoldPage(w, r, rep) }},
		} {
			if file.name == "" {
				continue
			}
			if file.run = k; len(runs) > 1 {
				file.name = nameFor(file.name, r.Structure().Name)
			}
			files = append(files, file)
		}
		if f.out == "" {
			continue
		}
		if err := r.Writable(format); err != nil {
			return nil, terminal.Usage(err)
		}
	}
	for k := range files {
		if len(runs) > 1 && slices.ContainsFunc(files[:k], func(other foldFile) bool { return other.name == files[k].name }) {
			return nil, terminal.Usagef("two files would be %s: give structures and files other names", files[k].name)
		}
	}
	var outputs []*terminal.Output
	err := func() (err error) {
		for k := range files {
			if files[k].out, err = terminal.OpenOutput(c, files[k].name); err != nil {
				return err
			}
			outputs = append(outputs, files[k].out)
			if files[k].write != nil {
				continue
			}
			if err := files[k].begin(runs[files[k].run], format); err != nil {
				return terminal.Usage(err)
			}
		}
		return terminal.Distinct(outputs, f.named()...)
	}()
	if err != nil {
		for _, o := range outputs {
			o.Close()
		}
		return nil, err
	}
	return files, nil
}

// do folds and checks. Where a run was interrupted, the report says how far it came; it is nil
// after another error.
func (f *folding) do(c *cobra.Command, rt *weft.Runtime, runs []*fold.Run, files []foldFile) (*foldReports, error) {
	total, title := 0, runs[0].Name()
	for _, r := range runs {
		total += r.Rounds()
	}
	if len(runs) > 1 {
		title = fmt.Sprintf("fold %d structures", len(runs))
	}
	p := terminal.StartProgress(c.ErrOrStderr(), f.asJSON, "frame", total)
	defer p.Finish()
	f.keeping.show(p, title)
	f.keeping.did.unit, f.keeping.all = "frame", total
	p.At("%s", title)
	seen := make([]soFar, len(runs))
	begin := time.Now()
	err := fold.DoAll(c.Context(), rt, runs, func(k, round int) {
		r := runs[k]
		for range seen[k].look(r, round+1) {
			p.Add()
		}
		now, of := r.Lowest(round), ""
		if len(runs) > 1 {
			of = r.Structure().Name + ", "
		}
		wrong := ""
		for _, file := range files {
			if file.run != k || file.traj == nil {
				continue
			}
			if err := file.frames(round + 1); err != nil {
				wrong = fmt.Sprintf(" (%v)", err)
			}
		}
		p.At("%sstep %d: Q %.2f RMSD %.1f best %.1f%s", of, now.Step, now.Q, now.RMSD, seen[k].best.RMSD, wrong)
	})
	took := time.Since(begin)
	if errors.Is(err, fold.ErrSplit) {
		return nil, fmt.Errorf("%w; run it without --split-chain, or with --split-chain=always", err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, checkpointError(err)
	}
	reps := newFoldReports(runs, rt)
	reps.Kept = f.keeping.report(rt)
	if err != nil {
		for k, rep := range reps.Structures {
			rep.interrupt(runs[k])
		}
		return reps.kept(), err
	}
	if len(runs) > 1 && (reps.Kept == nil || !reps.Kept.Resumed) {
		reps.timed(took, runs)
	}
	p.At("computing the heat capacity")
	for k, r := range runs {
		rep := reps.Structures[k]
		rep.Done = rep.Frames
		full := *rep
		switch err := terminal.Abandonable(c.Context(), func() error { full.Fill(r, len(runs) == 1); return nil }); {
		case errors.Is(err, context.Canceled):
			return reps.interrupted(), err
		case err != nil:
			return nil, err
		}
		reps.Structures[k] = &full
	}
	return f.checked(c, p, reps.kept(), runs)
}

// checked checks the results and says so in their reports.
func (f *folding) checked(c *cobra.Command, p *terminal.Progress, reps *foldReports, runs []*fold.Run) (*foldReports, error) {
	if !f.check {
		return reps, nil
	}
	p.At("checking the result")
	for k, r := range runs {
		switch err := terminal.Abandonable(c.Context(), r.Check); {
		case errors.Is(err, context.Canceled):
			return reps.interrupted(), err
		case err != nil:
			return nil, fmt.Errorf("the result is wrong: %w", err)
		}
		reps.Structures[k].Checked, reps.Structures[k].Misses = true, r.Misses()
	}
	return reps, nil
}

// soFar has the best frame of the rounds that have been folded.
type soFar struct {
	rounds int
	best   fold.Frame // the one with the lowest RMSD
}

// look sees the rounds up to a number of them, each once, also those that were resumed, and
// returns how many are new.
func (s *soFar) look(r *fold.Run, rounds int) int {
	if s.rounds == 0 {
		s.best = r.Frame(0, 0)
	}
	before := s.rounds
	for ; s.rounds < rounds; s.rounds++ {
		for k := range r.Replicas() {
			if f := r.Frame(s.rounds, k); f.RMSD < s.best.RMSD {
				s.best = f
			}
		}
	}
	return s.rounds - before
}

// foldReport is the report of a folding.
type foldReport struct {
	catalog.FoldReport
	Files       []string        `json:"files,omitempty"`    // that were written
	Verified    *verified       `json:"verified,omitempty"` // by --verify
	Checked     bool            `json:"checked"`
	Misses      []workload.Miss `json:"misses,omitempty"`
	Interrupted bool            `json:"interrupted,omitempty"`
	Kept        *keptReport     `json:"checkpoints,omitempty"`
}

func newFoldReport(r *fold.Run, rt *weft.Runtime) *foldReport {
	rep := &foldReport{FoldReport: catalog.NewFoldReport(r, rt)}
	done := r.Verified()
	rep.Verified = rep.Verified.with(&done)
	return rep
}

// interrupt says how far a folding came that was interrupted.
func (rep *foldReport) interrupt(r *fold.Run) {
	rep.Interrupted, rep.Done = true, r.Done()
	if rep.Done > 0 {
		best := r.Best(rep.Done)
		rep.Best = &best
	}
}

// melts reports whether the heat capacity says at which temperature the chain melts.
func (rep *foldReport) melts() bool { return rep.Heat != nil && rep.Folded > 0 && !rep.Heat.Edge }

// foldRows is the number of replicas that the text report lists; JSON lists all.
const foldRows = 16

func (rep *foldReport) text(b *bytes.Buffer) {
	fmt.Fprintf(b, "%s on %s, class %s\n\n", rep.Job, terminal.Count(len(rep.Devices), "device"), rep.Class)
	if rep.Missing > 0 {
		fmt.Fprintf(b, "The structure lacks %s, over which bonds of native length go.\n", terminal.Count(rep.Missing, "residue"))
	}
	if rep.Interrupted && len(rep.Replicas) == 0 {
		fmt.Fprintf(b, "Interrupted after %d of %s.\n", rep.Done, terminal.Count(rep.Frames, "frame"))
		if rep.Best != nil {
			fmt.Fprintf(b, "Best so far: RMSD %.2f, Q %.2f, by replica %d at step %d.\n", rep.Best.RMSD, rep.Best.Q, rep.Best.Replica, rep.Best.Step)
		}
		if len(rep.Files) > 0 {
			fmt.Fprintf(b, "Written, as far as it was computed: %s.\n", strings.Join(rep.Files, ", "))
		}
		rep.Verified.text(b)
		return
	}
	rows := [][]any{{"replica", "folded at", "best RMSD", "last RMSD", "Q", "Rg", "energy", "temperature"}}
	for i, r := range rep.Replicas {
		if i == foldRows {
			break
		}
		at := "-"
		if r.FoldedAt > 0 {
			at = strconv.Itoa(r.FoldedAt)
		}
		rows = append(rows, []any{r.Replica, at, fmt.Sprintf("%.2f", r.Best), fmt.Sprintf("%.2f", r.RMSD), fmt.Sprintf("%.2f", r.Q), fmt.Sprintf("%.1f", r.Rg), fmt.Sprintf("%.1f", r.Energy), fmt.Sprintf("%.3f", r.Temperature)})
	}
	terminal.Table(b, rows)
	if more := len(rep.Replicas) - foldRows; more > 0 {
		fmt.Fprintf(b, "and %s more; --json lists them.\n", terminal.Count(more, "replica"))
	}
	fmt.Fprintf(b, "\nFolded: %d of %s, which had an RMSD below %g and Q above %g in some frame.\n", rep.Folded, terminal.Count(len(rep.Replicas), "replica"), fold.FoldedRMSD, fold.FoldedQ)
	fmt.Fprintf(b, "Best: RMSD %.2f, Q %.2f, by replica %d at step %d. GDT-TS at the end, lowest temperature: %.1f.\n", rep.Best.RMSD, rep.Best.Q, rep.Best.Replica, rep.Best.Step, rep.GDTTS)
	if rep.Acceptance != nil {
		by := ""
		if len(rep.ByPair) > 1 {
			by = fmt.Sprintf(", %s to %s by neighbours", terminal.Percent(slices.Min(rep.ByPair)), terminal.Percent(slices.Max(rep.ByPair)))
		}
		fmt.Fprintf(b, "Exchanges: %s of those asked%s.\n", terminal.Percent(*rep.Acceptance), by)
		if rep.Tuned > 0 {
			fmt.Fprintf(b, "The ladder was tuned in the first %d steps: %.3f.\n", rep.Tuned, rep.Ladder)
		}
	}
	if h := rep.Heat; h != nil && rep.Folded == 0 {
		fmt.Fprintln(b, "Heat capacity: no replica folded, so that where the chain melts is not known; take more steps.")
	} else if h != nil && h.Edge {
		fmt.Fprintf(b, "Heat capacity: largest at an end of the temperatures, %.3f; take others to find where it melts.\n", h.Melting)
	} else if h != nil {
		fmt.Fprintf(b, "Heat capacity: largest at temperature %.3f ± %.3f, where the chain melts.\n", h.Melting, h.Error)
		fmt.Fprintf(b, "Left out are the first %d steps; a replica by itself is correlated over %d.\n", h.Discarded, h.Walks)
		if h.Short {
			fmt.Fprintln(b, "That is long for so few steps, and the error may be larger; take more steps.")
		}
	}
	if rep.Steps > 0 {
		fmt.Fprintf(b, "Rate: %s of all replicas.\n", terminal.SI(rep.Steps, "step/s"))
	}
	rep.Verified.text(b)
	if len(rep.Files) > 0 {
		fmt.Fprintf(b, "Written: %s.\n", strings.Join(rep.Files, ", "))
	}
	switch {
	case rep.Checked:
		fmt.Fprintln(b, "The energies and the last steps agree with an independent reference.")
		writeMisses(b, rep.Misses)
	case rep.Interrupted && len(rep.Files) == 0:
		fmt.Fprintln(b, "Interrupted; the result was not checked, and no file was written.")
	case rep.Interrupted:
		fmt.Fprintln(b, "Interrupted; the result was not checked.")
	}
}
