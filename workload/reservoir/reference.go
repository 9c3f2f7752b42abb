package reservoir

// Reference returns the next state of one pattern in float64, straight from the
// formula. It is what the kernels are compared with.
func (w *Weights) Reference(x, u []float64, pattern uint64, step uint32) []float64 {
	next, _ := w.follow(x, make([]float64, w.Size), u, pattern, step)
	return next
}
