//go:build !amd64

package autodiff

// vector is the number that block lengths are multiples of.
const vector = 1

func add(out, a, b []float64)                               { addGo(out, a, b) }
func sub(out, a, b []float64)                               { subGo(out, a, b) }
func mul(out, a, b []float64)                               { mulGo(out, a, b) }
func div(out, a, b []float64)                               { divGo(out, a, b) }
func addNumber(out, a []float64, b float64)                 { addNumberGo(out, a, b) }
func subNumber(out, a []float64, b float64)                 { subNumberGo(out, a, b) }
func mulNumber(out, a []float64, b float64)                 { mulNumberGo(out, a, b) }
func divNumber(out, a []float64, b float64)                 { divNumberGo(out, a, b) }
func mulAdd(out, a, b, c []float64)                         { mulAddGo(out, a, b, c) }
func mulAddNumber(out, a []float64, b float64, c []float64) { mulAddNumberGo(out, a, b, c) }
func sqrt(out, a []float64)                                 { sqrtGo(out, a) }
