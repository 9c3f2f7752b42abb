package msm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// groups are the names a Config may have as its Group.
var groups = []string{"g1", "g2"}

// Config describes the points and scalars.
type Config struct {
	Group string // g1 or g2
	Size  int    // points
	Seed  uint64
	// Resident lets the points stay on devices from run to run, as those of a key do.
	Resident bool
}

// Validate returns an error that wraps [ErrInput] for a configuration that cannot be computed.
func (c Config) Validate() error {
	if !slices.Contains(groups, c.Group) {
		return fmt.Errorf("msm: no group %q: %w: there is %s", c.Group, ErrInput, strings.Join(groups, ", "))
	}
	if c.Size < 1 || c.Size > MaxPoints {
		return fmt.Errorf("msm: %d points: %w: there must be 1 to %d", c.Size, ErrInput, MaxPoints)
	}
	return nil
}

// Bytes is the host memory that the job takes: points, resident ones twice, scalars, a
// scalar for each point by which the result is checked, and partial sums.
func (c Config) Bytes() float64 {
	point := 64.0
	if c.Group == "g2" {
		point = 128
	}
	sums := point * min(float64(c.Size), maxParts)
	if c.Resident {
		point *= 2
	}
	return (point+2*scalarBytes)*float64(c.Size) + sums
}

// Job is one sum.
type Job[P Point] struct {
	points  []P
	bases   *Bases[P] // instead of points
	scalars []fr.Element
	logs    []fr.Element // of points that were drawn: the generator's multiples they are
	sums    []P          // partial sums of the last run
	cores   int          // of the largest CPU device
	devices int
	hosted  bool // all devices are CPUs
}

// New draws points and scalars by logical index.
func New(c Config) (workload.Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Group == "g1" {
		return drawn[bn254.G1Affine](c)
	}
	return drawn[bn254.G2Affine](c)
}

func drawn[P Point](c Config) (workload.Job, error) {
	points, logs := Draw[P](c.Seed, c.Size)
	j, err := NewJob(points, DrawScalars(c.Seed, c.Size))
	if err != nil {
		return nil, err
	}
	j.logs = logs
	if c.Resident {
		return &residentJob[P]{j}, nil
	}
	return j, nil
}

// Outline is the sum as a job that has the graph of New's and points that are not drawn, which takes longer than the sum.
func Outline(c Config) (workload.Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Group == "g1" {
		return outlined[bn254.G1Affine](c), nil
	}
	return outlined[bn254.G2Affine](c), nil
}

func outlined[P Point](c Config) workload.Job {
	// Memory that nothing writes to or reads takes none of the machine's.
	j := &Job[P]{points: make([]P, c.Size), scalars: make([]fr.Element, c.Size), sums: make([]P, parts(int64(c.Size), Align(c.Size)))}
	if c.Resident {
		return &residentJob[P]{j}
	}
	return j
}

// NewJob is the sum of a caller's points and scalars as a job. It keeps both slices. What is
// wrong with scalars is an error that wraps [ErrInput].
func NewJob[P Point](points []P, scalars []fr.Element) (*Job[P], error) {
	n := len(scalars)
	if points != nil && len(points) < n {
		return nil, fmt.Errorf("msm: %d scalars for %d points: %w: there must be a point for each", n, len(points), ErrInput)
	}
	if n > MaxPoints {
		return nil, fmt.Errorf("msm: %d points: %w: there may be %d", n, ErrInput, MaxPoints)
	}
	if err := checkScalars(scalars); err != nil {
		return nil, err
	}
	return &Job[P]{points: points[:min(n, len(points))], scalars: scalars, sums: make([]P, parts(int64(n), Align(n)))}, nil
}

// Name describes the sum.
func (j *Job[P]) Name() string {
	return fmt.Sprintf("msm of %d points of BN254 %s", len(j.scalars), group[P]())
}

// Class is X: a point of a finite group.
func (j *Job[P]) Class() workload.Class { return workload.Exact }

