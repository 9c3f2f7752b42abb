//go:build amd64 || arm64

package reduce

// sum32 and sum64 set the lanes of sum to their sums over a number of rows of src, each
// with an element for every lane.
//
//go:noescape
func sum32(sum, src *float32, rows int)

//go:noescape
func sum64(sum, src *float64, rows int)

// extrema32 and extrema64 set most and least to the largest and smallest elements, lane
// by lane, of a number of vectors of 64 bytes. A NaN among all elements is in both, or
// nan is true.
//
//go:noescape
func extrema32(most, least, src *float32, rows int) (nan bool)

//go:noescape
func extrema64(most, least, src *float64, rows int) (nan bool)

// sumWide sets the lanes of sum to the sums over a number of whole rows of src,
// if there is a kernel for it.
func sumWide[T float](sum *[lanes]T, src []T) bool {
	if !wide {
		return false
	}
	switch src := any(src).(type) {
	case []float32:
		sum32(&any(sum).(*[lanes]float32)[0], &src[0], len(src)/lanes)
	case []float64:
		sum64(&any(sum).(*[lanes]float64)[0], &src[0], len(src)/lanes)
	}
	return true
}

// extremaWide returns the largest and the smallest of the first elements of src,
// and how many those are: at least one.
func extremaWide[T float](src []T) (most, least T, done int) {
	var high, low [16]T
	var n int // elements in a vector
	var nan bool
	switch src := any(src).(type) {
	case []float32:
		if n = 16; wide && len(src) >= n {
			nan = extrema32(&any(&high).(*[16]float32)[0], &any(&low).(*[16]float32)[0], &src[0], len(src)/n)
		}
	case []float64:
		if n = 8; wide && len(src) >= n {
			nan = extrema64(&any(&high).(*[16]float64)[0], &any(&low).(*[16]float64)[0], &src[0], len(src)/n)
		}
	}
	if !wide || len(src) < n {
		return src[0], src[0], 1
	}
	most, least = high[0], low[0]
	if nan {
		var zero T
		most, least = zero/zero, zero/zero
	}
	for i := 1; i < n; i++ {
		most, least = max(most, high[i]), min(least, low[i])
	}
	return most, least, len(src) / n * n
}
