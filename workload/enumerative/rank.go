package enumerative

// chunk is the number of fixed points that have one partial sum for each prime.
const chunk = 256

// chunks is the number of chunks of points.
func chunks(points int64) int64 { return (points + chunk - 1) / chunk }

// binomials are C(j,i) for j below n and i up to k, by rows of k+1. All are at most
// maxPoints for those j and i that a subset can have; others are kept from overflow by the
// limit.
func binomials(n, k int) []uint32 {
	out := make([]uint32, n*(k+1))
	for j := range n {
		out[j*(k+1)] = 1
		for i := 1; i <= k && j > 0; i++ {
			out[j*(k+1)+i] = min(out[(j-1)*(k+1)+i]+out[(j-1)*(k+1)+i-1], 1<<30)
		}
	}
	return out
}

// unrank writes the subset of a number in the combinatorial number system, where subset
// c_0 < c_1 < … has number Σ C(c_i, i+1).
func unrank(c []uint32, rank uint32, n int, table []uint32) {
	k := len(c)
	for i, j := k, n; i > 0; i-- {
		for j--; table[j*(k+1)+i] > rank; j-- {
		}
		rank -= table[j*(k+1)+i]
		c[i-1] = uint32(j)
	}
}

// next goes on to the subset with the next number, and returns the position of the last
// coordinate that changed.
func next(c []uint32) int {
	m := 0
	for ; m+1 < len(c) && c[m]+1 == c[m+1]; m++ {
		c[m] = uint32(m)
	}
	c[m]++
	return m
}
