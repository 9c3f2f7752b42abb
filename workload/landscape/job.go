package landscape

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// MaxResidues bounds the work, which grows with the third power of it.
const MaxResidues = 20_000

// Config says of which structure to sample the landscape. The zero value is
// crambin (1CRN), which is shipped.
type Config struct {
	// Structure is the name of a structure that is shipped, or of a file ([protein.Open]).
	Structure string
	// Select says which chain and model to take of it.
	Select protein.Select
	// Given, if not nil, is a structure that was read already, for which Structure does not matter, and Select is
	// part of a name alone.
	Given *protein.Structure
	// Residues, if not zero, is the length of a helix to use instead of a file.
	Residues int
}

// Validate reports a configuration that names no structure. What a file holds
// is seen by New.
func (c Config) Validate() error {
	if c.Given != nil && c.Residues == 0 {
		if err := one(c.Given); err != nil {
			return err
		}
		_, err := NewModel(c.Given.Coordinates())
		return err
	}
	switch {
	case c.Residues != 0 && (c.Given != nil || c.Structure != "" || c.Select != protein.Select{}):
		return fmt.Errorf("landscape: a helix of %d residues and structure %q, chain %q, model %d: %w: name one of the two", c.Residues, c.Structure, c.Select.Chain, c.Select.Model, workload.ErrConfig)
	case c.Residues != 0 && (c.Residues < 4 || c.Residues > MaxResidues):
		return fmt.Errorf("landscape: a helix of %d residues: %w: there must be 4 to %d", c.Residues, workload.ErrConfig, MaxResidues)
	}
	return nil
}

// Bytes is the host memory that the job takes at most: three coordinates and a row of
// energies for each residue, and the turns. Residues of a file are unknown before it
// is read and not counted.
func (c Config) Bytes() float64 {
	if c.Given != nil {
		c.Residues = c.Given.Len()
	}
	return 8 * ((3+Angles)*float64(c.Residues) + 2*Angles)
}

// one returns an error unless a structure is one chain that is short enough.
func one(s *protein.Structure) error {
	if n := len(s.Ends()); n > 1 {
		return fmt.Errorf("landscape: %s: %d chains: %w: a landscape is of one; name it", s.Name, n, workload.ErrConfig)
	}
	return short(s.Len(), s.Name)
}

// short returns an error for more residues than a landscape may have.
func short(n int, name string) error {
	if n > MaxResidues {
		return fmt.Errorf("landscape: %s has %d residues: %w: there must be 4 to %d", name, n, workload.ErrConfig, MaxResidues)
	}
	return nil
}

// job is one landscape. Its rows, or parts of them, are dealt out by cost.
type job struct {
	workload.Declared
	name     string
	parts    int // of a row, each of which is a piece of the work
	model    *Model
	energy   float64 // of the native structure
	turns    []float64
	energies []float64
	sampled  picked // of the last Check
}

// New reads or makes the structure.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	native, name, err := structure(c)
	if err != nil {
		return nil, err
	}
	return newJob(native, name)
}

// structure returns the coordinates that a configuration names, and a name.
func structure(c Config) (native []float64, name string, err error) {
	if c.Residues != 0 {
		return helix(c.Residues), "helix", nil
	}
	s := c.Given
	if s == nil {
		if s, err = protein.Open(cmp.Or(c.Structure, "1CRN"), c.Select); err != nil {
			return nil, "", fmt.Errorf("landscape: %w", err)
		}
	}
	if err := one(s); err != nil {
		return nil, "", err
	}
	name = s.Name
	if c.Select.Chain != "" {
		name += " chain " + c.Select.Chain
	}
	return s.Coordinates(), name, nil
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

// rowKernel computes rows; its arguments are the native structure, the turns and
// rows of energies; its grid is the rows and angles. Rows of more than shaderPairs
// pairs are computed by longKernel: the same, except that a shader adds up shaderPairs
// pairs, from params.fromPair on, and finishKernel makes energies of the sums.
var rowKernel = workload.With(graph.GoKernel("landscape.rows", 1, graph.All),
	workload.PTX(ptx, "landscape_rows", 256, 1, 250), workload.SPIRV(spirv, "landscape_rows", 128, 1, 125))

var (
	part         = workload.SPIRV(spirv, "landscape_part", 128, 1, 125)
	longKernel   = &graph.Kernel{Name: "landscape.long", Impls: append(rowKernel.Impls[:2:2], part)}
	moreKernel   = workload.Only("landscape.more", part)
	finishKernel = workload.Only("landscape.finish", workload.SPIRV(spirv, "landscape_finish", 128, 1, graph.All))
)

// shaderPairs is the number of pairs of a row that a shader adds up in one launch.
const shaderPairs = 1 << 18

// hostedParts is into how many parts a row is cut where all devices are CPUs, so
// that many cores end together. Their angles must be a multiple of lanes, and many
// enough that setting up a pair anew for each part costs little: of 200 angles, a
// tenth of the part at most.
const hostedParts = 5

// partsKernel is as Kernel, but that its parameters count parts of rows. Its grid is the
// rows that it computes something of: none is cut but at the ends of a task.
var partsKernel = graph.GoKernel("landscape.parts", 1, graph.All)

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func {
	return signature.Funcs(kernels)
}

var kernels = []signature.Kernel{pieces(rowKernel.Name, 1), pieces(partsKernel.Name, hostedParts)}

// params are the parameters of all kernels.
type params struct {
	beads       int
	first, rows int     // or parts of rows
	fromPair    int     // where a shader begins in its rows
	energy      float64 // of the native structure
}

// pieces returns a kernel for tasks that are made of pieces of rows, parts to a row. One
// item covers all pieces of one row in the task.
func pieces(name string, parts int) signature.Kernel {
	does := "energies of a chain turned about its bonds"
	if parts > 1 {
		does += fmt.Sprintf(", in pieces of 1/%d of a row", parts)
	}
	angles := Angles / parts
	return signature.Of(signature.Kernel{
		Name: name, Does: does, Grid: fmt.Sprintf("rows, %d", Angles), Per: []uint32{1, graph.All},
		Args: []signature.Arg{signature.In("beads", graph.F8), signature.In("turns", graph.F8), signature.Out("energies", graph.F8)},
	}, func(_ *weft.Call, p params) (n signature.Need, err error) {
		if err := signature.Positive([]string{"beads less 2", "rows"}, rowCount(p.beads), p.rows); err != nil {
			return n, err
		}
		if all := rowCount(p.beads) * parts; p.first+p.rows > all {
			return n, fmt.Errorf("rows %d to %d of %d", p.first, p.first+p.rows-1, all)
		}
		n.Items = int64((p.first+p.rows-1)/parts - p.first/parts + 1)
		n.Elements[0], n.Elements[1], n.Elements[2] = signature.Product(p.beads, 3), 2*Angles, signature.Product(p.rows, angles)
		return n, nil
	}, func(c *weft.Call, p params, lo, hi int) {
		first, count := p.first, p.rows
		native, turns, out := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1]), weft.View[float64](c.Args[2])
		native = native[:3*p.beads]
		for i := first/parts + lo; i < first/parts+hi && !c.Stopped(); i++ {
			from, to := max(i*parts, first), min((i+1)*parts, first+count)
			rowPart(out[(from-first)*angles:(to-first)*angles], native, turns, p.energy, i, (from-i*parts)*angles)
		}
	})
}

