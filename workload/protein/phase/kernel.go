package phase

import (
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/simd"
	"github.com/weft-run/weft/workload"
)

// params are the parameters of both kernels.
type params struct {
	residues int
	first    int // row of the task
	rows     int
	stride   int // numbers of the real parts of a row of ψ, and of the imaginary ones behind them
	time     float64
}

// rowsPerItem is the number of rows of the product that a kernel makes at a time.
const rowsPerItem = 4

var (
	// wavesOnDevices makes rows of ψ, and of Ψ what is beside the phase of the product. Its
	// arguments are the coordinates, the kinds of residues, rows of ψ, rows of Ψ, and for each row
	// the sum of α².
	wavesOnDevices = workload.With(graph.GoKernel("phase.waves", 1),
		workload.PTX(ptx, "phase_waves", 128, 1), workload.SPIRV(spirv, "phase_waves", 64, 1))
	// productOnDevices multiplies rows of ψ with all of them, and completes rows of Ψ with the
	// phase of that. Its arguments are all rows of ψ, the sums of α² of all rows, and rows of
	// Ψ; its grid is rows and residues.
	productOnDevices = workload.With(graph.GoKernel("phase.product", rowsPerItem, graph.All),
		workload.PTX(ptx, "phase_product", 64, 8, 8), workload.SPIRV(spirv, "phase_product", 64, 8, 8))
)

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: wavesOnDevices.Name, Does: "rows of waves and factors of phase states", Grid: "rows", Per: []uint32{1},
		Args: []signature.Arg{
			signature.In("beads", graph.F8), signature.In("kinds", graph.U4),
			signature.Out("waves", graph.F8), signature.Out("states", graph.F8), signature.Out("squares", graph.F8),
		},
	}, func(_ *weft.Call, p params) (n signature.Need, err error) {
		n.Items = int64(p.rows)
		n.Elements = [12]int64{
			signature.Product(p.residues, 3), int64(p.residues),
			signature.Product(p.rows, p.stride, 2), signature.Product(p.rows, p.residues, 2), int64(p.rows),
		}
		return n, p.check()
	}, waves),
	signature.Of(signature.Kernel{
		Name: productOnDevices.Name, Does: "phases of products of waves", Grid: "rows, residues", Per: []uint32{rowsPerItem, graph.All},
		Args: []signature.Arg{signature.In("waves", graph.F8), signature.In("squares", graph.F8), signature.InOut("states", graph.F8)},
	}, func(_ *weft.Call, p params) (n signature.Need, err error) {
		n.Items = signature.Parts(p.rows, rowsPerItem)
		n.Elements = [12]int64{signature.Product(p.residues, p.stride, 2), int64(p.residues), signature.Product(p.rows, p.residues, 2)}
		return n, p.check()
	}, products),
}

// kinds of residues, by which χ differs.
const (
	other uint32 = iota
	glycine
	proline
	alanine
	valine
	isoleucine
	leucine
	glutamate
	lysine
	aspartate
	arginine
)

var kindOf = map[string]uint32{
	"GLY": glycine, "PRO": proline, "ALA": alanine, "VAL": valine, "ILE": isoleucine, "LEU": leucine,
	"GLU": glutamate, "LYS": lysine, "ASP": aspartate, "ARG": arginine,
}

// chi is the factor of two kinds of residues.
func chi(a, b uint32) float64 {
	switch a, b = min(a, b), max(a, b); {
	case a == glycine || b == glycine:
		return 1.2
	case a == proline || b == proline:
		return 0.8
	case a == alanine && b == alanine:
		return 1.1
	case a == b && valine <= a && a <= leucine:
		return 0.9
	case a == glutamate && b == lysine || a == aspartate && b == arginine:
		return 1.3
	}
	return 1
}

// tau is the factor of two residues by the planes that they are in.
func tau(x []float64, i, j int) float64 {
	i, j = min(i, j), max(i, j)
	if 3*(j+2) > len(x) {
		return 1
	}
	a, b := cross(x, i+1, i, j), cross(x, j, j+1, i+1)
	lengthA, lengthB := math.Sqrt(dot(a, a)), math.Sqrt(dot(b, b))
	if lengthA < 1e-10 || lengthB < 1e-10 {
		return 1.2
	}
	switch c := dot(a, b) / (lengthA * lengthB); {
	case c > 0.5:
		return 1.2
	case c < -0.5:
		return 0.8
	}
	return 1
}

// cross is the product of the vectors from bead o to beads p and q.
func cross(x []float64, o, p, q int) (out [3]float64) {
	var a, b [3]float64
	for c := range 3 {
		a[c], b[c] = x[3*p+c]-x[3*o+c], x[3*q+c]-x[3*o+c]
	}
	for c := range 3 {
		u, v := (c+1)%3, (c+2)%3
		out[c] = float64(a[u]*b[v]) - float64(a[v]*b[u])
	}
	return out
}

func dot(a, b [3]float64) float64 {
	return float64(a[0]*b[0]) + float64(a[1]*b[1]) + float64(a[2]*b[2])
}

// Constants of the definition; lengths are in angstrom.
const (
	unitLength = 3.8
	coulomb    = 332.0636
	screening  = 10
	thermal    = 0.001987 * 300
	bondLength = 2.9
	// farthest is the distance beyond which a wave is zero: it would be smaller than the normal
	// numbers, and some devices do not compute with subnormal ones.
	farthest = 690 * unitLength
)

