package bench

import (
	"context"
	"fmt"

	"github.com/weft-run/weft/collective"
	comm "github.com/weft-run/weft/collective/live"
	"github.com/weft-run/weft/machine"
)

// operationNames returns the names of all collective operations.
func operationNames() []string {
	var names []string
	for op := range collective.Op(collective.NumOps) {
		names = append(names, op.String())
	}
	return names
}

// traffic returns the bytes that the device which must get most gets in an operation on n
// devices, relative to the vector.
func traffic(op string, n int) float64 {
	others := float64(n-1) / float64(n)
	switch op {
	case collective.AllReduce.String():
		return 2 * others
	case collective.Barrier.String():
		return 0
	case collective.ReduceScatter.String(), collective.AllGather.String(), collective.AllToAll.String():
		return others
	}
	return 1 // reduce, broadcast, send
}

// vectors are what the ranks of an operation bring and get.
type vectors struct {
	spec    collective.Spec
	in, out [][]float32
}

// newVectors makes the vectors of an operation on count elements and n ranks, with rank 0
// as the root and rank 1 as its peer. Element i of the whole vector of rank r is r + i%13.
func newVectors(op collective.Op, n int, count int64) *vectors {
	v := &vectors{spec: collective.Spec{Op: op, Peer: 1, Count: count, Ranks: make([]machine.DeviceID, n)}}
	for r := range n {
		in, out := make([]float32, v.spec.InCount(r)), make([]float32, v.spec.OutCount(r))
		first := int64(0)
		if op == collective.AllGather {
			first, _ = collective.Cut(count, n, r)
		}
		for i := range in {
			in[i] = input(r, first+int64(i))
		}
		v.in, v.out = append(v.in, in), append(v.out, out)
	}
	return v
}

// input is element i of the vector of rank r.
func input(r int, i int64) float32 { return float32(int64(r) + i%13) }

// do runs the operation.
func (v *vectors) do(ctx context.Context, g *comm.Group) (comm.Result, error) {
	switch v.spec.Op {
	case collective.AllReduce:
		return comm.AllReduce(ctx, g, collective.Sum, v.in, v.out)
	case collective.Reduce:
		return comm.Reduce(ctx, g, collective.Sum, 0, v.in, v.out[0])
	case collective.ReduceScatter:
		return comm.ReduceScatter(ctx, g, collective.Sum, v.in, v.out)
	case collective.Broadcast:
		return comm.Broadcast(ctx, g, 0, v.in[0], v.out)
	case collective.AllGather:
		return comm.AllGather(ctx, g, v.in, v.out)
	case collective.AllToAll:
		return comm.AllToAll(ctx, g, v.in, v.out)
	case collective.Send:
		return comm.Send(ctx, g, 0, 1, v.in[0], v.out[1])
	}
	return comm.Barrier(ctx, g)
}

// check compares what the ranks got with what they must get.
func (v *vectors) check() error {
	for r := range v.out {
		for i, x := range v.out[r] {
			if want := v.want(r, int64(i)); x != want {
				return fmt.Errorf("element %d of rank %d is %v, want %v", i, r, x, want)
			}
		}
	}
	return nil
}

// want is element i of what rank r must get.
func (v *vectors) want(r int, i int64) float32 {
	n := len(v.out)
	lo, hi := collective.Cut(v.spec.Count, n, r)
	sum := func(i int64) float32 { return float32(n*(n-1)/2 + n*int(i%13)) }
	switch v.spec.Op {
	case collective.AllReduce, collective.Reduce:
		return sum(i)
	case collective.ReduceScatter:
		return sum(lo + i)
	case collective.AllGather: // of the block that has it
		for q := range n {
			if _, end := collective.Cut(v.spec.Count, n, q); i < end {
				return input(q, i)
			}
		}
	case collective.AllToAll: // a block of each rank, one after the other
		return input(int(i/(hi-lo)), lo+i%(hi-lo))
	}
	return input(0, i)
}
