package landscape

import (
	"bytes"
	_ "embed" // for the structure that is shipped
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/philox"
)

// ErrConfig is wrapped by every error of Validate.
var ErrConfig = errors.New("bad landscape")

// crambinPDB is entry 1CRN of the Protein Data Bank, 46 residues.
//
//go:embed testdata/1crn.pdb
var crambinPDB []byte

// maxResidues bounds the work, which grows with the third power of it.
const maxResidues = 20_000

// Config says of which structure to sample the landscape. The zero value is
// crambin (1CRN), which is shipped.
type Config struct {
	// Path is a file in the PDB format.
	Path string
	// Chain is the chain to read; empty means the first.
	Chain string
	// Residues, when not zero, asks for a helix of so many residues instead of
	// a file.
	Residues int
}

// Validate reports a configuration that names no structure. What a file holds
// is seen by New.
func (c Config) Validate() error {
	switch {
	case c.Residues != 0 && (c.Path != "" || c.Chain != ""):
		return fmt.Errorf("landscape: a helix of %d residues and file %q, chain %q: %w: name either", c.Residues, c.Path, c.Chain, ErrConfig)
	case c.Residues != 0 && (c.Residues < 4 || c.Residues > maxResidues):
		return fmt.Errorf("landscape: a helix of %d residues: %w: there must be 4 to %d", c.Residues, ErrConfig, maxResidues)
	}
	return nil
}

// Job is one landscape. Its rows are dealt out by cost.
type Job struct {
	name     string
	model    *Model
	energy   float64 // of the native structure
	turns    []float64
	energies []float64
}

// New reads or makes the structure.
func New(c Config) (*Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	native, name, err := structure(c)
	if err != nil {
		return nil, err
	}
	if n := len(native) / 3; n > maxResidues {
		return nil, fmt.Errorf("landscape: %s has %d residues: %w: there must be 4 to %d", name, n, ErrConfig, maxResidues)
	}
	model, err := NewModel(native)
	if err != nil {
		return nil, err
	}
	return &Job{
		name: name, model: model, energy: model.Energy(native), turns: Turns(),
		energies: make([]float64, RowCount(model.Beads())*Angles),
	}, nil
}

// structure returns the coordinates that a configuration names, and a name.
func structure(c Config) (native []float64, name string, err error) {
	if c.Residues != 0 {
		return helix(c.Residues), "helix", nil
	}
	name = "1CRN"
	var r io.Reader = bytes.NewReader(crambinPDB)
	if c.Path != "" {
		f, err := os.Open(c.Path)
		if err != nil {
			return nil, "", fmt.Errorf("landscape: %w", err)
		}
		defer f.Close()
		name, r = filepath.Base(c.Path), f
	}
	if c.Chain != "" {
		name += " chain " + c.Chain
	}
	native, err = ReadCA(r, c.Chain)
	return native, name, err
}

// helix returns the C-alpha atoms of an ideal alpha helix: 100 degrees and 1.5
// angstrom a residue, at 2.3 angstrom from the axis.
func helix(n int) []float64 {
	xyz := make([]float64, 0, 3*n)
	for i := range n {
		sin, cos := math.Sincos(float64(i%18) * 100 * math.Pi / 180) // 18 residues are five turns
		xyz = append(xyz, 2.3*cos, 2.3*sin, 1.5*float64(i))
	}
	return xyz
}

// Kernel computes rows; its arguments are the native structure, the turns and
// rows of energies. Its params are the number of beads, the first row, the
// number of rows, a zero and the native energy as a float64; its grid is the
// rows and angles. Rows of more than shaderPairs pairs are computed by longKernel:
// the same, but that a shader adds up so many pairs from one on, which is the zero,
// and finishKernel makes energies of the sums.
var Kernel = workload.With(workload.GoKernel("landscape.rows", 1, graph.All),
	workload.PTX(ptx, "landscape_rows", 256, 1, 250), workload.SPIRV(spirv, "landscape_rows", 128, 1, 125))

var (
	part         = workload.SPIRV(spirv, "landscape_part", 128, 1, 125)
	longKernel   = &graph.Kernel{Name: "landscape.long", Impls: append(Kernel.Impls[:2:2], part)}
	moreKernel   = workload.Shader("landscape.more", part)
	finishKernel = workload.Shader("landscape.finish", workload.SPIRV(spirv, "landscape_finish", 128, 1, graph.All))
)

// shaderPairs is how many pairs of a row a shader adds up in one launch.
const shaderPairs = 1 << 18

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return map[string]weft.Func{"landscape.rows": rows} }

// rows computes the rows lo to hi-1 of a task, an item each.
func rows(c *weft.Call, lo, hi int) {
	first, energy := workload.Param(c.Params, 1), math.Float64frombits(binary.LittleEndian.Uint64(c.Params[16:]))
	native, turns, out := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1]), weft.View[float64](c.Args[2])
	for i := lo; i < hi; i++ {
		Row(out[i*Angles:(i+1)*Angles], native, turns, energy, first+i)
	}
}

// Name says of which structure the landscape is.
func (j *Job) Name() string { return fmt.Sprintf("landscape %s, %d residues", j.name, j.model.Beads()) }