// Items are the points.
func (j *Job[P]) Items() sched.Items {
	n, size := len(j.scalars), pointBytes[P]()
	in := size + scalarBytes
	if j.bases != nil {
		in = scalarBytes
	}
	return sched.Items{
		Extent: int64(n), Align: Align(n), Streamed: true,
		// A device has its share in one task, or in few if it is much faster than others: every task adds up buckets
		// of its own, and sums of half as many points take more than half of the time.
		Grain: max(grain, int64(n)*3/5/int64(max(j.devices, 1))),
		Bytes: func(lo, hi int64) (int64, int64) { return in * (hi - lo), size * parts(hi-lo, Align(n)) },
	}
}

// grain is the number of points below which a task's own buckets take most of its time.
const grain = 256

// Place tells the job how many devices there are, and how many cores.
func (j *Job[P]) Place(m *machine.Machine) error {
	j.cores, j.devices = Cores(m), 1
	if m != nil {
		j.devices = len(m.Devices)
	}
	return nil
}

// Hosted is the job in tasks whose kernels end after a few seconds, between which a run can be
// stopped, seen to progress and kept in a checkpoint.
func (j *Job[P]) Hosted() workload.Job {
	h := *j
	h.hosted = true
	return &h
}

// sum is the job's sum in a graph with this data.
func (j *Job[P]) sum() Sum[P] {
	s := Sum[P]{N: len(j.scalars), Cores: j.cores, Hosted: j.hosted}
	if j.bases != nil {
		s.Multiples = j.bases.multiples
	}
	if j.hosted {
		s.Most = int64(callPoints * max(j.cores, 1))
	}
	return s
}

// Whole is all points as one task.
func (j *Job[P]) Whole() graph.Task { return j.sum().task(0, int64(len(j.scalars))) }

// Graph has a task for each range of points, or several. Ranges must begin at multiples of
// [Align].
func (j *Job[P]) Graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	s := j.sum()
	points := len(j.points)
	if j.bases != nil {
		points = j.bases.n * j.bases.multiples
	}
	s.Points = b.Data(graph.Data{Name: "points", Bytes: pointBytes[P]() * int64(points), Input: true})
	s.Scalars = b.Data(graph.Data{Name: "scalars", Bytes: scalarBytes * int64(len(j.scalars)), Input: true})
	s.Sums = b.Data(graph.Data{Name: "sums", Bytes: SumsBytes[P](s.N), Output: true, Tolerance: graph.SameBytes})
	if err := s.Add(&b, ranges); err != nil {
		return nil, err
	}
	return b.Build()
}

// Bind ties points, scalars and partial sums to the job's memory.
func (j *Job[P]) Bind() []weft.Binding {
	points := weft.Bind("points", j.points)
	if j.bases != nil {
		points = j.bases.As("points")
	}
	return []weft.Binding{points, weft.Bind("scalars", j.scalars), weft.Bind("sums", j.sums)}
}

// Scalars returns the scalars of the job, in its own memory. Between runs a caller may set
// them.
func (j *Job[P]) Scalars() []fr.Element { return j.scalars }

// Sums are the partial sums of the last run, in the job's own memory.
func (j *Job[P]) Sums() []P { return j.sums }

// Result is the sum of the last run.
func (j *Job[P]) Result() P { return Total(j.sums) }

// Summary is the sum's first coordinate.
func (j *Job[P]) Summary() string {
	switch p := any(j.Result()).(type) {
	case bn254.G1Affine:
		return "x = " + p.X.String()
	case bn254.G2Affine:
		return "x = " + p.X.String()
	}
	return ""
}

// Rate is points a second.
func (j *Job[P]) Rate(d time.Duration) string {
	return fmt.Sprintf("%.3f Mpoint/s", float64(len(j.scalars))/d.Seconds()/1e6)
}

// residentJob is a job whose points become bases before the first run.
type residentJob[P Point] struct{ *Job[P] }

// Hosted is the job in tasks for CPUs.
func (j *residentJob[P]) Hosted() workload.Job {
	j.Job.hosted = true
	return j
}

// Begin puts the points.
func (j *residentJob[P]) Begin(_ context.Context, rt *weft.Runtime) (err error) {
	if j.bases == nil {
		j.bases, err = Put(rt, j.points)
	}
	return err
}

// End does nothing: the points stay.
func (j *residentJob[P]) End(context.Context) error { return nil }

// Release gives the points up.
func (j *residentJob[P]) Release() {
	if j.bases != nil {
		j.bases.Release()
		j.bases = nil
	}
}