// Hosted is the job in its form for CPUs alone, whose items are parts of rows.
func (j *job) Hosted() workload.Job {
	hosted := *j
	hosted.parts = hostedParts
	return hosted.declare()
}

// taskPairs is the least number of bead pairs per task: about 20 µs of work, which keeps the
// overhead of a task near 2 %.
const taskPairs = 128

func (j *job) extent() int64 { return int64(rowCount(j.model.Beads()) * j.parts) }

// costBefore returns what the items before one cost: the pairs of each at its
// angles, in units of the angles of a piece.
func (j *job) costBefore(piece int64) int64 {
	n, parts := j.model.Beads(), int64(j.parts)
	row := int(piece / parts)
	return parts*costBefore(n, row) + piece%parts*costOf(n, row)
}

// offset returns where a piece begins in the bytes of the energies.
func (j *job) offset(piece int64) int64 { return 8 * piece * int64(Angles/j.parts) }

// declare says what the job is: rows or their parts, of which those in the middle of the chain cost most. Rows do not
// depend on how they are dealt out. For short chains a task is worth no less than all parts of a row.
func (j *job) declare() *job {
	of, n := "rows", j.model.Beads()
	if j.parts > 1 {
		of = "parts"
	}
	j.Declared = workload.Declare(workload.Declaration{
		Name: fmt.Sprintf("landscape %s, %d residues", j.name, n), Class: workload.RowExact, Of: of, Extent: j.extent(),
		Grain: min(1+taskPairs/costOf(n, n/2-2), int64(j.parts)), // by the row in the middle
		Ports: []workload.Port{
			workload.All("native", j.model.Native), workload.All("turns", j.turns), workload.Out("energies", j.energies, Angles/j.parts),
		},
		Cost: func(lo, hi int64) float64 { return float64(j.costBefore(hi) - j.costBefore(lo)) },
		Task: j.task,
	})
	return j
}

// task completes the task of a range.
func (j *job) task(t *graph.Task, lo, hi int64) {
	n, parts := j.model.Beads(), int64(j.parts)
	rows := (hi+parts-1)/parts - lo/parts
	step := func(k *graph.Kernel, from int) graph.Step {
		return graph.Step{Kernel: k, Launch: graph.Grid(rows, Angles)}.With(params{n, int(lo), int(hi - lo), from, j.energy})
	}
	t.Work = graph.Work{
		Ops:   pairOps * float64(Angles/parts) * float64(j.costBefore(hi)-j.costBefore(lo)),
		Bytes: float64(8*int64(len(j.model.Native)) + j.offset(hi) - j.offset(lo)),
		Unit:  graph.FP64,
	}
	t.Steps = []graph.Step{step(rowKernel, 0)}
	if parts > 1 {
		t.Steps[0].Kernel = partsKernel
	} else if most := n * n / 4; most > shaderPairs { // of the row in the middle
		t.Steps[0].Kernel = longKernel
		for from := shaderPairs; from < most; from += shaderPairs {
			t.Steps = append(t.Steps, step(moreKernel, from))
		}
		t.Steps = append(t.Steps, step(finishKernel, 0))
	}
}

// Result is the landscape after a run: the energy at [i*Angles+k] is that after
// turning the beads behind i+1 by k of Angles steps.
func (j *job) Result() []float64 { return j.energies }

// Native is the energy of the native structure.
func (j *job) Native() float64 { return j.energy }

// Summary is the native energy and how many turned structures still hold
// together: their contacts outweigh their clashes.
func (j *job) Summary() string {
	bound := 0
	for _, e := range j.energies {
		if e < 0 {
			bound++
		}
	}
	return fmt.Sprintf("native energy %.3f, %d of %d turned structures bound", j.energy, bound, len(j.energies))
}

// Rate is pairs of beads a second, each at one angle.
func (j *job) Rate(d time.Duration) string {
	n := j.model.Beads()
	return fmt.Sprintf("%.1f Mpair/s", Angles*float64(costBefore(n, rowCount(n)))/d.Seconds()/1e6)
}