// Class is R: rows do not depend on how they are dealt out.
func (j *Job) Class() workload.Class { return workload.RowExact }

// Pieces are the rows. Those in the middle of the chain cost most.
func (j *Job) Pieces() sched.Pieces {
	n := j.model.Beads()
	return sched.Pieces{
		Extent: int64(RowCount(n)),
		Cost:   func(lo, hi int64) float64 { return float64(CostBefore(n, int(hi)) - CostBefore(n, int(lo))) },
		Bytes: func(lo, hi int64) (in, out int64) {
			if hi == lo {
				return 0, 0
			}
			return 8 * int64(3*n+len(j.turns)), 8 * Angles * (hi - lo)
		},
	}
}

// Whole is the landscape as one task.
func (j *Job) Whole() graph.Task { return j.task(0, int64(RowCount(j.model.Beads()))) }

func (j *Job) task(lo, hi int64) graph.Task {
	n := j.model.Beads()
	step := func(k *graph.Kernel, from int) graph.Step {
		params := workload.Params(n, int(lo), int(hi-lo), from)
		return graph.Step{Kernel: k, Launch: workload.Grid(hi-lo, Angles), Params: binary.LittleEndian.AppendUint64(params, math.Float64bits(j.energy))}
	}
	steps := []graph.Step{step(Kernel, 0)}
	if most := n * n / 4; most > shaderPairs { // of the row in the middle
		steps[0].Kernel = longKernel
		for from := shaderPairs; from < most; from += shaderPairs {
			steps = append(steps, step(moreKernel, from))
		}
		steps = append(steps, step(finishKernel, 0))
	}
	return graph.Task{
		Name:  fmt.Sprintf("rows %d-%d", lo, hi),
		Steps: steps,
		Work:  graph.Work{Ops: Ops(n, int(lo), int(hi)), Bytes: Bytes(n, int(lo), int(hi)), Unit: graph.FP64},
	}
}

// Graph has a task for each range of rows.
func (j *Job) Graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	native := b.Data(graph.Data{Name: "native", Bytes: int64(8 * len(j.model.native)), Input: true})
	turns := b.Data(graph.Data{Name: "turns", Bytes: int64(8 * len(j.turns)), Input: true})
	energies := b.Data(graph.Data{Name: "energies", Bytes: int64(8 * len(j.energies)), Output: true})
	for _, r := range ranges {
		t := j.task(r.Lo, r.Hi)
		t.Uses = []graph.Use{
			{Data: native, Access: graph.Read},
			{Data: turns, Access: graph.Read},
			{Data: energies, Offset: 8 * Angles * r.Lo, Bytes: 8 * Angles * r.Len(), Access: graph.Write},
		}
		b.Add(t)
	}
	return b.Build()
}

// Bind ties the structure, the turns and the energies to the job's memory.
func (j *Job) Bind() []weft.Binding {
	return []weft.Binding{weft.Bind("native", j.model.native), weft.Bind("turns", j.turns), weft.Bind("energies", j.energies)}
}

// Result is the landscape after a run: the energy at [i*Angles+k] is that after
// turning the beads behind i+1 by k of Angles steps.
func (j *Job) Result() []float64 { return j.energies }

// Native is the energy of the native structure.
func (j *Job) Native() float64 { return j.energy }

// Summary is the native energy and how many turned structures still hold
// together: their contacts outweigh their clashes.
func (j *Job) Summary() string {
	bound := 0
	for _, e := range j.energies {
		if e < 0 {
			bound++
		}
	}
	return fmt.Sprintf("native energy %.3f, %d of %d turned structures bound", j.energy, bound, len(j.energies))
}

// What Check computes again: entries worth so many pairs of beads, which takes
// a tenth of a second, but a few at least.
const (
	checkPairs   = 1_000_000
	checkEntries = 32
)

// Check sees that every row begins with the native energy, and compares entries
// from all over the landscape with the full potential of the turned structure.
func (j *Job) Check() error {
	n := j.model.Beads()
	count := RowCount(n)
	differ := func(i, k int, want float64) error {
		// Energies of overlapping beads are as steep as they are large.
		if got := j.energies[i*Angles+k]; !(math.Abs(got-want) <= 1e-9*(100+math.Abs(j.energy)+math.Abs(want))) {
			return fmt.Errorf("landscape: row %d, angle %d: energy %v, by the full potential %v", i, k, got, want)
		}
		return nil
	}
	for i := range count {
		if err := differ(i, 0, j.energy); err != nil {
			return err
		}
	}
	entries := min(max(2*checkPairs/(n*n), checkEntries), count*Angles)
	places := philox.Source{}
	for e := range entries {
		// Rows in turn, each as often as any other; angles at random.
		i, k := e*count/entries, int(places.Uint32(uint64(e), 0, 0)%Angles)
		if err := differ(i, k, j.model.Energy(j.model.Turned(i, 2*math.Pi*float64(k)/Angles))); err != nil {
			return err
		}
	}
	return nil
}

// Rate is pairs of beads a second, each at one angle.
func (j *Job) Rate(d time.Duration) string {
	n := j.model.Beads()
	return fmt.Sprintf("%.1f Mpair/s", Angles*float64(CostBefore(n, RowCount(n)))/d.Seconds()/1e6)
}
