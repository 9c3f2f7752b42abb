package catalog

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/fold"
)

// Fold is the configuration of a folding as flags set it. A folding is no workload.Job, because each of its rounds
// needs the one before.
type Fold struct {
	Config      fold.Config
	Structure   string // one or several names, as weft run takes them
	temperature string
	spacing     string
}

// Flags adds the flags that say what is folded, and how.
func (o *Fold) Flags(p *Flags) {
	p.StringVar(&o.Structure, "structure", "1CRN", "`structure` that comes with weft, or a file; several with commas")
	p.StringVar(&o.Config.Select.Chain, "chain", "", "chain to fold (the first); several with commas, or all")
	p.IntVar(&o.Config.Select.Model, "model", 0, "model of the file to take (the first)")
	p.IntVar(&o.Config.Steps, "steps", 500_000, "time steps of each replica")
	p.IntVar(&o.Config.Every, "frame", 1000, "steps between frames, after which replicas exchange temperatures")
	p.IntVar(&o.Config.Replicas, "replicas", 16, "trajectories of a structure; eight are computed at once")
	p.StringVar(&o.temperature, "temperature", "0.7", "`temperature`, or lowest and highest as in 0.6-1.1")
	p.StringVar(&o.spacing, "spacing", "geometric", "temperatures in between: geometric, or tuned to exchange equally often")
	p.Uint32Var(&o.Config.Seed, "seed", 1, "seed of the random numbers")
	p.StringVar(&o.Config.Split, "split-chain", "", "split one replica over devices if that `pays`, or always")
	p.Lookup("split-chain").Bare = fold.SplitPays
}

// Complete makes the configuration of the flags. What is wrong is a mistake of the user.
func (o *Fold) Complete() error {
	c := &o.Config
	var ok bool
	if c.Low, c.High, ok = Ladder(o.temperature); !ok {
		return mistakef("--temperature %s: give a number above 0, or two as in 0.6-1.1", o.temperature)
	}
	if o.spacing != "geometric" && o.spacing != "tuned" {
		return mistakef("--spacing %s: give geometric or tuned", o.spacing)
	}
	c.Tuned = o.spacing == "tuned"
	if c.Steps == 0 || c.Every == 0 || c.Replicas == 0 {
		return mistakef("--steps %d, --frame %d, --replicas %d: give 1 or more", c.Steps, c.Every, c.Replicas)
	}
	if err := c.Validate(); err != nil {
		return mistake(err)
	}
	return nil
}

