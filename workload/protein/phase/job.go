package phase

import (
	"fmt"
	"math"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// maxResidues bounds the memory, which is 48 bytes for each pair.
const maxResidues = 20_000

// maxTime bounds the phases, in picoseconds: larger ones lose digits.
const maxTime = 1000

// Config says of which structure to compute phase states.
type Config struct {
	// Structure is the name of a structure that is shipped, or a file; see protein.Open.
	Structure string
	Select    protein.Select
	// Given, if not nil, is a structure that was read already, for which Structure and Select do not matter.
	Given *protein.Structure
	// Residues, if not zero, is the length of a helix to use instead of a structure.
	Residues int
	Time     float64 // in picoseconds
}

// Validate reports a configuration that names no structure. What a file holds is seen by New.
func (c Config) Validate() error {
	switch {
	case (c.Structure != "" || c.Given != nil) == (c.Residues != 0):
		return fmt.Errorf("phase: a helix of %d residues and structure %q: %w: name one of the two", c.Residues, c.Structure, workload.ErrConfig)
	case c.Residues != 0 && (c.Residues < 2 || c.Residues > maxResidues):
		return fmt.Errorf("phase: a helix of %d residues: %w: there must be 2 to %d", c.Residues, workload.ErrConfig, maxResidues)
	case c.Given != nil && !possible(c.Given):
		return errResidues(c.Given)
	case !(c.Time >= 0 && c.Time <= maxTime):
		return fmt.Errorf("phase: time %v ps: %w: it must be from 0 to %d", c.Time, workload.ErrConfig, maxTime)
	}
	return nil
}

// Bytes is the host memory that the job of a helix, or of a structure that was read already, takes: waves and states, and waves once more
// for its check. Residues of a file are unknown before it is read; New counts them.
func (c Config) Bytes() float64 {
	if c.Given != nil {
		c.Residues = c.Given.Len()
	}
	return bytes(c.Residues)
}

// possible reports whether there may be states of a structure, by its size.
func possible(s *protein.Structure) bool { return s.Len() >= 2 && s.Len() <= maxResidues }

func errResidues(s *protein.Structure) error {
	return fmt.Errorf("phase: %s has %d residues: %w: there must be 2 to %d", s.Name, s.Len(), workload.ErrConfig, maxResidues)
}

func bytes(residues int) float64 {
	n := float64(residues)
	return 16*n*(n+lanes) + 32*n*n + 48*n
}

// enough is host.Enough, but for tests.
var enough = host.Enough

// job is the phase states of one structure. Its rows are dealt out.
type job struct {
	c         Config
	structure *protein.Structure
	stride    int
	beads     []float64
	kinds     []uint32
	states    []complex128
	picked    sample // of the last Check
}

// New reads or makes the structure. It errs if the states need more memory than is available.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	switch {
	case c.Given != nil:
		return newJob(c, c.Given)
	case c.Residues != 0:
		return newJob(c, protein.Helix(c.Residues))
	}
	s, err := protein.Open(c.Structure, c.Select)
	if err != nil {
		return nil, err
	}
	return newJob(c, s)
}

func newJob(c Config, s *protein.Structure) (*job, error) {
	n := s.Len()
	if !possible(s) {
		return nil, errResidues(s)
	}
	if err := enough(fmt.Sprintf("phase: states of %d residues", n), int64(bytes(n))); err != nil {
		return nil, err
	}
	j := &job{c: c, structure: s, stride: (n + lanes - 1) / lanes * lanes, beads: s.Coordinates(), states: make([]complex128, n*n)}
	for i, x := range j.beads {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("phase: %s: a coordinate of residue %d is %v: %w: coordinates must be finite", s.Name, i/3, x, workload.ErrConfig)
		}
	}
	for near := range protein.Near(j.beads, nearest) {
		return nil, fmt.Errorf("phase: %s: residues %d and %d are %.3g Å apart: %w: states need %g", s.Name, near.I, near.J, near.Distance, workload.ErrConfig, nearest)
	}
	for _, r := range s.Residues {
		j.kinds = append(j.kinds, kindOf[r.Name])
	}
	return j, nil
}

// nearest is the least distance of two residues in angstrom: the twelfth power of its inverse
// is far from an overflow.
const nearest = 1e-3

// Name says of which structure the states are.
func (j *job) Name() string {
	return fmt.Sprintf("phase %s, %d residues, t = %g ps", j.structure.Name, j.structure.Len(), j.c.Time)
}

// Class is R: every state is computed on one device in one order.
func (j *job) Class() workload.Class { return workload.RowExact }

