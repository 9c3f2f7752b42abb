package msm

import (
	"math/bits"
	"runtime"
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft/internal/philox"
)

// Streams of random numbers.
const (
	streamScalars = iota
	streamLogs
)

// DrawScalars draws scalars by logical index, for tests and benchmarks: whoever knows the seed
// knows them.
func DrawScalars(seed uint64, n int) []fr.Element {
	out := make([]fr.Element, n)
	drawScalars(out, seed, streamScalars)
	return out
}

func drawScalars(out []fr.Element, seed uint64, stream uint32) {
	s := philox.Source{Seed: uint32(seed), Stream: stream + uint32(seed>>32)<<1}
	for i := range out {
		var b [32]byte
		for block := range 2 {
			for k, w := range s.Block(uint64(i), 0, uint32(block)) {
				for byt := range 4 {
					b[16*block+4*k+byt] = byte(w >> (8 * byt))
				}
			}
		}
		out[i].SetBytes(b[:])
	}
}

// Draw draws points by logical index, and the multiples of the generator that they are. Point i
// is the sum of a drawn point for each bit of i and of one more, which takes an addition for
// each point.
func Draw[P Point](seed uint64, n int) (points []P, logs []fr.Element) {
	points, logs = make([]P, n), make([]fr.Element, n)
	if n == 0 {
		return points, logs
	}
	drawn := make([]fr.Element, 1+bits.Len(uint(n-1)))
	drawScalars(drawn, seed, streamLogs)
	steps := multiples[P](drawn)
	points[0], logs[0] = steps[0], drawn[0]
	for bit := range len(drawn) - 1 {
		half := 1 << bit
		m := min(half, n-half)
		for i := range m {
			logs[half+i].Add(&logs[i], &drawn[1+bit])
		}
		spread(m, func(lo, hi int) { addTo(points[half+lo:half+hi], points[lo:hi], &steps[1+bit]) })
	}
	return points, logs
}

// spread calls do for parts of the numbers from 0 to n-1, on all cores.
func spread(n int, do func(lo, hi int)) {
	var all sync.WaitGroup
	cores := min(runtime.GOMAXPROCS(0), max(n/256, 1))
	for i := range cores {
		all.Go(func() { do(i*n/cores, (i+1)*n/cores) })
	}
	all.Wait()
}

// multiples are multiples of the generator.
func multiples[P Point](by []fr.Element) (out []P) {
	_, _, g1, g2 := bn254.Generators()
	switch out := any(&out).(type) {
	case *[]bn254.G1Affine:
		*out = bn254.BatchScalarMultiplicationG1(&g1, by)
	case *[]bn254.G2Affine:
		*out = bn254.BatchScalarMultiplicationG2(&g2, by)
	}
	return out
}

// addTo writes the sums of points and one more to dst.
func addTo[P Point](dst, points []P, one *P) {
	switch dst := any(dst).(type) {
	case []bn254.G1Affine:
		points, one := any(points).([]bn254.G1Affine), any(one).(*bn254.G1Affine)
		sums := make([]bn254.G1Jac, len(dst))
		for i := range sums {
			sums[i].FromAffine(&points[i])
			sums[i].AddMixed(one)
		}
		copy(dst, bn254.BatchJacobianToAffineG1(sums))
	case []bn254.G2Affine:
		points, one := any(points).([]bn254.G2Affine), any(one).(*bn254.G2Affine)
		for i := range dst {
			var sum bn254.G2Jac
			sum.FromAffine(&points[i])
			sum.AddMixed(one)
			dst[i].FromJacobian(&sum)
		}
	}
}