// Ladder reads a temperature above zero, or two with a hyphen between them; each may have one
// itself, as 1e-3 has.
func Ladder(s string) (low, high float64, ok bool) {
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

// FoldJob is a folding of one structure that somebody has asked for, with its trajectory.
type FoldJob struct {
	Fold
	Format string // of the trajectory: dcd, pdb or xtc; "" for none
	read   *protein.Structure
}

// Flags adds the flags of a folding and that of its trajectory.
func (o *FoldJob) Flags(p *Flags) {
	o.Fold.Flags(p)
	p.StringVar(&o.Format, "trajectory", "", "format of the trajectory that the result has: dcd, pdb or xtc (none)")
}

// mostResult is the most bytes of the result of a FoldJob, in JSON, and replicaBytes those of a replica in it.
const (
	mostResult   = 12 << 20
	replicaBytes = 400
)

// Read completes the configuration and reads the structure: that of a text in the PDB or mmCIF format, or without a text
// the shipped one that the flags name. The flags name no file. It errs for all that can be known to be wrong before
// anything is computed, with the words that weft run has for it, and for a result that is too large.
func (o *FoldJob) Read(text string) error {
	if err := o.Complete(); err != nil {
		return err
	}
	given := structure{&o.Structure, &o.Config.Select, &o.read}
	if err := given.read(text); err != nil {
		return mistake(err)
	}
	c := o.Config
	if err := host.Fits("fold", int64(min(c.Bytes(o.read.Len()), math.MaxInt64/2))); err != nil {
		return err
	}
	frames := (c.Steps + c.Every - 1) / c.Every
	size, err := trajectoryBytes(o.Format, o.read.Len(), frames)
	if err != nil {
		return mistake(err)
	}
	if all := (size+2)/3*4 + replicaBytes*int64(c.Replicas); all > mostResult {
		return mistakef("fold: %d frames and %d replicas of %d residues make a result of up to %d bytes (the trajectory %d before base64), and %d are the most: let more steps be between frames, or take fewer replicas or another format", frames, c.Replicas, o.read.Len(), all, size, mostResult)
	}
	// The model, and whether the format has room for its frames, do not depend on replicas.
	c.Replicas, c.High, c.Tuned = 1, c.Low, false
	if o.Format == "" {
		c.Steps = c.Every
	}
	r, err := fold.NewOf(c, o.read)
	if err == nil {
		err = r.Writable(o.Format)
	}
	if err != nil {
		return mistake(err)
	}
	return nil
}

// Make makes the folding once there is memory for it. name is that of its checkpoints.
func (o *FoldJob) Make(name string) (*fold.Run, error) {
	if err := host.Enough("fold", int64(o.Config.Bytes(o.read.Len()))); err != nil {
		return nil, err
	}
	r, err := fold.NewOf(o.Config, o.read)
	if err != nil {
		return nil, err
	}
	r.KeepAs(name)
	return r, nil
}

// trajectoryBytes is the most bytes of a trajectory in a format.
func trajectoryBytes(format string, residues, frames int) (int64, error) {
	n, of := int64(residues), int64(frames)
	switch format {
	case "":
		return 0, nil
	case "dcd":
		return 196 + of*(12*n+24), nil
	case "pdb":
		return 4 + of*(79*n+22), nil
	case "xtc": // three numbers of at most 32 bits and one of 1, for each atom
		return of * (13*n + 100), nil
	}
	return 0, fmt.Errorf("fold: format %q: %w: use dcd, pdb or xtc", format, fold.ErrFormat)
}

// Structures are the names of structures that are shipped.
func Structures() []string { return protein.Shipped() }

// FoldReport has the numbers that come out of a folding.
type FoldReport struct {
	Job        string      `json:"job"`
	Class      string      `json:"class"`
	Devices    []string    `json:"devices"`
	Missing    int         `json:"missing_residues,omitempty"`
	Steps      float64     `json:"steps_per_second,omitempty"` // of all replicas, zero where none was computed
	Replicas   []FoldRow   `json:"replicas,omitempty"`
	Folded     int         `json:"folded"`
	Best       *fold.Frame `json:"best,omitempty"`
	GDTTS      float64     `json:"gdt_ts,omitempty"`     // of the last frame of the replica on the lowest rung
	Acceptance *float64    `json:"acceptance,omitempty"` // of exchanges
	ByPair     []float64   `json:"acceptance_by_pair,omitempty"`
	Ladder     []float64   `json:"ladder,omitempty"`      // temperatures
	Tuned      int         `json:"tuned_steps,omitempty"` // in which it was tuned
	Heat       *fold.Heat  `json:"heat_capacity,omitempty"`
	Frames     int         `json:"frames"`
	Done       int         `json:"frames_done"`
}

// FoldRow is the row of one replica in the report.
type FoldRow struct {
	fold.Frame         // its last
	Best       float64 `json:"best_rmsd"`
	FoldedAt   int     `json:"folded_at,omitempty"` // step of its first folded frame
}

// NewFoldReport returns the report of a folding of which nothing has been computed.
func NewFoldReport(r *fold.Run, rt *weft.Runtime) FoldReport {
	rep := FoldReport{Job: r.Name(), Class: string(workload.RowExact), Missing: r.Structure().Missing(), Frames: r.Rounds()}
	devices := rt.Machine().Devices
	for i := range devices {
		rep.Devices = append(rep.Devices, devices[i].Name)
		if !machine.RoundAlike(&devices[i], &devices[0]) {
			rep.Class = string(workload.Tolerance)
		}
	}
	return rep
}

// Fill says what came of a folding, with its rate where it had the devices alone.
func (rep *FoldReport) Fill(r *fold.Run, alone bool) {
	rounds := r.Rounds()
	if alone {
		rep.Steps = r.Rate()
	}
	best, lowest := r.Best(rounds), r.Lowest(rounds-1)
	rep.Best, rep.GDTTS = &best, protein.GDTTS(r.Positions(lowest.Replica), r.Model().Native)
	for k := range r.Replicas() {
		row := FoldRow{Frame: r.Frame(rounds-1, k), Best: r.Frame(0, k).RMSD}
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

// Rate is the rate in words.
func (rep *FoldReport) Rate() string { return text.SI(rep.Steps, "step/s") }
