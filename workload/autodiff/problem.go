package autodiff

import (
	"fmt"
	"math"

	"github.com/weft-run/weft/internal/philox"
)

// rosenbrock is Σ 100(y − x²)² + (1 − x)² over neighbours x and y of n variables.
func rosenbrock(n int) ([]string, Expr) {
	variables, x := indexed(n)
	var terms []Expr
	for i := range n - 1 {
		valley, far := x[i+1].Sub(x[i].Mul(x[i])), Number(1).Sub(x[i])
		terms = append(terms, Number(100).Mul(valley.Mul(valley)).Add(far.Mul(far)))
	}
	return variables, Sum(terms...)
}

// rosenbrockSlope adds the gradient of rosenbrock at a point to d.
func rosenbrockSlope(d, x []float64) {
	for i := range len(x) - 1 {
		valley := x[i+1] - x[i]*x[i]
		d[i] += -400*x[i]*valley - 2*(1-x[i])
		d[i+1] += 200 * valley
	}
}

// indexed are n variables.
func indexed(n int) (names []string, x []Expr) {
	for i := range n {
		names = append(names, fmt.Sprintf("x%d", i+1))
		x = append(x, Variable(names[i]))
	}
	return names, x
}

// mixture is a mixed fluid: volumes b of its parts, and the attraction a of each pair of them.
type mixture struct {
	b []float64
	a [][]float64
}

// newMixture draws a fluid that is not too dense at points up to 1.
func newMixture(n int, seed uint32) *mixture {
	draw := philox.Source{Seed: seed, Stream: streamMixture}
	m := &mixture{b: make([]float64, n), a: make([][]float64, n)}
	for i := range n {
		m.b[i] = (0.2 + 0.6*philox.Unit(draw.Uint32(uint64(i), 0, 0))) / float64(n)
		m.a[i] = make([]float64, n)
		for j := range i + 1 {
			m.a[i][j] = (0.5 + philox.Unit(draw.Uint32(uint64(i), uint32(j)+1, 0))) / float64(n)
			m.a[j][i] = m.a[i][j]
		}
	}
	return m
}

// helmholtz is the Helmholtz energy of a mixed fluid at unit temperature (Griewank, "On
// automatic differentiation", 1989):
//
//	Σ xᵢ log(xᵢ/(1 − b·x)) − x·Ax/(√8 b·x) · log((1 + (1 + √2) b·x)/(1 + (1 − √2) b·x))
func (m *mixture) helmholtz() ([]string, Expr) {
	n := len(m.b)
	variables, x := indexed(n)
	var volumes, mixing, attraction []Expr
	for i := range n {
		volumes = append(volumes, Number(m.b[i]).Mul(x[i]))
		var row []Expr
		for j := range n {
			row = append(row, Number(m.a[i][j]).Mul(x[j]))
		}
		attraction = append(attraction, x[i].Mul(Sum(row...)))
	}
	volume := Sum(volumes...)
	free := Number(1).Sub(volume)
	for i := range n {
		mixing = append(mixing, x[i].Mul(Log(x[i].Div(free))))
	}
	over := Number(1).Add(Number(1 + math.Sqrt2).Mul(volume))
	under := Number(1).Add(Number(1 - math.Sqrt2).Mul(volume))
	pull := Sum(attraction...).Div(Number(math.Sqrt(8)).Mul(volume)).Mul(Log(over.Div(under)))
	return variables, Sum(mixing...).Sub(pull)
}

// slope adds the gradient of helmholtz at a point to d, by the closed form.
func (m *mixture) slope(d, x []float64) {
	var volume, attraction, total float64
	rows := make([]float64, len(x))
	for i := range x {
		volume += m.b[i] * x[i]
		total += x[i]
		for j := range x {
			rows[i] += m.a[i][j] * x[j]
		}
		attraction += x[i] * rows[i]
	}
	free, p, q := 1-volume, 1+math.Sqrt2, 1-math.Sqrt2
	u := math.Log((1 + p*volume) / (1 + q*volume))
	s := math.Sqrt(8) * volume
	for i := range x {
		mixing := math.Log(x[i]/free) + 1 + total*m.b[i]/free
		pull := 2*rows[i]*u/s - attraction*m.b[i]*u/(s*volume) + attraction/s*m.b[i]*(p/(1+p*volume)-q/(1+q*volume))
		d[i] += mixing - pull
	}
}
