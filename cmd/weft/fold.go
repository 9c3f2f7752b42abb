package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/fold"
)

// folding is a call of `weft run fold`.
type folding struct {
	settings    *settings
	options     weft.Options
	config      fold.Config
	temperature string
	ladder      string
	check       bool
	asJSON      bool
	out         string
	html        string
	keeping     keeping
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
structure. Lengths are in angstrom, temperatures in contact energies.

A structure is one that comes with weft (1CRN, 1UBI or BPTI) or a file in the
PDB or mmCIF format, also compressed by gzip. With two temperatures, replicas
have those in between and exchange them, and the heat capacity is computed.

Replicas are dealt out to devices whole. With --split-chain and one replica its
beads are, and devices gather all positions after every step. That pays for few
chains: it is refused with the predicted times where it does not, unless it is
--split-chain=always. The trajectory has the same bytes.`,
		Example: `  weft run fold
  weft run fold --structure BPTI --temperature 0.6-1.1 --steps 2000000
  weft run fold --temperature 0.6-1.1 --html fold.html
  weft run fold --structure 4ake.pdb --chain A --out traj.pdb`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.flags(c.Flags())
	terminal.Complete(c, "structure", protein.Shipped)
	terminal.Complete(c, "ladder", func() []string { return []string{"geometric", "tuned"} })
	return c
}

func (f *folding) flags(p *pflag.FlagSet) {
	p.StringVar(&f.config.Structure, "structure", "1CRN", "`structure` that comes with weft, or a file")
	p.StringVar(&f.config.Select.Chain, "chain", "", "chain to fold (the first); several with commas, or all")
	p.IntVar(&f.config.Select.Model, "model", 0, "model of the file to take (the first)")
	p.IntVar(&f.config.Steps, "steps", 500_000, "time steps of each replica")
	p.IntVar(&f.config.Every, "frame", 1000, "steps between frames, after which replicas exchange temperatures")
	p.IntVar(&f.config.Replicas, "replicas", 16, "trajectories; eight are computed at once")
	p.StringVar(&f.temperature, "temperature", "0.7", "`temperature`, or lowest and highest as in 0.6-1.1")
	p.StringVar(&f.ladder, "ladder", "geometric", "`temperatures` in between: geometric, or tuned to exchange equally often")
	p.Uint32Var(&f.config.Seed, "seed", 1, "seed of the random numbers")
	p.StringVar(&f.config.Split, "split-chain", "", "split one replica over devices if that `pays`, or always")
	p.Lookup("split-chain").NoOptDefVal = fold.SplitPays
	p.BoolVar(&f.check, "check", true, "compare the last steps and energies with an independent reference")
	p.StringVarP(&f.out, "out", "o", "", "write frames of the lowest temperature to a `file`: .pdb, .dcd or .xtc")
	p.StringVar(&f.html, "html", "", "draw the result on a page in a `file`, which needs no network")
	p.BoolVar(&f.asJSON, "json", false, "write the report as JSON")
	f.keeping.bind(p)
}

// settle makes a configuration and options of the flags.
func (f *folding) settle() (err error) {
	var ok bool
	if f.config.Low, f.config.High, ok = ladder(f.temperature); !ok {
		return terminal.Usagef("--temperature %s: give a number above 0, or two as in 0.6-1.1", f.temperature)
	}
	if f.ladder != "geometric" && f.ladder != "tuned" {
		return terminal.Usagef("--ladder %s: give geometric or tuned", f.ladder)
	}
	f.config.Tuned = f.ladder == "tuned"
	if f.config.Steps == 0 || f.config.Every == 0 || f.config.Replicas == 0 {
		return terminal.Usagef("--steps %d, --frame %d, --replicas %d: give 1 or more", f.config.Steps, f.config.Every, f.config.Replicas)
	}
	if err := f.config.Validate(); err != nil {
		return terminal.Usage(err)
	}
	if f.options, err = f.settings.options(); err != nil {
		return err
	}
	_, err = f.keeping.settle(&f.options, 1)
	return err
}

// ladder reads a temperature above zero, or two with a hyphen between them; each may have one
// itself, as 1e-3 has.
func ladder(s string) (low, high float64, ok bool) {
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return v, v, v > 0
	}
	for i := range s {
		low, err := strconv.ParseFloat(s[:i], 64)
		if err != nil || s[i] != '-' {
			continue
		}
		if high, err := strconv.ParseFloat(s[i+1:], 64); err == nil {
			return low, high, low > 0 && high > 0
		}
	}
	return 0, 0, false
}

func (f *folding) run(c *cobra.Command) error {
	if err := f.settle(); err != nil {
		return err
	}
	format := ""
	if f.out != "" {
		var err error
		if format, err = fold.Format(f.out); err != nil {
			return terminal.Usage(err)
		}
	}
	if f.html != "" && f.html == f.out {
		return terminal.Usagef("--html and --out are both %s: name two files", f.html)
	}
	s, err := protein.Open(f.config.Structure, f.config.Select)
	if err != nil {
		return terminal.Usage(err)
	}
	if err := host.Enough("fold", int64(f.config.Bytes(s.Len()))); err != nil {
		return err
	}
	r, err := fold.NewOf(f.config, s)
	if err != nil {
		return terminal.Usage(err)
	}
	if f.out != "" {
		if err := r.Writable(format); err != nil {
			return terminal.Usage(err)
		}
	}
	files, err := f.files(c, r, format)
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
	rep, err := f.do(c, rt, r)
	if rep == nil {
		return err
	}
	for _, file := range files {
		if err != nil {
			break
		}
		if err = file.out.Replace(func(w io.Writer) error { return file.write(w, rep) }); err == nil {
			rep.Files = append(rep.Files, file.name)
		}
	}
	if perr := terminal.Print(c, f.asJSON, rep, func(b *bytes.Buffer) error { rep.text(b); return nil }); perr != nil {
		return perr
	}
	return err
}

// foldFile is a file that is written of the result.
type foldFile struct {
	name  string
	out   *terminal.Output
	write func(w io.Writer, rep *foldReport) error
}

// files opens what the result is written to.
func (f *folding) files(c *cobra.Command, r *fold.Run, format string) ([]foldFile, error) {
	var files []foldFile
	for _, file := range []foldFile{
		{name: f.out, write: func(w io.Writer, _ *foldReport) error { return r.Write(w, format) }},
		{name: f.html, write: func(w io.Writer, rep *foldReport) error { return writeFoldPage(w, r, rep) }},
	} {
		if file.name == "" {
			continue
		}
		var err error
		if file.out, err = terminal.OpenOutput(c, file.name); err != nil {
			for _, opened := range files {
				opened.out.Close()
			}
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// do folds and checks. Where a run was interrupted, the report says how far it came; it is nil
// after another error.
func (f *folding) do(c *cobra.Command, rt *weft.Runtime, r *fold.Run) (*foldReport, error) {
	p := terminal.StartProgress(c.ErrOrStderr(), f.asJSON, "frame", r.Rounds())
	defer p.Finish()
	f.keeping.show(p, r.Name())
	f.keeping.did.unit = "frame"
	p.At("%s", r.Name())
	var seen soFar
	err := r.Do(c.Context(), rt, func(round int) {
		for range seen.look(r, round+1) {
			p.Add()
		}
		now, best := r.Lowest(round), seen.best
		p.At("step %d: Q %.2f RMSD %.1f best %.1f", now.Step, now.Q, now.RMSD, best.RMSD)
	})
	if errors.Is(err, fold.ErrSplit) {
		return nil, fmt.Errorf("%w; run it without --split-chain, or with --split-chain=always", err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, checkpointError(err)
	}
	rep := newFoldReport(r, rt)
	rep.Kept = f.keeping.report(rt)
	if err != nil {
		rep.interrupt(&seen)
		return rep, err
	}
	rep.Done = rep.Frames
	p.At("computing the heat capacity")
	full := *rep
	switch err := terminal.Abandonable(c.Context(), func() error { full.fill(r); return nil }); {
	case errors.Is(err, context.Canceled):
		rep.Interrupted = true
		return rep, err
	case err != nil:
		return nil, err
	}
	rep = &full
	if !f.check {
		return rep, nil
	}
	p.At("checking the result")
	switch err := terminal.Abandonable(c.Context(), r.Check); {
	case errors.Is(err, context.Canceled):
		rep.Interrupted = true
		return rep, err
	case err != nil:
		return nil, fmt.Errorf("the result is wrong: %w", err)
	}
	rep.Checked, rep.Misses = true, r.Misses()
	return rep, nil
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
	Job         string          `json:"job"`
	Class       string          `json:"class"`
	Devices     []string        `json:"devices"`
	Missing     int             `json:"missing_residues,omitempty"`
	Steps       float64         `json:"steps_per_second,omitempty"` // of all replicas, zero where none was computed
	Replicas    []foldRow       `json:"replicas,omitempty"`
	Folded      int             `json:"folded"`
	Best        *fold.Frame     `json:"best,omitempty"`
	GDTTS       float64         `json:"gdt_ts,omitempty"`     // of the last frame of the replica on the lowest rung
	Acceptance  *float64        `json:"acceptance,omitempty"` // of exchanges
	ByPair      []float64       `json:"acceptance_by_pair,omitempty"`
	Ladder      []float64       `json:"ladder,omitempty"`      // temperatures
	Tuned       int             `json:"tuned_steps,omitempty"` // in which it was tuned
	Heat        *fold.Heat      `json:"heat_capacity,omitempty"`
	Files       []string        `json:"files,omitempty"` // that were written
	Frames      int             `json:"frames"`
	Done        int             `json:"frames_done"`
	Verified    *verified       `json:"verified,omitempty"` // by --verify
	Checked     bool            `json:"checked"`
	Misses      []workload.Miss `json:"misses,omitempty"`
	Interrupted bool            `json:"interrupted,omitempty"`
	Kept        *keptReport     `json:"checkpoints,omitempty"`
}

// foldRow is the row of one replica in the report.
type foldRow struct {
	fold.Frame         // its last
	Best       float64 `json:"best_rmsd"`
	FoldedAt   int     `json:"folded_at,omitempty"` // step of its first folded frame
}

func newFoldReport(r *fold.Run, rt *weft.Runtime) *foldReport {
	rep := &foldReport{Job: r.Name(), Class: string(workload.RowExact), Missing: r.Structure().Missing(), Frames: r.Rounds()}
	done := r.Verified()
	rep.Verified = rep.Verified.with(&done)
	devices := rt.Machine().Devices
	for _, d := range devices {
		rep.Devices = append(rep.Devices, d.Name)
		if d.Backend != devices[0].Backend {
			rep.Class = string(workload.Tolerance)
		}
	}
	return rep
}

// interrupt says how far a folding came that was interrupted.
func (rep *foldReport) interrupt(seen *soFar) {
	rep.Interrupted, rep.Done = true, seen.rounds
	if seen.rounds > 0 {
		rep.Best = &seen.best
	} else if rep.Kept != nil {
		rep.Done = rep.Kept.From
	}
}

// fill says what came of a folding.
func (rep *foldReport) fill(r *fold.Run) {
	rounds := r.Rounds()
	rep.Steps = r.Rate()
	best, lowest := r.Best(rounds), r.Lowest(rounds-1)
	rep.Best, rep.GDTTS = &best, protein.GDTTS(r.Positions(lowest.Replica), r.Model().Native)
	for k := range r.Replicas() {
		row := foldRow{Frame: r.Frame(rounds-1, k), Best: r.Frame(0, k).RMSD}
		for i := range rounds {
			frame := r.Frame(i, k)
			row.Best = min(row.Best, frame.RMSD)
			if frame.Folded() && row.FoldedAt == 0 {
				row.FoldedAt = frame.Step
				rep.Folded++
			}
		}
		rep.Replicas = append(rep.Replicas, row)
	}
	if asked, done := r.Exchanges(); asked > 0 {
		share := float64(done) / float64(asked)
		rep.Acceptance = &share
		rep.Ladder = r.Temperatures()
		if tuned := r.Tuned(); tuned > 0 {
			rep.Tuned = r.Frame(tuned-1, 0).Step
		}
		if by := r.Acceptances(); !slices.ContainsFunc(by, math.IsNaN) {
			rep.ByPair = by
		}
	}
	rep.Heat, _ = r.Heat() // nil where there are too few samples
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
		rep.Verified.text(b)
		if rep.Kept != nil {
			rep.Kept.text(b, true)
		} else {
			fmt.Fprintln(b, "Nothing is kept; --checkpoint DIR keeps what has been computed.")
		}
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
	if rep.Kept != nil {
		rep.Kept.text(b, false)
	}
	rep.Verified.text(b)
	if len(rep.Files) > 0 {
		fmt.Fprintf(b, "Written: %s.\n", strings.Join(rep.Files, ", "))
	}
	switch {
	case rep.Checked:
		fmt.Fprintln(b, "The energies and the last steps agree with an independent reference.")
		writeMisses(b, rep.Misses)
	case rep.Interrupted:
		fmt.Fprintln(b, "Interrupted; the result was not checked, and no file was written.")
	}
	fmt.Fprintln(b, "The model is built from the native structure; it predicts none.")
}
