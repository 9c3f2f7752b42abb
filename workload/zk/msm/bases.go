package msm

import (
	"context"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
)

// Bases are points that stay on the devices of a runtime from sum to sum: a part of a proving
// key, or the powers of a setup. Several sums may use them at the same time.
type Bases[P Point] struct {
	rt     *weft.Runtime
	points *weft.Data[P]
	n      int

	multiples int // of each point
}

// Put copies points to memory that devices can access. A device gets the points of its range
// with its first sum, and keeps them while it has room. Release gives them up.
func Put[P Point](rt *weft.Runtime, points []P) (*Bases[P], error) {
	if rt == nil {
		return nil, fmt.Errorf("msm: no runtime: %w: weft.Open returns one", ErrInput)
	}
	if len(points) == 0 || len(points) > MaxPoints {
		return nil, fmt.Errorf("msm: %d points: %w: there must be 1 to %d", len(points), ErrInput, MaxPoints)
	}
	multiples := Multiples[P](rt.Machine(), len(points))
	d, err := PutTable(context.Background(), rt, "msm bases", points, multiples)
	if err != nil {
		return nil, err
	}
	return &Bases[P]{rt: rt, points: d, n: len(points), multiples: multiples}, nil
}

// Len is the number of points.
func (b *Bases[P]) Len() int { return b.n }

// Multiples is the number of multiples of each point that are there: see [Sum].
func (b *Bases[P]) Multiples() int { return b.multiples }

// As ties the points to a graph's data of a name, for sums within larger graphs: see [Sum].
func (b *Bases[P]) As(name string) weft.Binding { return b.points.As(name) }

// Sum returns the sum of the first points' multiples by the scalars, like [G1]. Fewer points
// than scalars are an error that wraps [ErrInput].
func (b *Bases[P]) Sum(ctx context.Context, scalars []fr.Element) (sum P, err error) {
	j, err := b.Job(scalars)
	if err != nil || len(scalars) == 0 {
		return sum, err
	}
	return j.call(ctx, b.rt)
}

// Job is the sum as a job.
func (b *Bases[P]) Job(scalars []fr.Element) (*Job[P], error) {
	if b.n < len(scalars) {
		return nil, fmt.Errorf("msm: %d scalars for %d points: %w: there must be a point for each", len(scalars), b.n, ErrInput)
	}
	j, err := NewJob[P](nil, scalars)
	if err != nil {
		return nil, err
	}
	j.bases = b
	return j, nil
}

// Release gives the points up once no sum uses them.
func (b *Bases[P]) Release() { b.points.Release() }
