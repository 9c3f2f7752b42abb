package panel

// sumProductGo is the 4 × 4 tile for sums of products. The conversions keep
// compilers that could fuse from doing so: it rounds alike everywhere.
func sumProductGo(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, _ *float32, _ int) {
	c0, c1, c2, c3 := c[:4], c[ldc:][:4], c[2*ldc:][:4], c[3*ldc:][:4]
	a0, a1, a2, a3 := a[:len(off)], a[lda:][:len(off)], a[2*lda:][:len(off)], a[3*lda:][:len(off)]
	// Two columns at a time: eight sums and their operands fit the registers.
	for j := 0; j < 4; j += 2 {
		s00, s01 := c0[j], c0[j+1]
		s10, s11 := c1[j], c1[j+1]
		s20, s21 := c2[j], c2[j+1]
		s30, s31 := c3[j], c3[j+1]
		for p, o := range off {
			row := b[int(o)+j:][:2]
			b0, b1 := row[0], row[1]
			x := a0[p]
			s00 += float32(x * b0)
			s01 += float32(x * b1)
			x = a1[p]
			s10 += float32(x * b0)
			s11 += float32(x * b1)
			x = a2[p]
			s20 += float32(x * b0)
			s21 += float32(x * b1)
			x = a3[p]
			s30 += float32(x * b0)
			s31 += float32(x * b1)
		}
		c0[j], c0[j+1] = s00, s01
		c1[j], c1[j+1] = s10, s11
		c2[j], c2[j+1] = s20, s21
		c3[j], c3[j+1] = s30, s31
	}
}

// maxPlusGo is the 4 × 4 tile for maxima of sums.
func maxPlusGo(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, _ *float32, _ int) {
	for i := range 4 {
		row, left := c[i*ldc:][:4], a[i*lda:][:len(off)]
		m0, m1, m2, m3 := row[0], row[1], row[2], row[3]
		for p, o := range off {
			x, right := left[p], b[o:][:4]
			// A comparison, not the built-in max: it leaves the maximum alone
			// when the sum is no number, and so do the vector instructions.
			if s := x + right[0]; s > m0 {
				m0 = s
			}
			if s := x + right[1]; s > m1 {
				m1 = s
			}
			if s := x + right[2]; s > m2 {
				m2 = s
			}
			if s := x + right[3]; s > m3 {
				m3 = s
			}
		}
		row[0], row[1], row[2], row[3] = m0, m1, m2, m3
	}
}
