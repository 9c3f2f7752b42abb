package msm

import (
	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// The kernels for CPUs add up a range of points. Their arguments are points, scalars and partial
// sums.
var cpuG1, cpuG2 = cpuKernel("msm.g1"), cpuKernel("msm.g2")

func cpuKernel(name string) *graph.Kernel {
	return workload.Only(name, graph.GoKernel(name).Impls[0])
}

// params are the parameters of the kernels that add up a range.
type params struct {
	points int // of the range
	part   int // points of a partial sum
	each   int // partial sums that an item of the launch writes

	multiples int // of each point, in the table of points
}

// items is the number of items of a launch.
func (p params) items() int64 {
	return parts(parts(int64(p.points), int64(p.part)), int64(p.each))
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = []signature.Kernel{
	kernel("msm.g1", "G1", func(points []bn254.G1Affine, scalars []fr.Element) (sum bn254.G1Affine, err error) {
		_, err = sum.MultiExp(points, scalars, oneCore)
		return sum, err
	}),
	kernel("msm.g2", "G2", func(points []bn254.G2Affine, scalars []fr.Element) (sum bn254.G2Affine, err error) {
		_, err = sum.MultiExp(points, scalars, oneCore)
		return sum, err
	}),
}

// oneCore lets gnark-crypto compute with one goroutine at a time: the cores of a device have an
// item each.
var oneCore = ecc.MultiExpConfig{NbTasks: 1}

// kernel is the kernel of a group, around a function that adds up points.
func kernel[P Point](name, group string, sum func([]P, []fr.Element) (P, error)) signature.Kernel {
	size := pointBytes[P]() / 8
	return signature.Of(signature.Kernel{
		Name: name, Does: "adds up multiples of points of BN254's " + group + " by scalars", Grid: "items of parts", Per: []uint32{1},
		Args: []signature.Arg{signature.In("points", graph.U8), signature.In("scalars", graph.U8), signature.Out("sums", graph.U8)},
	}, func(_ *weft.Call, p params) (n signature.Need, err error) {
		if err := signature.Positive([]string{"points", "part", "each", "multiples"}, p.points, p.part, p.each, p.multiples); err != nil {
			return n, err
		}
		n.Items = p.items()
		n.Elements[0], n.Elements[1] = signature.Product(int(size), p.points, p.multiples), scalarBytes/8*int64(p.points)
		n.Elements[2] = size * parts(int64(p.points), int64(p.part))
		return n, nil
	}, func(c *weft.Call, p params, lo, hi int) {
		points, scalars, sums := weft.View[P](c.Args[0])[:p.points*p.multiples], weft.View[fr.Element](c.Args[1])[:p.points], weft.View[P](c.Args[2])
		first, end := lo*p.each, min(hi*p.each, int(parts(int64(p.points), int64(p.part))))
		clear(sums[first:end])
		// Items that come together are added up together, which takes fewer additions, up to
		// what takes a second or two, so that a run can be stopped.
		most := max(callSize[P]()/p.part, 1)
		for at := first; at < end && !c.Stopped(); at += most {
			from, to := at*p.part, min(min(at+most, end)*p.part, p.points)
			// Graphs are not trusted, and gnark-crypto takes scalars for reduced.
			if err := checkScalars(scalars[from:to]); err != nil {
				c.Fail(err)
				return
			}
			part, err := sum(everyPoint(points[from*p.multiples:to*p.multiples], p.multiples), scalars[from:to])
			if err != nil {
				c.Fail(err)
				return
			}
			sums[at] = part
		}
	})
}

// callPoints is the largest number of points of G1 that are added up by one call, which takes 1.6 s of a core at
// 2.5 GHz. Half as many would take a twelfth more time for each.
var callPoints = 1 << 18

// callSize is callPoints for a group: additions in G2 take more than twice as long, and calls of fewer points cost
// nothing there.
func callSize[P Point]() int {
	if group[P]() == "G2" {
		return callPoints / 4
	}
	return callPoints
}
