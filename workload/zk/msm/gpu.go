package msm

import (
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
)

// On GPUs a task is Pippenger's algorithm in steps. A scalar is cut into windows of some bits,
// from which digits with a sign follow, so that there is a bucket for each magnitude up to half of
// what a window holds. For each window, all in the same launches:
//
//   - count, chunks, offsets, starts, scatter: the points are sorted by the bucket of their digit,
//     by counting.
//   - points: a thread adds up a segment of the sorted points. Buckets that end within the segment
//     are done; the sums of its first and its last bucket are entries of a shorter list.
//   - sums: the same with that list, until it has one segment. However scalars are distributed, no
//     thread adds up more than a segment.
//   - weigh, fold: a thread adds up a segment of buckets by their weights, with sums of suffixes;
//     these are added up by sixteens.
//
// Last, pairs adds up windows, two and two, until there is one sum, and finish writes it in affine
// coordinates.
//
// Doublings follow one upon another, which takes long where there are few points. With a table of
// multiples of each point by powers of 2, windows of a scalar that are as far apart as two of the
// powers are one window, and fewer are to be added up: see multiples.go.

// gpuParams are the parameters of all kernels for GPUs. Places are words of the workspace. Counts
// are at its beginning, and the sums of buckets behind them.
type gpuParams struct {
	points, parts              int // of the range
	multiples                  int // of each point, in the table of points
	bits, windows, buckets     int // buckets of a window; windows of the digits that go with one multiple
	last                       int // bits of the last window
	clear                      int // words that are zero at first
	sorted, sums               int // where the sorted points are, and the sums of buckets
	segment, segments          int // entries of a segment (or doublings of a pair), and segments of a window
	entries                    int // of the list that is read, in a window
	from, fromSums, to, toSums int // where lists are: buckets, and sums
}

const (
	clearWords = 64 // that a thread clears
	chunkWords = 64 // counts of a chunk
	foldSums   = 4  // sums that are folded into one
	threads    = 128
)

// listSums is the number of entries of a segment of later lists. Short lists have short segments, since
// the additions that a thread makes one after another take most of their time.
func listSums(entries int64) int {
	if entries > 1<<18 {
		return 32
	}
	return leastList
}

// leastList is the smallest number of entries of such a segment.
const leastList = 8

// weighSums is the number of buckets of a segment that is weighed, by the number of buckets of all windows: the
// fewer there are, the more threads share them.
func weighSums(buckets int) int {
	if buckets >= 1<<17 {
		return 16
	}
	return 4
}

// gpuKernels are the kernels of a group.
type gpuKernels struct {
	clear, count, chunks, offsets, starts, scatter *graph.Kernel
	points, sums, weigh, fold, pairs, finish       *graph.Kernel
}

// gpuKernel is a kernel with an item for each thread, which is not for CPUs.
func gpuKernel(name, entry string) *graph.Kernel {
	return &graph.Kernel{Name: name, Impls: []graph.Impl{
		{Dialect: graph.Go},
		workload.PTX(ptx, entry, threads, threads),
		workload.SPIRV(spirv, entry, 64, 64),
	}}
}

func newKernels(group string) gpuKernels {
	own := func(name string) *graph.Kernel { return gpuKernel("msm."+group+"."+name, "msm_"+group+"_"+name) }
	k := sorting
	k.points, k.sums, k.weigh, k.fold, k.pairs, k.finish = own("points"), own("sums"), own("weigh"), own("fold"), own("pairs"), own("finish")
	return k
}

var (
	sorting = gpuKernels{
		clear: gpuKernel("msm.clear", "msm_clear"), count: gpuKernel("msm.count", "msm_count"), chunks: gpuKernel("msm.chunks", "msm_chunks"),
		offsets: gpuKernel("msm.offsets", "msm_offsets"), starts: gpuKernel("msm.starts", "msm_starts"), scatter: gpuKernel("msm.scatter", "msm_scatter"),
	}
	gpuG1, gpuG2 = newKernels("g1"), newKernels("g2")
)

// pointSegment is the number of points that a thread adds up: few for few points, so that there
// are threads for a whole GPU, and many for many, because each segment leaves two sums over.
func pointSegment(n int64, windows int) int {
	segment := 8
	for segment < 64 && n*int64(windows) > int64(segment)<<18 {
		segment *= 2
	}
	return segment
}

