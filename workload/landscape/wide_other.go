//go:build !amd64

package landscape

// addWide does nothing: add does all the work.
func (p *pair) addWide(row, cos, sin []float64) bool { return false }
