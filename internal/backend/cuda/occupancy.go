package cuda

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
)

// A function that leaves its block to the device can be launched in several
// shapes. Which is fastest is measured, like which of several implementations. The
// first launch takes the shape of the highest occupancy, and only shapes close to that
// are tried.

// maxShapes bounds the shapes tried for one function: each costs some launches.
const maxShapes = 4

// leavesBlock says that an implementation lets the device choose how many threads
// a block has.
func leavesBlock(impl *graph.Impl) bool {
	return impl.Dialect != graph.Library && impl.Block[0] == 0 && impl.Per[0] <= 1
}

// shapes returns a variant for each number of threads worth a try: what the driver
// suggests, then powers of two that keep the multiprocessors at least half as full.
func (d *device) shapes(v *variant) []*variant {
	with := func(block uint32) *variant {
		c := *v
		c.block = block
		return &c
	}
	f := getFrame()
	defer f.free()
	a := d.api
	best := uint32(0)
	if a.code(f, &a.occupancyShape, f.at(0), f.at(1), v.fn, 0, uintptr(v.impl.SharedBytes), 0) == 0 {
		best = uint32(f.i32(1))
	}
	if best == 0 {
		return []*variant{with(256)} // an old driver: a size every GPU takes
	}
	resident := func(block uint32) int { return d.active(f, v, block, v.impl.SharedBytes) * int(block) }
	sizes := []uint32{best}
	for _, n := range []uint32{256, 128, 512, 1024, 64} {
		if !slices.Contains(sizes, n) && len(sizes) < maxShapes && 2*resident(n) >= resident(best) {
			sizes = append(sizes, n)
		}
	}
	var out []*variant
	for _, n := range sizes {
		out = append(out, with(n))
	}
	return out
}

// active returns the number of blocks of a size that a multiprocessor runs at once, 0
// when the driver does not say.
func (d *device) active(f *frame, v *variant, block uint32, shared int) int {
	if d.api.code(f, &d.api.occupancyBlocks, f.at(0), v.fn, uintptr(block), uintptr(shared)) != 0 {
		return 0
	}
	return int(f.i32(0))
}

// shape is the launch of a step by a variant.
func (v *variant) shape(l graph.Launch) graph.Launch {
	if v.block == 0 || l.Block[0] != 0 {
		return v.impl.Shape(l)
	}
	cut := *v.impl
	cut.Per[0], cut.Block[0] = v.block, v.block
	return cut.Shape(l)
}

// tooLarge says how many blocks of a cooperative launch fit at once, where that
// was what was wrong.
func (d *device) tooLarge(v *variant, l *graph.Launch, code int32, err error) error {
	const cooperativeTooLarge = 720
	if code != cooperativeTooLarge {
		return err
	}
	f := getFrame()
	defer f.free()
	blocks := d.active(f, v, uint32(threads(l)), l.SharedBytes) * d.api.attribute(f, d.num, attrSMs)
	return fmt.Errorf("%w; of blocks of %d threads and %d bytes of shared memory %d fit at once", err, threads(l), l.SharedBytes, blocks)
}
