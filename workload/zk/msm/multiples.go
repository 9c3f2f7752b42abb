package msm

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/machine"
)

// A table has for each point P a number k of multiples side by side: P, 2^s P, 2^2s P and so on,
// where k s bits are as many as a scalar has, and one for the sign of a digit. A GPU then adds up
// the digits of all multiples in the same buckets. CPUs take every k-th point of the table.

// span is the number of bits of a scalar that go with one multiple of a point.
func span(multiples int) int { return (scalarBits + multiples) / multiples }

// windows is the number of windows: a digit's sign takes a bit more than a scalar has.
func windows(bits int) int { return (scalarBits + bits) / bits }

// cutWindows returns the bits of a window, at most as many as asked for, the windows that go with one
// multiple, and the bits of the last one.
func cutWindows(bits, multiples int) (width, count, last int) {
	if multiples == 1 {
		return bits, windows(bits), bits
	}
	s := span(multiples)
	bits = min(bits, s)
	count = (s + bits - 1) / bits
	return bits, count, s - (count-1)*bits
}

// Times in seconds on an NVIDIA H200 in G1; in G2 they are three times as long. productTime is
// the time of a product of coordinates when all threads multiply. addTime and doubleTime are the
// times of an addition and a doubling of a sum that waits for the one before.
const (
	productTime = 1.0 / 40e9
	addTime     = 4e-6
	doubleTime  = 2.5e-6
)

// gpuTime is the predicted time in seconds of a sum of n points on a large GPU: ten products for
// each digit of a scalar, fifty for each bucket, and additions and doublings that follow one
// another.
func gpuTime[P Point](n int64, width, multiples int) float64 {
	width, count, _ := cutWindows(width, multiples)
	buckets := 1 << (width - 1)
	products := float64(n)*10*float64(count*multiples) + 50*float64(count*buckets)
	segment := weighSums(count * buckets)
	adds := 2*segment + width
	for left := buckets / segment; left > 1; left = (left + foldSums - 1) / foldSums {
		adds += foldSums
	}
	doublings := width + width*(1<<bits.Len(uint(count-1))-1)
	t := products*productTime + float64(adds)*addTime + float64(doublings)*doubleTime
	if group[P]() == "G2" {
		t *= 3
	}
	return t
}

// windowBits is the number of bits of a window with which n points take the least time.
func windowBits[P Point](n int64, multiples int) int {
	best, least := 0, math.Inf(1)
	for c := 4; c <= 16; c++ {
		if t := gpuTime[P](n, c, multiples); t < least {
			best, least = c, t
		}
	}
	return best
}

// mostMultiples is the largest number of multiples of a point, and tablePoints the largest number of
// points that have any. Multiples of more points take seconds to compute, and save less than a quarter of
// the time of a sum.
const (
	mostMultiples = 16
	tablePoints   = 1 << 17
	// tablePart is the part of a device's memory that a table may take.
	tablePart = 32
)

// Multiples is the number of multiples that a table of n points should have for the devices of a
// machine: one, the point itself, unless there are GPUs with room for more, and then as many as let a
// sum take the least time by prediction.
func Multiples[P Point](m *machine.Machine, n int) int {
	room := int64(math.MaxInt64)
	gpus := false
	for i := range m.Devices {
		if d := &m.Devices[i]; !d.HostMemory {
			gpus, room = true, min(room, d.MemBytes/tablePart)
		}
	}
	if !gpus || n > tablePoints {
		return 1
	}
	best, least := 1, math.Inf(1)
	for k := 1; k <= mostMultiples && int64(k*n)*pointBytes[P]() <= room; k *= 2 {
		if t := gpuTime[P](int64(n), windowBits[P](int64(n), k), k); t < least {
			best, least = k, t
		}
	}
	return best
}

// PutTable puts points on devices as [weft.Put] does, with the given number of multiples of each, for [Sum].
// It ends soon after ctx does.
func PutTable[P Point](ctx context.Context, rt *weft.Runtime, name string, points []P, multiples int) (*weft.Data[P], error) {
	if multiples > 1 {
		points = table(ctx, points, multiples)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := weft.Put(rt, name, points)
	if err != nil {
		return nil, fmt.Errorf("msm: %w", err)
	}
	return d, nil
}

// tableBlock is the number of points between two looks at the context: some milliseconds of work.
const tableBlock = 64

// table returns points with their multiples, or some of them once ctx has ended.
func table[P Point](ctx context.Context, points []P, multiples int) []P {
	out := make([]P, len(points)*multiples)
	spread(len(points), func(lo, hi int) {
		for ; lo < hi && ctx.Err() == nil; lo += tableBlock {
			to := min(lo+tableBlock, hi)
			multiplesOf(out[lo*multiples:to*multiples], points[lo:to], multiples)
		}
	})
	return out
}

// multiplesOf writes the multiples of points.
func multiplesOf[P Point](out, points []P, multiples int) {
	s := span(multiples)
	switch points := any(points).(type) {
	case []bn254.G1Affine:
		all := make([]bn254.G1Jac, 0, len(out))
		for i := range points {
			var p bn254.G1Jac
			p.FromAffine(&points[i])
			for k := range multiples {
				if k > 0 {
					for range s {
						p.DoubleAssign()
					}
				}
				all = append(all, p)
			}
		}
		copy(any(out).([]bn254.G1Affine), bn254.BatchJacobianToAffineG1(all))
	case []bn254.G2Affine:
		out := any(out).([]bn254.G2Affine)
		for i := range points {
			var p bn254.G2Jac
			p.FromAffine(&points[i])
			for k := range multiples {
				if k > 0 {
					for range s {
						p.DoubleAssign()
					}
				}
				out[i*multiples+k].FromJacobian(&p)
			}
		}
	}
}

// everyPoint returns the points of a table without their multiples.
func everyPoint[P any](table []P, multiples int) []P {
	if multiples == 1 {
		return table
	}
	out := make([]P, len(table)/multiples)
	for i := range out {
		out[i] = table[i*multiples]
	}
	return out
}