// energy is E.
func energy(d float64) float64 {
	q := unitLength / d
	q6 := q * q * q
	q6 *= q6
	e := coulomb*math.Exp(-d/screening)/d + 2*(q6*q6-q6)
	if d >= 2.5 && d <= 3.5 {
		q2 := bondLength / d
		q2 *= q2
		q10 := q2 * q2 * q2 * q2 * q2
		e += 2 * (5*q10*q2 - 6*q10)
	}
	return e
}

// raised is a factor of waves. Only the phases of their products matter, and without it products
// of waves of residues 1000 Å apart would be subnormal, which processors compute slowly.
const raised = 0x1p480

func waves(c *weft.Call, p params, lo, hi int) {
	beads, kinds := weft.View[float64](c.Args[0])[:3*p.residues], weft.View[uint32](c.Args[1])
	psi, states, squares := weft.View[float64](c.Args[2]), weft.View[float64](c.Args[3]), weft.View[float64](c.Args[4])
	for r := lo; r < hi && !c.Stopped(); r++ {
		i := p.first + r
		re, im := psi[2*r*p.stride:][:p.stride], psi[(2*r+1)*p.stride:][:p.stride]
		clear(re[p.residues:])
		clear(im[p.residues:])
		row := states[2*r*p.residues:][:2*p.residues]
		length2, alpha2 := 0.0, 0.0
		for j := range p.residues {
			if i == j {
				re[j], im[j] = 1, 0
				row[2*j], row[2*j+1] = 1, 0
				length2++
				continue
			}
			x, y, z := beads[3*i]-beads[3*j], beads[3*i+1]-beads[3*j+1], beads[3*i+2]-beads[3*j+2]
			d := math.Sqrt(float64(x*x) + float64(y*y) + float64(z*z))
			s := math.Abs(float64(i - j))
			re[j] = math.Exp(-d/unitLength) / (1 + s)
			if d >= farthest {
				re[j] = 0
			}
			im[j] = re[j] * math.Sin(2*math.Pi*s/float64(p.residues)+d/(10*unitLength))
			length2 += float64(re[j]*re[j]) + float64(im[j]*im[j])
			turned := 2 * math.Pi * math.Log(1+d/unitLength) * p.time
			e := math.Abs(energy(d))
			alpha := e * math.Abs(math.Cos(turned)) * math.Exp(-d/screening) * math.Exp(-e/thermal)
			alpha2 += float64(alpha * alpha)
			sin, cos := math.Sincos(turned + math.Pi*s/d)
			alpha *= chi(kinds[i], kinds[j]) * tau(beads, i, j)
			row[2*j], row[2*j+1] = alpha*cos, alpha*sin
		}
		squares[r] = alpha2
		scale := raised / math.Sqrt(length2)
		for j := range p.residues {
			re[j] *= scale
			im[j] *= scale
		}
	}
}

func products(c *weft.Call, p params, lo, hi int) {
	psi, squares, states := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1]), weft.View[float64](c.Args[2])
	sum := 0.0
	for _, s := range squares[:p.residues] {
		sum += s
	}
	scale := 0.0
	if sum > 0 {
		scale = 1 / math.Sqrt(sum)
	}
	var out [2 * together]float64
	end := min(hi*rowsPerItem, p.rows)
	// Rows of ψ that are multiplied are read once for a few rows.
	for j := 0; j < p.residues && !c.Stopped(); j += together {
		count := min(together, p.residues-j)
		others := psi[2*j*p.stride:][:2*count*p.stride]
		for r := lo * rowsPerItem; r < end; r++ {
			i := p.first + r
			product(out[:2*count], psi[2*i*p.stride:][:2*p.stride], others)
			row := states[2*(r*p.residues+j):][:2*count]
			for k := range count {
				if i != j+k {
					row[2*k], row[2*k+1] = turn(row[2*k]*scale, row[2*k+1]*scale, out[2*k], out[2*k+1])
				}
			}
		}
	}
}

// turn returns a complex number times another that is made as long as one; of zero the phase
// is zero.
func turn(re, im, x, y float64) (float64, float64) {
	largest := max(math.Abs(x), math.Abs(y))
	if largest == 0 {
		return re, im
	}
	x, y = x/largest, y/largest
	length := math.Sqrt(float64(x*x) + float64(y*y))
	x, y = x/length, y/length
	return float64(re*x) - float64(im*y), float64(re*y) + float64(im*x)
}

// lanes is the number of sums that a product is made of, in any kernel, and together the
// number of products that are made at a time.
const (
	lanes    = simd.Lanes
	together = 4
)

// use is the set of kernels in use. Tests set it to run the others.
var use = simd.Best

// product sets out to Σ conj(a) b, real and imaginary part, for each of some rows b, one
// after the other. A row is its real parts and then its imaginary ones.
func product(out, a, b []float64) {
	if productWide(out, a, b) {
		return
	}
	n := len(a) / 2
	ar, ai := a[:n], a[n:2*n]
	for k := 0; k < len(out); k += 2 {
		br, bi := b[k*n:][:n], b[(k+1)*n:][:n]
		var re, im [lanes]float64
		for at := 0; at < n; at += lanes {
			for l := range lanes {
				re[l] += float64(ar[at+l]*br[at+l]) + float64(ai[at+l]*bi[at+l])
				im[l] += float64(ar[at+l]*bi[at+l]) - float64(ai[at+l]*br[at+l])
			}
		}
		out[k], out[k+1] = simd.Sum(&re), simd.Sum(&im)
	}
}
