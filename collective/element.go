package collective

import "fmt"

// Fold is an operation that combines several vectors into one, element by element.
type Fold uint8

// The folds there are. Sums and products of integers wrap around. A NaN stays a NaN;
// which one is not promised.
const (
	Sum Fold = iota // of the elements, in the order given
	// Average is the sum divided by the number of vectors; of integers the
	// quotient is truncated towards zero.
	Average
	Max             // NaN if there is one; +0 is larger than -0
	Min             // NaN if there is one; -0 is smaller than +0
	Product         // of the elements, in the order given
	numFolds = iota // how many there are
)

var foldNames = [...]string{"sum", "average", "max", "min", "product"}

// String returns the name of the fold in the names of kernels.
func (f Fold) String() string { return nameOf(foldNames[:], int(f)) }

// Exact reports whether a fold of elements of a type gives the same bits in any order.
func (f Fold) Exact(t Type) bool { return f == Max || f == Min || t == I32 || t == I64 }

// Type is the type of an element.
type Type uint8

// The types there are. Half precision is computed in single precision and rounded to
// nearest even after each step.
const (
	F32      Type   = iota // single precision
	F64                    // double precision
	F16                    // IEEE half precision
	BF16                   // the upper half of single precision
	I32                    // 32-bit integers, which wrap
	I64                    // 64-bit integers, which wrap
	numTypes = iota        // how many there are
)

var typeNames = [...]string{"f32", "f64", "f16", "bf16", "i32", "i64"}

// String returns the name of the type in the names of kernels.
func (t Type) String() string { return nameOf(typeNames[:], int(t)) }

// Size is the bytes of an element.
func (t Type) Size() int64 { return [...]int64{4, 8, 2, 2, 4, 8}[t] }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}