// Items are the rows.
func (j *job) Items() sched.Items {
	n := int64(j.structure.Len())
	return sched.Items{
		Extent: n,
		Bytes: func(lo, hi int64) (in, out int64) {
			if hi == lo {
				return 0, 0
			}
			return 28*n + 16*n*int64(j.stride), 16 * n * (hi - lo)
		},
	}
}

// waveOps is the number of operations for a pair in addition to the product.
const waveOps = 200

// Whole is the product as one task, with the work of all.
func (j *job) Whole() graph.Task {
	n := int64(j.structure.Len())
	t := j.task(productOnDevices, 0, n)
	w := j.task(wavesOnDevices, 0, n).Work
	t.Work.Ops, t.Work.Bytes = t.Work.Ops+w.Ops, t.Work.Bytes+w.Bytes
	return t
}

// task is a task of one kernel for some rows, without its uses.
func (j *job) task(k *graph.Kernel, lo, hi int64) graph.Task {
	n := int64(j.structure.Len())
	p := params{residues: int(n), first: int(lo), rows: int(hi - lo), stride: j.stride, time: j.c.Time}
	pairs := float64(hi-lo) * float64(n)
	if k == wavesOnDevices {
		return graph.Task{
			Name:  fmt.Sprintf("waves %d-%d", lo, hi),
			Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Grid(hi - lo)}.With(p)},
			Work:  graph.Work{Ops: waveOps * pairs, Bytes: 32 * pairs, Unit: graph.FP64},
		}
	}
	return graph.Task{
		Name:  fmt.Sprintf("rows %d-%d", lo, hi),
		Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Grid(hi-lo, n)}.With(p)},
		Work:  graph.Work{Ops: 8 * pairs * float64(n), Bytes: 32*pairs + 16*float64(n)*float64(n), Unit: graph.FP64},
	}
}

// Graph has a task for the waves of each range of rows, and one for its products with all.
func (j *job) Graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	n := int64(j.structure.Len())
	wave, row := 16*int64(j.stride), 16*n
	beads := b.Data(graph.Data{Name: "beads", Bytes: 24 * n, Input: true})
	kinds := b.Data(graph.Data{Name: "kinds", Bytes: 4 * n, Input: true})
	waves := b.Data(graph.Data{Name: "waves", Bytes: wave * n})
	squares := b.Data(graph.Data{Name: "squares", Bytes: 8 * n})
	states := b.Data(graph.Data{Name: "states", Bytes: row * n, Output: true})
	for _, r := range ranges {
		t := j.task(wavesOnDevices, r.Lo, r.Hi)
		t.Uses = []graph.Use{
			{Data: beads, Access: graph.Read},
			{Data: kinds, Access: graph.Read},
			{Data: waves, Access: graph.Write, Offset: wave * r.Lo, Bytes: wave * r.Len()},
			{Data: states, Access: graph.Write, Offset: row * r.Lo, Bytes: row * r.Len()},
			{Data: squares, Access: graph.Write, Offset: 8 * r.Lo, Bytes: 8 * r.Len()},
		}
		b.Add(t)
	}
	for _, r := range ranges {
		t := j.task(productOnDevices, r.Lo, r.Hi)
		t.Uses = []graph.Use{
			{Data: waves, Access: graph.Read},
			{Data: squares, Access: graph.Read},
			{Data: states, Access: graph.ReadWrite, Offset: row * r.Lo, Bytes: row * r.Len()},
		}
		b.Add(t)
	}
	return b.Build()
}

// Bind ties the structure and the states to the job's memory.
func (j *job) Bind() []weft.Binding {
	return []weft.Binding{weft.Bind("beads", j.beads), weft.Bind("kinds", j.kinds), weft.Bind("states", j.states)}
}

// Result is the states after a run: Ψᵢⱼ is at [i*residues+j].
func (j *job) Result() []complex128 { return j.states }

// Summary is the sum of the states and their Frobenius norm.
func (j *job) Summary() string {
	var sum complex128
	squares := 0.0
	for _, s := range j.states {
		sum += s
		squares += real(s)*real(s) + imag(s)*imag(s)
	}
	return fmt.Sprintf("sum %.10f%+.10fi, norm %.9f; as defined by the source project, no physical claim", real(sum), imag(sum), math.Sqrt(squares))
}

// Rate is operations a second.
func (j *job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.2f GFLOP/s", j.Whole().Work.Ops/d.Seconds()/1e9)
}

// check reports parameters that contradict themselves.
func (p params) check() error {
	switch {
	case p.rows < 1 || p.first+p.rows > p.residues:
		return fmt.Errorf("rows %d to %d of %d", p.first, p.first+p.rows-1, p.residues)
	case p.stride%lanes != 0 || p.stride < p.residues:
		return fmt.Errorf("%d numbers for %d residues: it must be a multiple of %d, and not less", p.stride, p.residues, lanes)
	}
	return nil
}
