package msm

import "github.com/consensys/gnark-crypto/ecc/bn254/fr"

// Naive is the sum by doubling and adding, with the formulas of school.
func Naive[P Point](points []P, scalars []fr.Element) P { return naiveSum(points, scalars) }

// What tests name from outside the package.
var ErrWrong = errWrong
