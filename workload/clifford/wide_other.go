//go:build !amd64

package clifford

// wide says whether products are computed eight numbers at a time: not here.
var wide = false

// wideTables are nothing where there is no assembly.
type wideTables struct{}

func newWideTables(*Algebra, []uint32) wideTables { return wideTables{} }

// products does nothing: [Algebra.products] does all the work.
func (w *wideTables) products(out, x, y []float32, xStep, yStep int) bool { return wide }