// layout hands out words of the workspace.
type layout int64

// take returns where n words begin, at a multiple of a sum's words in G2.
func (l *layout) take(n int64) int {
	at := *l
	*l += layout((n + 63) &^ 63)
	return int(at)
}

// gpuSteps are the steps of a task for GPUs, with the workspace that they need. Each point has a
// number of multiples in the table.
func gpuSteps[P Point](n, parts int64, bits, multiples int) (steps []graph.Step, workspace int64) {
	k := gpuG1
	if group[P]() == "G2" {
		k = gpuG2
	}
	sumWords := 2 * pointBytes[P]() / 4 // four coordinates
	p := gpuParams{points: int(n), parts: int(parts), multiples: multiples}
	p.bits, p.windows, p.last = cutWindows(bits, multiples)
	p.buckets = 1 << (p.bits - 1)
	w, listed := int64(p.windows), n*int64(multiples)
	var l layout
	step := func(k *graph.Kernel, p gpuParams, x, y int64) {
		steps = append(steps, graph.Step{Kernel: k, Launch: graph.Grid(x, y)}.With(p))
	}
	l.take(w * int64(p.buckets+1)) // counts
	p.sums = l.take(w * int64(p.buckets) * sumWords)
	p.clear = int(l)
	p.sorted = l.take(w * listed)
	step(k.clear, p, (int64(p.clear)+clearWords-1)/clearWords, 1)
	step(k.count, p, n, 1)
	q := p
	q.entries = p.buckets/chunkWords + 1
	q.to = l.take(w * int64(q.entries))
	step(k.chunks, q, int64(q.entries), w)
	step(k.offsets, q, w, 1)
	step(k.starts, q, int64(q.entries), w)
	step(k.scatter, p, n, 1)

	// Lists are read from one of two places and written to the other.
	q = p
	q.segment = pointSegment(listed, p.windows)
	q.segments = int((listed + int64(q.segment) - 1) / int64(q.segment))
	list := func(entries int64) (keys, sums int) { return l.take(w * entries), l.take(w * entries * sumWords) }
	q.to, q.toSums = list(2 * int64(q.segments))
	other, otherSums := list(2 * (2*int64(q.segments)/leastList + 1))
	step(k.points, q, int64(q.segments), w)
	for q.segments > 1 {
		q.entries = 2 * q.segments
		q.segment = listSums(w * int64(q.entries))
		q.segments = (q.entries + q.segment - 1) / q.segment
		q.from, q.fromSums, q.to, q.toSums, other, otherSums = q.to, q.toSums, other, otherSums, q.to, q.toSums
		step(k.sums, q, int64(q.segments), w)
	}
	steps = append(steps, reduceSteps(k, p, &l, sumWords)...)
	return steps, 4 * int64(l)
}

// reduceSteps returns the steps that reduce the sums of buckets to one.
func reduceSteps(k gpuKernels, p gpuParams, l *layout, sumWords int64) (steps []graph.Step) {
	step := func(k *graph.Kernel, p gpuParams, x, y int64) {
		steps = append(steps, graph.Step{Kernel: k, Launch: graph.Grid(x, y)}.With(p))
	}
	w, q := int64(p.windows), p
	q.segment = min(weighSums(p.windows*p.buckets), p.buckets)
	q.segments = p.buckets / q.segment
	q.toSums = l.take(w * int64(q.segments) * sumWords)
	otherSums := l.take(w * (int64(q.segments)/foldSums + 1) * sumWords)
	step(k.weigh, q, int64(q.segments), w)
	for q.segments > 1 {
		q.entries, q.segment, q.segments = q.segments, foldSums, (q.segments+foldSums-1)/foldSums
		q.fromSums, q.toSums, otherSums = q.toSums, otherSums, q.toSums
		step(k.fold, q, int64(q.segments), w)
	}
	q.segments, q.segment = p.windows, p.bits
	for ; q.segments > 1; q.segment *= 2 {
		q.entries, q.segments = q.segments, (q.segments+1)/2
		q.fromSums, q.toSums, otherSums = q.toSums, otherSums, q.toSums
		step(k.pairs, q, int64(q.segments), 1)
	}
	q.fromSums = q.toSums
	step(k.finish, q, int64(p.parts), 1)
	return steps
}
