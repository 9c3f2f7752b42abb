package msm

import (
	"cmp"
	"fmt"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Sum is a sum of multiples within a graph. The graph has points and scalars as data, such as
// [Bases] and what another task computes, in the memory layout of gnark-crypto.
type Sum[P Point] struct {
	N int // points
	// Points and Scalars are data of the graph, and the offsets in bytes where the first of them
	// stands.
	Points, Scalars         graph.DataID
	PointsFrom, ScalarsFrom int64
	// Sums is data of SumsBytes bytes, which the tasks write. Total adds up its content.
	Sums     graph.DataID
	SumsFrom int64
	// Cores is the largest number of cores that a CPU device has; 0 means one. See Cores.
	Cores int
	// Hosted says that all devices are CPUs: tasks have no steps for GPUs, and no memory for them.
	Hosted bool
	// Most is the largest number of points of a task; 0 means that a range is one task, up to
	// what a device's memory should hold.
	Most int64
	// Multiples is the number of multiples of each point in Points, which are those of [PutTable];
	// 0 means one, the point itself.
	Multiples int

	window int // bits of a window on GPUs; 0 means that they follow from the number of points
}

// maxParts is the largest number of partial sums that come home.
const maxParts = 1 << 10

// Align returns the number of points that the beginnings of ranges must be multiples of.
func Align(n int) int64 {
	return int64(1) << bits.Len64(uint64(max(n-1, 0)/maxParts))
}

// parts is the number of partial sums of some points.
func parts(n, align int64) int64 { return (n + align - 1) / align }

// SumsBytes is the size of the partial sums of n points.
func SumsBytes[P Point](n int) int64 { return pointBytes[P]() * parts(int64(n), Align(n)) }

// Cores is the largest number of cores of a machine's CPU devices.
func Cores(m *machine.Machine) int {
	most := 1
	if m == nil {
		return most
	}
	for i := range m.Devices {
		most = max(most, m.Devices[i].TeamSize())
	}
	return most
}

// taskPoints is the largest number of points of a task, 2²²: with them their digits, sorted,
// take 0.6 GB of a device's memory in G1.
const taskPoints = 1 << 22

// Add adds the tasks of a sum to a graph, one for each range of points or several. Ranges must
// begin at multiples of [Align].
func (s Sum[P]) Add(b *graph.Builder, ranges []sched.Range) error {
	align := Align(s.N)
	most := int64(taskPoints)
	if s.Most > 0 {
		most = min(most, s.Most)
	}
	most = max(most/align, 1) * align
	for _, r := range ranges {
		if r.Lo%align != 0 || r.Hi%align != 0 && r.Hi != int64(s.N) || r.Lo < 0 || r.Hi > int64(s.N) {
			return fmt.Errorf("msm: range %d-%d of %d points: begin and end at multiples of %d", r.Lo, r.Hi, s.N, align)
		}
		for lo := r.Lo; lo < r.Hi; lo += most {
			b.Add(s.task(lo, min(lo+most, r.Hi)))
		}
	}
	return nil
}

// task adds up the points from lo to hi.
func (s Sum[P]) task(lo, hi int64) graph.Task {
	n, align, size := hi-lo, Align(s.N), pointBytes[P]()
	multiples := max(s.Multiples, 1)
	table := size * int64(multiples)
	t := graph.Task{
		Name: fmt.Sprintf("points %d-%d", lo, hi),
		Uses: []graph.Use{
			{Data: s.Points, Offset: s.PointsFrom + table*lo, Bytes: table * n, Access: graph.Read},
			{Data: s.Scalars, Offset: s.ScalarsFrom + scalarBytes*lo, Bytes: scalarBytes * n, Access: graph.Read},
			{Data: s.Sums, Offset: s.SumsFrom + size*(lo/align), Bytes: size * parts(n, align), Access: graph.Write},
		},
		Work: graph.Work{Ops: ops[P](n), Bytes: float64((size + scalarBytes) * n), Unit: graph.Int32},
	}
	p := params{points: int(n), part: int(align), multiples: multiples}
	p.each = int(max(parts(parts(n, align), max(int64(s.Cores), 1)), parts(leastPoints, align)))
	cpu := cpuG1
	if group[P]() == "G2" {
		cpu = cpuG2
	}
	t.Steps = []graph.Step{graph.Step{Kernel: cpu, Launch: graph.Grid(p.items())}.With(p)}
	if !s.Hosted {
		var steps []graph.Step
		steps, t.Workspace = gpuSteps[P](n, parts(n, align), cmp.Or(s.window, windowBits[P](n, multiples)), multiples)
		t.Steps = append(t.Steps, steps...)
	}
	return t
}

// leastPoints is the number of points below which another core does not help: each core adds up
// its buckets.
const leastPoints = 64

// Total adds up the partial sums that the tasks of a sum wrote.
func Total[P Point](sums []P) (total P) {
	switch sums := any(sums).(type) {
	case []bn254.G1Affine:
		var sum bn254.G1Jac
		for i := range sums {
			sum.AddMixed(&sums[i])
		}
		*any(&total).(*bn254.G1Affine) = *new(bn254.G1Affine).FromJacobian(&sum)
	case []bn254.G2Affine:
		var sum bn254.G2Jac
		for i := range sums {
			sum.AddMixed(&sums[i])
		}
		*any(&total).(*bn254.G2Affine) = *new(bn254.G2Affine).FromJacobian(&sum)
	}
	return total
}

// fieldOps is the number of 32-bit operations of a product of two coordinates: 136
// multiply-adds with carries. A product in the field of G2 is three of them.
const fieldOps = 2 * 136

// ops is the number of operations for n points: additions of points into buckets of as many
// windows as there are, and of buckets. An addition into a bucket is ten products.
func ops[P Point](n int64) float64 {
	product := 10 * fieldOps
	if group[P]() == "G2" {
		product *= 3
	}
	best := 0.0
	for c := int64(2); c <= 16; c++ {
		adds := float64((scalarBits+c)/c) * float64(n+int64(1)<<c)
		if best == 0 || adds < best {
			best = adds
		}
	}
	return best * float64(product)
}

// scalarBits is the length of a scalar.
const scalarBits = 254
