package product

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/panel"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
)

// Mul returns the product of a and b in new memory.
func (kd *Kind) Mul(ctx context.Context, rt *weft.Runtime, a, b workload.Matrix) (workload.Matrix, error) {
	c := workload.Matrix{Rows: a.Rows, Cols: b.Cols}
	if err := kd.fit(a, b); err != nil {
		return workload.Matrix{}, err
	}
	if have, need := arena.Memory(), 4*int64(c.Rows)*int64(c.Cols); have > 0 && need > have { // make would end the program
		return workload.Matrix{}, fmt.Errorf("%s: the product is %d × %d: %w: it takes %.4g GB, and there are %.4g", kd.Name, c.Rows, c.Cols, weft.ErrOutOfMemory, float64(need)/1e9, float64(have)/1e9)
	}
	c.Data = make([]float32, c.Rows*c.Cols)
	if _, err := kd.MulInto(ctx, rt, c, a, b, workload.AnySplit); err != nil {
		return workload.Matrix{}, err
	}
	return c, nil
}

// MulInto sets c to the product of a and b. The result is nil where there was nothing to
// run.
func (kd *Kind) MulInto(ctx context.Context, rt *weft.Runtime, c, a, b workload.Matrix, split workload.Split) (*workload.Result, error) {
	if err := kd.fit(a, b); err != nil {
		return nil, err
	}
	switch {
	case c.Validate() != nil:
		return nil, fmt.Errorf("%s: c: %w: %w", kd.Name, workload.ErrConfig, c.Validate())
	case c.Rows != a.Rows || c.Cols != b.Cols:
		return nil, fmt.Errorf("%s: c is %d × %d: %w: it must be %d × %d", kd.Name, c.Rows, c.Cols, workload.ErrConfig, a.Rows, b.Cols)
	case overlap(c.Data, a.Data) || overlap(c.Data, b.Data):
		return nil, fmt.Errorf("%s: c overlaps a or b: %w: give it memory of its own", kd.Name, workload.ErrConfig)
	}
	n := Numbers{Config{M: a.Rows, K: a.Cols, N: b.Cols}, a.Data, b.Data, c.Data}
	j := &Job{n: n, kind: kd}
	var err error
	if j.width, j.whole, err = width(rt.Machine(), n.Config, split); err != nil {
		return nil, fmt.Errorf("%s: %w", kd.Name, err)
	}
	if len(n.C) == 0 || n.K == 0 {
		for i := range n.C {
			n.C[i] = kd.Zero
		}
		return nil, nil
	}
	if j.width < n.N {
		j.n.B, j.n.C = make([]float32, len(n.B)), make([]float32, len(n.C))
		j.cut(j.n.B, n.B, n.K, false)
	}
	res, err := workload.Call(ctx, rt, j.declare(), kd.Name)
	if err == nil && j.width < n.N {
		j.cut(n.C, j.n.C, n.M, true)
	}
	return res, err
}

// fit reports matrices that cannot be multiplied.
func (kd *Kind) fit(a, b workload.Matrix) error {
	switch {
	case a.Validate() != nil:
		return fmt.Errorf("%s: a: %w: %w", kd.Name, workload.ErrConfig, a.Validate())
	case b.Validate() != nil:
		return fmt.Errorf("%s: b: %w: %w", kd.Name, workload.ErrConfig, b.Validate())
	case a.Cols != b.Rows:
		return fmt.Errorf("%s: a is %d × %d and b is %d × %d: %w: a must have as many columns as b has rows", kd.Name, a.Rows, a.Cols, b.Rows, b.Cols, workload.ErrConfig)
	case a.Cols > maxSide:
		return fmt.Errorf("%s: a has %d columns: %w: there may be %d; cut a and b into parts and add up their products", kd.Name, a.Cols, workload.ErrConfig, maxSide)
	case b.Cols > 0 && a.Rows > math.MaxInt/4/b.Cols:
		return fmt.Errorf("%s: the product is %d × %d: %w: it does not fit in memory; use smaller matrices", kd.Name, a.Rows, b.Cols, workload.ErrConfig)
	}
	return nil
}

// overlap reports whether two slices share memory.
func overlap(a, b []float32) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+4*uintptr(len(b)) && y < x+4*uintptr(len(a))
}

const (
	// fewRows is the number of rows per unit below which rows are not divided among units: a
	// core would spend about as long on packing B as on computing.
	fewRows = 64
	// blocksEach is the number of blocks of columns per unit: enough that all end at about
	// the same time.
	blocksEach = 4
	// leastWidth is the fewest columns of a block for a device that is no CPU, which takes
	// as long for a tile of less.
	leastWidth = 512
	// manyDevices is the number of devices with memory of their own from which blocks are
	// better than rows: each then reads half of B at most.
	manyDevices = 4
)

// width returns how many columns a block has when a product is split in a way on a
// machine, and whether blocks are dealt out whole.
func width(m *machine.Machine, c Config, split workload.Split) (columns int, whole bool, err error) {
	cores, others, apart := 0, 0, 0
	for i := range m.Devices {
		d := &m.Devices[i]
		switch {
		case d.Kind == machine.CPU:
			cores += max(d.ComputeUnits, 1)
		case d.HostMemory:
			others++
		default:
			others, apart = others+1, apart+1
		}
	}
	// What computes: other devices do most of the work where there are any.
	units, least := cores, panel.Columns
	if others > 0 {
		units, least = others, leastWidth
	}
	if split == workload.AnySplit {
		split = workload.Rows
		if units > 1 && c.N > c.M && c.M < fewRows*units {
			split = workload.Columns
		} else if apart >= manyDevices {
			split = workload.Blocks
		}
	}
	blocks := 1
	switch split {
	case workload.Rows:
	case workload.Columns:
		blocks, whole = blocksEach*units, true
	case workload.Blocks:
		blocks = max(int(math.Sqrt(float64(units))), 2)
	default:
		return 0, false, fmt.Errorf("split %q: %w: use %q, %q or %q", split, workload.ErrConfig, workload.Rows, workload.Columns, workload.Blocks)
	}
	columns = c.N
	if blocks > 1 {
		columns = max((c.N+blocks-1)/blocks, least)
		columns = (columns + panel.Columns - 1) / panel.Columns * panel.Columns
	}
	columns = min(columns, c.N, maxSide)
	return columns, whole && columns < c.N, nil
}

// cut copies a matrix with the columns of the product to blocks of columns, or back.
func (j *Job) cut(to, from []float32, rows int, back bool) {
	n := j.n.N
	_ = workload.Sweep(rows, func(lo, hi int) error {
		for first := 0; first < n; first += j.width {
			columns := min(j.width, n-first)
			for i := lo; i < hi; i++ {
				row, part := i*n+first, rows*first+i*columns
				if back {
					copy(to[row:][:columns], from[part:])
				} else {
					copy(to[part:][:columns], from[row:])
				}
			}
		}
		return nil
	})
}
