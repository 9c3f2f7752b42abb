// Package fusion takes records of three algebras through three stages, the work
// of a pipeline over devices: a record has eight tropical numbers, eight dual
// numbers (a value and a derivative each) and a multivector of Cl(3,0).
//
//	T: tropical  t'_i = max_j (W_ij + t_j)
//	D: dual      (v, d) → (tanh a, (1 − tanh² a) g_i d) with a = g_i v + h_i
//	C: Clifford  c' = R c ~R for a rotor R
//
// [Of] takes a caller's records through them on the devices of a runtime. Two records are
// bound into one by [Bind], after the stages where a job asks for it.
// Each stage passes on what it does not touch, so that a record goes from stage
// to stage whole, as the values of a network's layers do. A record's result does
// not depend on how records are dealt out or which device does which stage: class
// R. What is not a number makes every number that depends on it none, on all
// backends. Which device does what is decided by package pipeline.
package fusion

import (
	"math"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload/clifford"
)

// Floats is the number of float32 in a record: 8 tropical numbers, 8 values, 8
// derivatives, 8 coefficients.
const Floats = 32

// Where the parts of a record begin.
const (
	tropicalAt   = 0
	valueAt      = 8
	derivativeAt = 16
	cliffordAt   = 24
)

// algebra is Cl(3,0), whose blades are 1, e1, e2, e3, e12, e13, e23 and e123.
var algebra = func() *clifford.Algebra {
	a, err := clifford.NewAlgebra(3, 0)
	if err != nil {
		panic(err) // there is one
	}
	return a
}()

// Product is the geometric product of two multivectors of Cl(3,0).
func Product(a, b [8]float64) (c [8]float64) {
	algebra.Product(c[:], a[:], b[:])
	return c
}

// reverse turns the order of vectors in every blade around.
func reverse(a [8]float64) [8]float64 {
	algebra.Reverse(a[:], a[:])
	return a
}

// Weights are what the stages use.
type Weights struct {
	Tropical [64]float32 // W, by row
	Scale    [8]float32  // g
	Shift    [8]float32  // h
	// Sandwich is c → R c ~R as a matrix, by row, as the function of that name makes it.
	Sandwich [64]float32
}

// weightFloats is the number of float32 in the weights.
const weightFloats = 64 + 8 + 8 + 64

// Rotor is the rotor that turns by an angle in the plane of a unit bivector:
// cos(t/2) − sin(t/2) B.
func Rotor(angle float64, b [3]float64) (r [8]float64) {
	sin, cos := math.Sincos(angle / 2)
	r[0] = cos
	for k := range b {
		r[4+k] = -sin * b[k]
	}
	return r
}

// Streams of random numbers.
const (
	streamRecords = iota
	streamWeights
)

// newWeights draws weights and returns them with their rotor.
func newWeights(seed uint32) (*Weights, [8]float64) {
	w := &Weights{}
	draw := philox.Source{Seed: seed, Stream: streamWeights}
	at := uint64(0)
	next := func() float64 { at++; return philox.Symmetric(draw.Uint32(at, 0, 0)) }
	for i := range w.Tropical {
		w.Tropical[i] = float32(next())
	}
	for i := range w.Scale {
		w.Scale[i], w.Shift[i] = float32(1.5*next()), float32(next())
	}
	plane := [3]float64{next(), next(), next()}
	norm := math.Sqrt(plane[0]*plane[0] + plane[1]*plane[1] + plane[2]*plane[2])
	for k := range plane {
		plane[k] /= norm
	}
	rotor := Rotor(math.Pi*next(), plane)
	w.Sandwich = Sandwich(rotor)
	return w, rotor
}

// Sandwich returns c → R c ~R for a rotor R as a matrix, by row.
func Sandwich(rotor [8]float64) (m [64]float32) {
	for j := range 8 {
		var unit [8]float64
		unit[j] = 1
		for i, x := range Product(Product(rotor, unit), reverse(rotor)) {
			m[8*i+j] = float32(x)
		}
	}
	return m
}

// floats are the weights in the order kernels get them.
func (w *Weights) floats() []float32 {
	out := make([]float32, 0, weightFloats)
	out = append(out, w.Tropical[:]...)
	out = append(out, w.Scale[:]...)
	out = append(out, w.Shift[:]...)
	return append(out, w.Sandwich[:]...)
}

// The stages of a record. in and out do not overlap.

func stageT(out, in, weights []float32) {
	w, t := weights[:64], in[tropicalAt:tropicalAt+8]
	copy(out, in)
	for i := range 8 {
		row := w[8*i : 8*i+8]
		most := row[0] + t[0]
		for j := 1; j < 8; j++ {
			most = max(most, row[j]+t[j])
		}
		out[tropicalAt+i] = most
	}
}

func stageD(out, in, weights []float32) {
	scale, shift := weights[64:72], weights[72:80]
	copy(out, in)
	for i := range 8 {
		v := float32(math.Tanh(float64(float32(scale[i]*in[valueAt+i]) + shift[i])))
		out[valueAt+i] = v
		out[derivativeAt+i] = (1 - float32(v*v)) * scale[i] * in[derivativeAt+i]
	}
}

func stageC(out, in, weights []float32) {
	m, c := weights[80:144], in[cliffordAt:cliffordAt+8]
	copy(out, in)
	for i := range 8 {
		row := m[8*i : 8*i+8]
		sum := float32(0)
		for j := range 8 {
			sum += float32(row[j] * c[j])
		}
		out[cliffordAt+i] = sum
	}
}

// products are the terms of the geometric product.
var products = func() (out [8][8]struct {
	blade int
	sign  float32
}) {
	for i := range out {
		for j := range out[i] {
			k, sign := algebra.BladeProduct(i, j)
			out[i][j].blade, out[i][j].sign = k, float32(sign)
		}
	}
	return out
}()

// Bind binds two records into one: the tropical product of their tropical numbers,
// which is their sum, the product of their dual numbers, and the geometric product
// of their multivectors. out may not overlap the others.
func Bind(out, a, b []float32) {
	for i := range 8 {
		out[tropicalAt+i] = a[tropicalAt+i] + b[tropicalAt+i]
		out[valueAt+i] = a[valueAt+i] * b[valueAt+i]
		out[derivativeAt+i] = float32(a[valueAt+i]*b[derivativeAt+i]) + float32(a[derivativeAt+i]*b[valueAt+i])
	}
	clear(out[cliffordAt : cliffordAt+8])
	for i := range 8 {
		for j := range 8 {
			p := &products[i][j]
			out[cliffordAt+p.blade] += p.sign * float32(a[cliffordAt+i]*b[cliffordAt+j])
		}
	}
}

// numStages is the number of stages.
const numStages = 3

// stageOps are the operations of each stage on a record; a tanh is about twenty.
var stageOps = [numStages]float64{2 * 64, 8 * 26, 2 * 64}

// bindOps are the operations of binding two records.
const bindOps = 8 + 8 + 3*8 + 2*64
