//go:build !amd64

package elastic

// dotsWide and subtractWide do nothing: dots and subtract do all the work.
func dotsWide(out, v, w []float64) bool   { return false }
func subtractWide(w, v, h []float64) bool { return false }
