package bench

import (
	"context"
	"fmt"

	"github.com/weft-run/weft/collective"
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
	case collective.OpAllReduce.String():
		return 2 * others
	case collective.OpBarrier.String():
		return 0
	case collective.OpReduceScatter.String(), collective.OpAllGather.String(), collective.OpAllToAll.String():
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
		if op == collective.OpAllGather {
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
func (v *vectors) do(ctx context.Context, g *collective.Group) (collective.Result, error) {
	switch v.spec.Op {
	case collective.OpAllReduce:
		return collective.AllReduce(ctx, g, collective.Sum, v.in, v.out)
	case collective.OpReduce:
		return collective.Reduce(ctx, g, collective.Sum, 0, v.in, v.out[0])
	case collective.OpReduceScatter:
		return collective.ReduceScatter(ctx, g, collective.Sum, v.in, v.out)
	case collective.OpBroadcast:
		return collective.Broadcast(ctx, g, 0, v.in[0], v.out)
	case collective.OpAllGather:
		return collective.AllGather(ctx, g, v.in, v.out)
	case collective.OpAllToAll:
		return collective.AllToAll(ctx, g, v.in, v.out)
	case collective.OpSend:
		return collective.Send(ctx, g, 0, 1, v.in[0], v.out[1])
	}
	return collective.Barrier(ctx, g)
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
	case collective.OpAllReduce, collective.OpReduce:
		return sum(i)
	case collective.OpReduceScatter:
		return sum(lo + i)
	case collective.OpAllGather: // of the block that has it
		for q := range n {
			if _, end := collective.Cut(v.spec.Count, n, q); i < end {
				return input(q, i)
			}
		}
	case collective.OpAllToAll: // a block of each rank, one after the other
		return input(int(i/(hi-lo)), lo+i%(hi-lo))
	}
	return input(0, i)
}
