// Package reduce folds long vectors of floating-point numbers into one: sum,
// average, maximum, minimum. [Of] folds a caller's vector on the devices of a runtime.
//
// A vector is cut into blocks of [Block] elements. A kernel folds each block of
// a range into one partial result, and another folds the partial
// results, in a tree whose shape depends on the length of the vector alone.
// Parts given to different devices that begin and end at blocks therefore give
// bitwise the same result for every cut: class X. A device's own order of
// additions within a block is prescribed too, and is one that
// a warp of 32 threads follows naturally. Parts that cut through blocks, or
// library routines, are class T for sums.
//
// The kernels run on the calling goroutine, allocate nothing and return to Go
// after every block.
package reduce

// Block is the number of elements that are folded into one partial result. It
// is a constant of the results: another value would round sums differently.
const Block = 4096

// lanes is the number of interleaved sums in a block.
const lanes = 32

// float is an element type.
type float interface{ float32 | float64 }

// blocksOf returns the number of blocks of a vector of n elements; the last one
// may be short.
func blocksOf(n int) int { return (n + Block - 1) / Block }

// block returns the elements of a block.
func block[T float](src []T, b int) []T {
	return src[b*Block : min((b+1)*Block, len(src))]
}

// sumBlocks writes the sums of the blocks lo to hi-1 of src to the same places
// of dst. Within a block, element i is added to lane i%32 in the order of the
// elements, starting from zero, and the lanes are then folded in halves: lane l
// and l+16, then l+8, and so on.
func sumBlocks[T float](dst, src []T, lo, hi int) {
	for b := lo; b < hi; b++ {
		dst[b] = sumBlock(block(src, b))
	}
}

func sumBlock[T float](src []T) T {
	var sum [lanes]T
	whole := len(src) / lanes * lanes
	if whole > 0 && sumWide(&sum, src[:whole]) {
		return foldLanes(&sum, src[whole:])
	}
	// Eight lanes at a time, because eight sums fit into registers; the block
	// stays in the nearest cache meanwhile.
	for l := 0; l < lanes; l += 8 {
		var s0, s1, s2, s3, s4, s5, s6, s7 T
		for i := l; i < whole; i += lanes {
			x := src[i : i+8 : i+8]
			s0 += x[0]
			s1 += x[1]
			s2 += x[2]
			s3 += x[3]
			s4 += x[4]
			s5 += x[5]
			s6 += x[6]
			s7 += x[7]
		}
		sum[l], sum[l+1], sum[l+2], sum[l+3] = s0, s1, s2, s3
		sum[l+4], sum[l+5], sum[l+6], sum[l+7] = s4, s5, s6, s7
	}
	return foldLanes(&sum, src[whole:])
}

// foldLanes adds the elements that do not fill all lanes, then the lanes.
func foldLanes[T float](sum *[lanes]T, rest []T) T {
	for i, x := range rest {
		sum[i] += x
	}
	for half := lanes / 2; half > 0; half /= 2 {
		for l := range half {
			sum[l] += sum[l+half]
		}
	}
	return sum[0]
}

// maxBlocks writes the largest elements of the blocks lo to hi-1 of src to the
// same places of dst. A block with a NaN yields a NaN; +0 is larger than -0.
func maxBlocks[T float](dst, src []T, lo, hi int) {
	for b := lo; b < hi; b++ {
		x := block(src, b)
		m, _, done := extremaWide(x)
		for _, v := range x[done:] {
			if !(v < m) { // larger, equal, or a NaN: seldom
				m = max(m, v)
			}
		}
		dst[b] = canonical(m)
	}
}

// minBlocks writes the smallest elements of the blocks lo to hi-1 of src to the
// same places of dst. A block with a NaN yields a NaN; -0 is smaller than +0.
func minBlocks[T float](dst, src []T, lo, hi int) {
	for b := lo; b < hi; b++ {
		x := block(src, b)
		_, m, done := extremaWide(x)
		for _, v := range x[done:] {
			if !(v > m) {
				m = min(m, v)
			}
		}
		dst[b] = canonical(m)
	}
}

// canonical returns x, or the NaN that zero divided by zero is: otherwise its
// bits would tell in which order several NaNs were met.
func canonical[T float](x T) T {
	if x != x {
		var zero T
		return zero / zero
	}
	return x
}

// sumOf folds the partial sums of all blocks of a vector into their sum and
// overwrites them. Neighbours are added in rounds, 0 and 1, 2 and 3, and so on,
// and an odd last one moves on unchanged. The sum of nothing is zero.
func sumOf[T float](partial []T) T {
	if len(partial) == 0 {
		return 0
	}
	for n := len(partial); n > 1; n = (n + 1) / 2 {
		for i := range n / 2 {
			partial[i] = partial[2*i] + partial[2*i+1]
		}
		if n%2 == 1 {
			partial[n/2] = partial[n-1]
		}
	}
	return partial[0]
}

// averageOf folds the partial sums of all blocks of a vector of n > 0 elements
// into its average and overwrites them.
func averageOf[T float](partial []T, n int) T { return sumOf(partial) / T(n) }

// maxOf returns the largest of one or more partial results of maxBlocks.
func maxOf[T float](partial []T) T {
	m := partial[0]
	for _, v := range partial[1:] {
		m = max(m, v)
	}
	return canonical(m)
}

// minOf returns the smallest of one or more partial results of minBlocks.
func minOf[T float](partial []T) T {
	m := partial[0]
	for _, v := range partial[1:] {
		m = min(m, v)
	}
	return canonical(m)
}

// cutBlocks divides a vector of n elements into parts runs of whole blocks whose
// numbers differ by one at most, and returns the block where each begins, with
// the number of blocks at the end.
func cutBlocks(n, parts int) []int {
	begin := make([]int, parts+1)
	for i := range begin {
		begin[i] = i * blocksOf(n) / parts
	}
	return begin
}

// ops returns the number of operations to fold n elements.
func ops(n int) float64 { return float64(n) }

// traffic returns the memory traffic, in bytes, to fold n elements of a size in bytes.
func traffic(n, size int) float64 { return float64(n) * float64(size) }
